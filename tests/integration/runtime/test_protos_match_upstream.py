"""Every message, field, enum and method of protos/ is compared with the full upstream definitions.

These come from Debian's packages of them, fetched from the mirror this machine itself uses. Where they cannot be had
the tests report themselves as skipped.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, ServiceDescriptor

from minikubelet.runtime.pb import (
    content_pb2,
    cri_pb2,
    events_pb2,
    images_pb2,
    introspection_pb2,
    leases_pb2,
    task_events_pb2,
    tasks_pb2,
    types_pb2,
    version_pb2,
)

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(300)]

#: The Debian suite whose packages have both definitions; CRI's compile by themselves there.
SUITE = "forky"
PACKAGES = ("golang-k8s-cri-api-dev", "golang-github-containerd-containerd-api-dev")
_API = "github.com/containerd/containerd/api"
_SERVICES = ("content", "events", "images", "introspection", "leases", "tasks", "version")
FILES = (
    "k8s.io/cri-api/pkg/apis/runtime/v1/api.proto",
    *(f"{_API}/services/{name}/v1/{name}.proto" for name in _SERVICES),
    f"{_API}/events/task.proto",
    f"{_API}/types/descriptor.proto",
    f"{_API}/types/event.proto",
)
OURS = tuple(
    module.DESCRIPTOR
    for module in (
        content_pb2,
        cri_pb2,
        events_pb2,
        images_pb2,
        introspection_pb2,
        leases_pb2,
        tasks_pb2,
        task_events_pb2,
        types_pb2,
        version_pb2,
    )
)
#: Named otherwise here, for the reason given in introspection.proto.
RENAMED = {"containerd.services.introspection.v1.InitError": "google.rpc.Status"}
#: The same on the wire: newer CRI calls the value of a variable bytes.
SAME_ON_THE_WIRE = {("runtime.v1.KeyValue.value", FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)}

#: Imported by one upstream file, but packaged elsewhere.
_RPC_STATUS = """syntax = "proto3";
package google.rpc;
import "google/protobuf/any.proto";
message Status { int32 code = 1; string message = 2; repeated google.protobuf.Any details = 3; }
"""


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> descriptor_pool.DescriptorPool:
    folder = tmp_path_factory.mktemp("upstream")
    sources = _fetch(folder)
    (folder / "extra/google/rpc").mkdir(parents=True)
    (folder / "extra/google/rpc/status.proto").write_text(_RPC_STATUS)
    compiled = folder / "all.pb"
    grpc_tools = pytest.importorskip("grpc_tools")
    includes = [sources, folder / "extra", Path(grpc_tools.__file__).parent / "_proto"]
    command = [sys.executable, "-m", "grpc_tools.protoc", "--include_imports", f"--descriptor_set_out={compiled}"]
    subprocess.run([*command, *(f"-I{include}" for include in includes), *FILES], check=True, cwd=sources)
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(compiled.read_bytes()).file:
        pool.Add(file)
    return pool


def _fetch(folder: Path) -> Path:
    """Unpack the packages; the folder of sources within them. Skips the tests where that is not possible."""
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        pytest.skip("the upstream definitions come from Debian packages, and this is no Debian")
    places = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(COMPONENT)", "Created-By: Packages"],
        check=False,
        capture_output=True,
        text=True,
    )
    mirrors = [line.split()[0] for line in places.stdout.splitlines() if line.endswith(" main")]
    # The security archive has its suites under other names.
    mirrors = [mirror for mirror in dict.fromkeys(mirrors) if "security" not in mirror]
    for mirror in mirrors:
        lists = folder / "lists"
        (lists / "partial").mkdir(parents=True, exist_ok=True)
        (folder / "sources.list").write_text(f"deb {mirror} {SUITE} main\n")
        options = [
            f"Dir::Etc::sourcelist={folder}/sources.list",
            "Dir::Etc::sourceparts=-",
            f"Dir::State::Lists={lists}",
        ]
        apt = ["apt-get", "-qq", *(part for option in options for part in ("-o", option))]
        done = [
            subprocess.run([*apt, *what], check=False, capture_output=True, text=True, cwd=folder).returncode
            for what in (("update",), ("download", *PACKAGES))
        ]
        if done == [0, 0]:
            for package in folder.glob("*.deb"):
                subprocess.run(["dpkg", "-x", str(package), str(folder / "root")], check=True)
            return folder / "root/usr/share/gocode/src"
    pytest.skip(f"{' and '.join(PACKAGES)} cannot be had from this machine's package mirror")


def _messages(messages: Iterable[Descriptor]) -> Iterator[Descriptor]:
    for message in messages:
        if not message.GetOptions().map_entry:
            yield message
            yield from _messages(message.nested_types)


def _theirs(name: str) -> str:
    return RENAMED.get(name, name)


def _shape(field: FieldDescriptor) -> tuple[str, int, bool, str]:
    """Name, number, whether repeated, and the type by which it refers to others."""
    refers_to = field.message_type or field.enum_type
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        parts = [_shape(part) for part in field.message_type.fields]
        return field.name, field.number, True, f"map{parts}"
    return field.name, field.number, field.is_repeated, _theirs(refers_to.full_name) if refers_to else ""


def _enums() -> Iterator[EnumDescriptor]:
    for file in OURS:
        yield from file.enum_types_by_name.values()
        for message in _messages(file.message_types_by_name.values()):
            yield from message.enum_types


def test_every_message_and_field_is_upstreams(upstream: descriptor_pool.DescriptorPool) -> None:
    compared = 0
    for file in OURS:
        for message in _messages(file.message_types_by_name.values()):
            theirs = upstream.FindMessageTypeByName(_theirs(message.full_name))
            for field in message.fields:
                other = theirs.fields_by_number.get(field.number)
                assert other is not None, f"{field.full_name} = {field.number} is not upstream"
                assert _shape(field) == _shape(other), field.full_name
                same = field.type == other.type or (field.full_name, field.type, other.type) in SAME_ON_THE_WIRE
                assert same, f"{field.full_name} is of another type upstream"
                compared += 1
    assert compared > 300  # nothing was left out by mistake


def test_every_enum_value_is_upstreams(upstream: descriptor_pool.DescriptorPool) -> None:
    for enum in _enums():
        theirs = upstream.FindEnumTypeByName(enum.full_name).values_by_name
        for value in enum.values:
            assert theirs[value.name].number == value.number, f"{enum.full_name}.{value.name}"


def test_every_method_is_upstreams(upstream: descriptor_pool.DescriptorPool) -> None:
    services: list[ServiceDescriptor] = [service for file in OURS for service in file.services_by_name.values()]
    assert {service.full_name.split(".")[-1] for service in services} >= {"RuntimeService", "ImageService", "Events"}
    for service in services:
        theirs = upstream.FindServiceByName(service.full_name).methods_by_name
        for method in service.methods:
            other = theirs[method.name]
            assert (method.client_streaming, method.server_streaming) == (
                other.client_streaming,
                other.server_streaming,
            )
            assert method.input_type.full_name == other.input_type.full_name, method.full_name
            assert method.output_type.full_name == other.output_type.full_name, method.full_name

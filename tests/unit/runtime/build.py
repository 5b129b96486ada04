"""Short ways to pods, nodes and CRI messages for these tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from minikubelet.api.meta import ObjectMeta
from minikubelet.api.objects import Objects
from minikubelet.api.pod import Container, Pod, PodSpec
from minikubelet.runtime.mapping import (
    ContainerInputs,
    ImageFacts,
    MountSources,
    NodeContext,
    container_config,
    container_environment,
    sandbox_config,
)
from minikubelet.runtime.pb import cri_pb2

NODE = NodeContext(
    node_name="node1",
    node_ip="192.168.1.10",
    root_dir=Path("/var/lib/mk"),
    log_dir=Path("/var/log/pods"),
    memory_capacity=25276063744,
    systemd_cgroups=False,
)
INPUTS = ContainerInputs(restart_count=0, image=ImageFacts(ref="sha256:abc", uid=0))
MAIN = Container(name="main", image="busybox:1.36")


def node(**changes: Any) -> NodeContext:
    return msgspec.structs.replace(NODE, **changes)


def container(name: str = "main", *, requests: Any = None, limits: Any = None, **fields: Any) -> Container:
    resources = {"requests": requests or {}, "limits": limits or {}}
    fields = {"name": name, "image": "busybox:1.36", "resources": resources, **fields}
    return msgspec.convert({key: value for key, value in fields.items() if value is not None}, Container)


def pod(*containers: Container, init: tuple[Container, ...] = (), metadata: Any = None, **spec: Any) -> Pod:
    meta = {"name": "web", "namespace": "default", "uid": "u-1", **(metadata or {})}
    fields = msgspec.convert(spec, PodSpec)
    return Pod(
        metadata=msgspec.convert(meta, ObjectMeta),
        spec=msgspec.structs.replace(fields, containers=containers or (MAIN,), init_containers=init),
    )


def sandbox(of: Pod | None = None, *, attempt: int = 0, at: NodeContext = NODE) -> cri_pb2.PodSandboxConfig:
    config, _ = sandbox_config(of or pod(), at, attempt=attempt, resolv_conf="nameserver 10.0.0.53\n")
    return config


def made(
    of: Container = MAIN, *, restart_count: int = 0, within: Pod | None = None, at: NodeContext = NODE, **inputs: Any
) -> cri_pb2.ContainerConfig:
    environment = container_environment(within or pod(of), of, at, objects=Objects())
    sources = {name: inputs.pop(name) for name in tuple(inputs) if name in MountSources.__struct_fields__}
    mounts = MountSources(**sources)
    given = msgspec.structs.replace(
        INPUTS, restart_count=restart_count, environment=environment, mounts=mounts, **inputs
    )
    return container_config(within or pod(of), of, at, given)

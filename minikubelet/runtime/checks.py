"""Look at the runtime before anything is asked of it, and say plainly what is wrong and how to mend it (CD 6, 10, 13).

`daemon.py` waits in `inspect` until pods can be run, and has `keep_looking` run beside them; a `check` command shows
what `look` finds.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc.aio
import msgspec
import structlog

from minikubelet.runtime.cri import CRIClient
from minikubelet.runtime.errors import (
    ContainerRuntimeError,
    RuntimeUnavailableError,
    UnimplementedError,
    translated,
)
from minikubelet.runtime.images import ImageService
from minikubelet.runtime.pb import cri_pb2, introspection_pb2, introspection_pb2_grpc
from minikubelet.runtime.socket_check import Finding, socket_finding

__all__ = ["Finding", "Report", "RuntimeFacts", "inspect", "keep_looking", "look"]

log = structlog.get_logger(__name__)

_AGAIN_FIRST, _AGAIN_MAX = 0.1, 2.0
#: Seconds between looks beside pods that run: no event tells that a network or an image has come or gone.
_LOOK_PERIOD = 15.0
_CONFIG = "/etc/containerd/config.toml"


class RuntimeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a runtime that answers. Empty or None: it does not say."""

    name: str
    version: str
    api_version: str
    systemd_cgroups: bool | None = None
    sandbox_image: str = ""
    cni_bin_dirs: tuple[str, ...] = ()
    cni_conf_dir: str = ""
    #: Handlers that can give a pod user ids of its own, and those that can make mounts read-only all the way down. The
    #: handler "" is the default.
    user_namespaces: frozenset[str] = frozenset()
    recursive_read_only: frozenset[str] = frozenset()
    #: Whether a pod's groups can be held to those that it names.
    strict_groups: bool = False

    @property
    def image_volumes(self) -> bool:
        """Whether it can mount an image into a container: nothing but its version tells (CRI has no word for it)."""
        found = re.match(r"v?(\d+)\.(\d+)\.", self.version)
        return self.name == "containerd" and found is not None and (int(found[1]), int(found[2])) >= (2, 1)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """`facts` is None when pods cannot be run; `findings` then begin with the reason."""

    facts: RuntimeFacts | None
    findings: tuple[Finding, ...]


async def inspect(
    channel: grpc.aio.Channel,
    *,
    endpoint: str,
    tell: Callable[[tuple[Finding, ...]], None],
    cgroup_driver: str = "",
) -> RuntimeFacts:
    """Wait until pods can be run. `tell` is called with what there is to say, each time that this changes.

    `cgroup_driver`: as configured; empty: whatever the runtime has.
    """
    told: tuple[Finding, ...] | None = None
    pause = _AGAIN_FIRST
    while True:
        report = await look(channel, endpoint=endpoint, cgroup_driver=cgroup_driver)
        if report.findings != told:
            told = report.findings
            tell(told)
        if report.facts is not None:
            return report.facts
        await asyncio.sleep(pause)
        pause = min(pause * 2, _AGAIN_MAX)


async def keep_looking(
    channel: grpc.aio.Channel,
    *,
    endpoint: str,
    tell: Callable[[tuple[Finding, ...]], None],
    cgroup_driver: str = "",
) -> None:
    """Until cancelled, `tell` now and then what there is to say: some of it is mended, or something else goes wrong."""
    while True:
        await asyncio.sleep(_LOOK_PERIOD)
        try:
            report = await look(channel, endpoint=endpoint, cgroup_driver=cgroup_driver)
        except Exception:
            log.exception("what containerd says of itself could not be understood")  # which is no reason to end
            continue
        tell(report.findings)


async def look(channel: grpc.aio.Channel, *, endpoint: str, cgroup_driver: str = "") -> Report:
    """One look at everything; never raises for what it finds."""
    if finding := await asyncio.to_thread(socket_finding, endpoint):
        return Report(facts=None, findings=(finding,))
    cri = CRIClient(channel)
    try:
        version = await cri.version()
        status = await cri.status(verbose=True)
    except UnimplementedError:
        return Report(facts=None, findings=(await _why_no_cri(channel),))
    except RuntimeUnavailableError as error:
        finding = Finding(
            problem=f"containerd does not answer on {endpoint}: {error}", remedy="wait: it may be starting"
        )
        return Report(facts=None, findings=(finding,))
    except ContainerRuntimeError as error:
        remedy = "look at its log: journalctl -u containerd"
        return Report(facts=None, findings=(Finding(problem=f"containerd fails: {error}", remedy=remedy),))
    conditions = {condition.type: condition for condition in status.status.conditions}
    if (ready := conditions.get("RuntimeReady")) is not None and not ready.status:
        problem = f"containerd is not ready to run pods: {ready.reason}: {ready.message}"
        finding = Finding(problem=problem, remedy="look at its log: journalctl -u containerd")
        return Report(facts=None, findings=(finding,))
    facts = await _facts(cri, version, status)
    findings = [
        *_cgroup_findings(facts, cgroup_driver),
        *_network_findings(conditions.get("NetworkReady"), facts, status),
    ]
    if missing := await _sandbox_image_finding(channel, facts):
        findings.append(missing)
    return Report(facts=facts, findings=tuple(findings))


async def _why_no_cri(channel: grpc.aio.Channel) -> Finding:
    """CRI v1 is unknown to what answers: turned off, broken, or too old (CD 10)."""
    stub = introspection_pb2_grpc.IntrospectionStub(channel)
    request = introspection_pb2.PluginsRequest(filters=["type==io.containerd.grpc.v1,id==cri"])
    try:
        with translated():
            plugins = (await stub.Plugins(request, timeout=10)).plugins
    except ContainerRuntimeError:
        return Finding(
            problem="what listens on the socket knows neither CRI v1 nor containerd's own services",
            remedy="point containerRuntimeEndpoint to containerd's socket; containerd 1.6 or newer is needed",
        )
    if not plugins:
        return Finding(
            problem="containerd's CRI plugin is turned off",
            remedy=f'take "cri" (or "io.containerd.grpc.v1.cri") out of disabled_plugins in {_CONFIG}, '
            "then: systemctl restart containerd",
        )
    if plugins[0].HasField("init_err"):
        return Finding(
            problem=f"containerd's CRI plugin failed to load: {plugins[0].init_err.message}",
            remedy=f"mend its section in {_CONFIG}, then: systemctl restart containerd",
        )
    return Finding(
        problem="this containerd is too old: it does not serve CRI v1", remedy="install containerd 1.6 or newer"
    )


async def _facts(cri: CRIClient, version: cri_pb2.VersionResponse, status: cri_pb2.StatusResponse) -> RuntimeFacts:
    config = _json(status, "config")
    cni = config.get("cni") or {}
    try:
        systemd: bool | None = await cri.uses_systemd_cgroups()
    except ContainerRuntimeError:
        systemd = _systemd_by_config(config)
    return RuntimeFacts(
        name=version.runtime_name,
        version=version.runtime_version,
        api_version=version.runtime_api_version,
        systemd_cgroups=systemd,
        sandbox_image=config.get("sandboxImage") or "",
        cni_bin_dirs=tuple(cni.get("binDirs") or [d for d in [cni.get("binDir")] if d]),
        cni_conf_dir=cni.get("confDir") or "",
        user_namespaces=frozenset(h.name for h in status.runtime_handlers if h.features.user_namespaces),
        recursive_read_only=frozenset(h.name for h in status.runtime_handlers if h.features.recursive_read_only_mounts),
        strict_groups=status.features.supplemental_groups_policy,
    )


def _systemd_by_config(config: dict[str, Any]) -> bool | None:
    """The default runtime's setting; unset means cgroupfs."""
    containerd = config.get("containerd") or {}
    runtime = (containerd.get("runtimes") or {}).get(containerd.get("defaultRuntimeName"))
    return None if runtime is None else bool((runtime.get("options") or {}).get("SystemdCgroup"))


def _cgroup_findings(facts: RuntimeFacts, configured: str) -> Iterator[Finding]:
    """CG-2: the two have to agree, or no container starts."""
    if facts.systemd_cgroups is None or not configured or (configured == "systemd") == facts.systemd_cgroups:
        return
    used = "systemd" if facts.systemd_cgroups else "cgroupfs"
    yield Finding(
        problem=f"cgroupDriver is {configured} in the configuration, but containerd uses {used}: pods will not start",
        remedy="leave cgroupDriver out of the configuration, so that containerd is asked, or change SystemdCgroup in "
        f"{_CONFIG}",
    )


def _network_findings(
    ready: cri_pb2.RuntimeCondition | None, facts: RuntimeFacts, status: cri_pb2.StatusResponse
) -> Iterator[Finding]:
    """Warnings: pods on the host's network run all the same."""
    if ready is not None and not ready.status:
        where = facts.cni_conf_dir or "/etc/cni/net.d"
        load = status.info.get("lastCNILoadStatus", "")
        yield Finding(
            problem=f"there is no pod network: {ready.message or ready.reason}" + (f" ({load})" if load else ""),
            remedy=f"put a CNI configuration into {where}; it is taken up at once",
        )
        return
    networks = _json(status, "cniconfig").get("Networks") or []
    wanted = {p["Network"]["type"]: None for network in networks for p in network["Config"].get("Plugins") or []}
    wanted |= {
        ipam: None
        for network in networks
        for p in network["Config"].get("Plugins") or []
        if (ipam := (p["Network"].get("ipam") or {}).get("type"))
    }
    missing = [name for name in wanted if not any(Path(folder, name).exists() for folder in facts.cni_bin_dirs)]
    if missing and facts.cni_bin_dirs:
        yield Finding(
            problem=f"the pod network needs the CNI plugins {', '.join(missing)}, which are not in "
            f"{' or '.join(facts.cni_bin_dirs)}",
            remedy=f"install them (Debian: containernetworking-plugins), or set bin_dir in {_CONFIG} to where they are",
        )


async def _sandbox_image_finding(channel: grpc.aio.Channel, facts: RuntimeFacts) -> Finding | None:
    if not facts.sandbox_image:
        return None
    try:
        present = await ImageService(channel).status(facts.sandbox_image)
    except ContainerRuntimeError:
        return None
    if present is not None:
        return None
    return Finding(
        problem=f"the image that every pod's sandbox needs, {facts.sandbox_image}, is not on this host yet",
        remedy="containerd pulls it for the first pod; without a network, put an archive of it into the folder of "
        f"image archives (imageArchivesPath), or name another one as sandbox_image in {_CONFIG}",
    )


def _json(status: cri_pb2.StatusResponse, key: str) -> dict[str, Any]:
    """A part of the verbose status; {} if it is missing or no object."""
    try:
        value = json.loads(status.info.get(key, ""))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}

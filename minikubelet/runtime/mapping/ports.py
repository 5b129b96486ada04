"""Which ports CRI is to map (PM-1 to PM-3). Unlike the kubelet's, sidecars' ports count as well."""

from __future__ import annotations

from collections.abc import Iterator

from minikubelet.api.pod import Container, ContainerPort, Pod, is_sidecar
from minikubelet.runtime.pb import cri_pb2


def port_mappings(pod: Pod) -> list[cri_pb2.PortMapping]:
    sidecars = (c for c in pod.spec.init_containers if is_sidecar(c))
    return [mapping for container in (*pod.spec.containers, *sidecars) for mapping in _of_container(container)]


def _of_container(container: Container) -> Iterator[cri_pb2.PortMapping]:
    seen = set()
    for port in container.ports:
        key = _key(port)
        if key not in seen:
            seen.add(key)
            yield cri_pb2.PortMapping(
                protocol=cri_pb2.Protocol.Value(port.protocol),
                container_port=port.container_port,
                host_port=port.host_port,
                host_ip=port.host_ip,
            )


def _key(port: ContainerPort) -> str:
    """PM-2."""
    if port.name:
        return port.name
    family = ("v6" if ":" in port.host_ip else "v4") if port.host_ip else "any"
    return f"{family}-{port.protocol}-{port.host_ip}:{port.container_port}:{port.host_port}"

"""All checks of a pod, in the reference's order (VA-1). Called by `decode`."""

from __future__ import annotations

from minikubelet.api.pod import Pod, is_sidecar
from minikubelet.api.problems import Problem, forbidden, required


def validate_pod(pod: Pod, *, sidecar_containers: bool) -> list[Problem]:
    problems = []
    if not pod.metadata.name:
        problems.append(required("metadata.name", "name is needed for the pod"))
    if not pod.spec.containers:
        problems.append(required("spec.containers"))
    if not sidecar_containers:
        for index, container in enumerate(pod.spec.init_containers):
            if is_sidecar(container):
                detail = "sidecars are switched off: the feature gate SidecarContainers is false in the configuration"
                problems.append(forbidden(f"spec.initContainers[{index}].restartPolicy", detail))
    return problems

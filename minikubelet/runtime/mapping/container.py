"""A Container as CRI's ContainerConfig (CC-1 to CC-9)."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from minikubelet.api.definition import container_hash
from minikubelet.api.expansion import expand
from minikubelet.api.pod import Container, Pod
from minikubelet.runtime.mapping import labels
from minikubelet.runtime.mapping.environment import Environment
from minikubelet.runtime.mapping.mounts import MountSources, container_mounts
from minikubelet.runtime.mapping.node import NodeContext
from minikubelet.runtime.mapping.paths import container_log_path
from minikubelet.runtime.mapping.resources import container_resources
from minikubelet.runtime.mapping.security import container_security
from minikubelet.runtime.mapping.users import with_own_ids
from minikubelet.runtime.pb import cri_pb2


class ImageFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the runtime knows of the image: `ref` is its id, or what PullImage returned (CC-2)."""

    ref: str
    uid: int | None = None
    username: str = ""

    @classmethod
    def of(cls, image: cri_pb2.Image) -> ImageFacts:
        return cls(ref=image.id, uid=image.uid.value if image.HasField("uid") else None, username=image.username)


class ContainerInputs(msgspec.Struct, frozen=True, kw_only=True):
    """What has to be there before a container can be made."""

    restart_count: int
    image: ImageFacts
    environment: Environment = Environment()
    mounts: MountSources = MountSources()
    #: The first of the host's user ids that are the pod's own (SB-11); None: it has the host's user namespace.
    first_id: int | None = None


def container_config(
    pod: Pod, container: Container, node: NodeContext, inputs: ContainerInputs
) -> cri_pb2.ContainerConfig:
    """Raises MountError or NonRootError, for CreateContainerConfigError."""
    env = inputs.environment.variables
    return cri_pb2.ContainerConfig(
        metadata=cri_pb2.ContainerMetadata(name=container.name, attempt=inputs.restart_count),
        image=cri_pb2.ImageSpec(image=inputs.image.ref, user_specified_image=container.image),
        command=[expand(word, env) for word in container.command],
        args=[expand(word, env) for word in container.args],
        working_dir=container.working_dir,
        envs=[cri_pb2.KeyValue(key=key, value=value) for key, value in env.items()],
        mounts=with_own_ids(container_mounts(pod, container, node, inputs.mounts), inputs.first_id),
        labels=labels.pod_labels(pod) | {labels.CONTAINER_NAME: container.name},
        annotations=_annotations(pod, container, node, inputs),
        log_path=container_log_path(container.name, inputs.restart_count),
        stdin=container.stdin,
        stdin_once=container.stdin_once,
        tty=container.tty,
        linux=cri_pb2.LinuxContainerConfig(
            resources=container_resources(pod, container, node),
            security_context=container_security(
                pod,
                container,
                node,
                image_uid=inputs.image.uid,
                image_user=inputs.image.username,
                first_id=inputs.first_id,
            ),
        ),
    )


def _annotations(pod: Pod, container: Container, node: NodeContext, inputs: ContainerInputs) -> dict[str, str]:
    """CC-7, and our own marks."""
    annotations = {
        labels.HASH: container_hash(container),
        labels.RESTART_COUNT: str(inputs.restart_count),
        labels.TERMINATION_MESSAGE_PATH: container.termination_message_path,
        labels.TERMINATION_MESSAGE_POLICY: container.termination_message_policy,
        labels.TERMINATION_GRACE_PERIOD: str(pod.spec.termination_grace_period_seconds),
        labels.OWNER: str(node.root_dir),
        labels.IMAGE: container.image,
    }
    if container.lifecycle and container.lifecycle.pre_stop:
        annotations[labels.PRE_STOP_HANDLER] = msgspec.json.encode(container.lifecycle.pre_stop).decode()
    if container.ports:
        annotations[labels.PORTS] = _compact([_port(port) for port in container.ports])
    return annotations


def _port(port: object) -> dict[str, object]:
    """Keys in the kubelet's order, empty ones left out."""
    values = msgspec.to_builtins(port)
    order = ("name", "hostPort", "containerPort", "protocol", "hostIP")
    return {key: values[key] for key in order if values.get(key)}


def _compact(value: Sequence[object]) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)

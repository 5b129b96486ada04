"""CRI's messages as the plain records the pure core reads. Pure; `state.RuntimeState` is the caller."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from minikubelet.lifecycle.records import ObservedContainer, ObservedSandbox, RecordState
from minikubelet.runtime.book import Entry, Facts, SandboxEntry
from minikubelet.runtime.mapping import labels
from minikubelet.runtime.pb import cri_pb2

_STATES = {
    cri_pb2.CONTAINER_CREATED: RecordState.CREATED,
    cri_pb2.CONTAINER_RUNNING: RecordState.RUNNING,
    cri_pb2.CONTAINER_EXITED: RecordState.EXITED,
}
_FALL_BACK = "FallbackToLogsOnError"


def state_of(state: cri_pb2.ContainerState.ValueType) -> RecordState:
    return _STATES.get(state, RecordState.UNKNOWN)


def sandbox_entry(status: cri_pb2.PodSandboxStatus) -> SandboxEntry:
    """From PodSandboxStatus, the only message that has the addresses."""
    ready = status.state == cri_pb2.SANDBOX_READY
    ips = (status.network.ip, *(extra.ip for extra in status.network.additional_ips))
    return SandboxEntry(
        uid=status.metadata.uid,
        record=ObservedSandbox(
            id=status.id,
            attempt=status.metadata.attempt,
            ready=ready,
            created_at=status.created_at / 1e9,
            host_network=status.linux.namespaces.options.network == cri_pb2.NODE,
            ips=tuple(ip for ip in ips if ip) if ready else (),
        ),
        carried=status.annotations.get(labels.POD, ""),
    )


def _moment(nanoseconds: int) -> float:
    """Unix seconds. A start that was cut off can leave Go's zero time, which lies in the year 1: not yet."""
    return max(nanoseconds, 0) / 1e9


def container_entry(status: cri_pb2.ContainerStatus, *, sandbox_id: str) -> Entry:
    """From ContainerStatus, which knows all but the sandbox. The message is the runtime's own."""
    return Entry(
        uid=status.labels[labels.POD_UID],
        record=ObservedContainer(
            id=status.id,
            name=status.metadata.name,
            sandbox_id=sandbox_id,
            state=state_of(status.state),
            created_at=status.created_at / 1e9,
            started_at=_moment(status.started_at),
            finished_at=_moment(status.finished_at),
            exit_code=status.exit_code,
            reason=status.reason,
            message=status.message,
            image=status.annotations.get(labels.IMAGE) or status.image.image,
            image_id=status.image_ref,
            hash=status.annotations.get(labels.HASH, ""),
            restart_count=status.metadata.attempt,
        ),
        facts=_facts(status.annotations, status.mounts, status.log_path),
    )


def created_entry(
    container_id: str, *, sandbox_id: str, config: cri_pb2.ContainerConfig, log_directory: str, now: float
) -> Entry:
    """A container just made from `config`, without asking the runtime; `now` in unix seconds."""
    return Entry(
        uid=config.labels[labels.POD_UID],
        record=ObservedContainer(
            id=container_id,
            name=config.metadata.name,
            sandbox_id=sandbox_id,
            state=RecordState.CREATED,
            created_at=now,
            image=config.annotations[labels.IMAGE],
            image_id=config.image.image,
            hash=config.annotations[labels.HASH],
            restart_count=config.metadata.attempt,
        ),
        facts=_facts(config.annotations, config.mounts, f"{log_directory}/{config.log_path}"),
    )


def _facts(annotations: Mapping[str, str], mounts: Iterable[cri_pb2.Mount], log_path: str) -> Facts:
    path = annotations.get(labels.TERMINATION_MESSAGE_PATH, "").lstrip("/")
    places = [mount.host_path for mount in mounts if path and mount.container_path.lstrip("/") == path]
    return Facts(
        message_path=places[-1] if places else "",  # ours is the last, and so the one that the container sees (MT-1)
        fall_back_to_logs=annotations.get(labels.TERMINATION_MESSAGE_POLICY) == _FALL_BACK,
        log_path=log_path,
    )

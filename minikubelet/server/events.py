"""What is kept of the events of pods, Jobs and CronJobs, as Kubernetes' v1 Event, for `Parts.events`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import msgspec

from minikubelet.pods.recorder import RecordedEvent
from minikubelet.pods.times import rfc3339

_COMPONENT = "minikubelet"


def encoded_events(recorded: Iterable[RecordedEvent], *, node: str) -> Iterator[bytes]:
    """Each event as JSON, in the order given."""
    encode = msgspec.json.Encoder().encode
    for event in recorded:
        yield encode(as_v1(event, node=node))


def as_v1(recorded: RecordedEvent, *, node: str) -> dict[str, object]:
    event = recorded.event
    identity = msgspec.json.encode((recorded.uid, event))
    suffix = hashlib.sha256(identity).hexdigest()[:16]
    version = "v1" if recorded.kind == "Pod" else "batch/v1"
    about = {"kind": recorded.kind, "apiVersion": version, "namespace": recorded.namespace, "name": recorded.pod}
    if not recorded.namespace:  # the node's own
        about = {"kind": "Node", "apiVersion": "v1", "name": recorded.pod}
    about["uid"] = recorded.uid
    if recorded.field_path:
        about["fieldPath"] = recorded.field_path
    return {
        "metadata": {
            "name": f"{recorded.pod}.{suffix}",
            "namespace": recorded.namespace or "default",
            "creationTimestamp": rfc3339(recorded.first_at),
        },
        "involvedObject": about,
        "reason": event.reason,
        "message": event.message,
        "source": {"component": _COMPONENT, "host": node},
        "firstTimestamp": rfc3339(recorded.first_at),
        "lastTimestamp": rfc3339(recorded.last_at),
        "count": recorded.count,
        "type": event.type,
        "eventTime": None,
        "reportingComponent": _COMPONENT,
        "reportingInstance": node,
    }

"""Who a pod is: the uid and the marks that a pod gets for having come from a file (IN-6 to IN-8, LC 12.2, 12.3)."""

from __future__ import annotations

import hashlib

import msgspec
from msgspec.structs import replace

from minikubelet.api.pod import Pod
from minikubelet.api.scheduling import Toleration

HASH_ANNOTATION = "kubernetes.io/config.hash"
SOURCE_ANNOTATION = "kubernetes.io/config.source"
#: When the file was first seen. Set by whoever saw it; it must never enter the uid.
SEEN_ANNOTATION = "kubernetes.io/config.seen"

_TOLERATION = Toleration(operator="Exists", effect="NoExecute")


def identified(pod: Pod, *, file: str, node_name: str) -> Pod:
    """A defaulted pod with its uid, its node and the annotations of a file pod.

    Without `metadata.uid` the uid is 32 hex digits over the content, the node and the file: comments, the order of
    fields and written-out defaults do not change it; every change of content, and renaming the file, does.
    """
    spec = replace(pod.spec, node_name=node_name)
    if _TOLERATION not in spec.tolerations:
        spec = replace(spec, tolerations=(*spec.tolerations, _TOLERATION))
    pod = replace(pod, spec=spec)
    uid = pod.metadata.uid or _content_uid(pod, file=file, node_name=node_name)
    annotations = {**pod.metadata.annotations, HASH_ANNOTATION: uid, SOURCE_ANNOTATION: "file"}
    return replace(pod, metadata=replace(pod.metadata, uid=uid, annotations=annotations))


def _content_uid(pod: Pod, *, file: str, node_name: str) -> str:
    content = msgspec.json.encode(pod, order="sorted")
    digest = hashlib.sha256(content)
    digest.update(msgspec.json.encode((node_name, file)))
    return digest.hexdigest()[:32]

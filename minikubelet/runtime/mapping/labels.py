"""The labels and annotations by which pods are found again: the kubelet's keys, and our own (SB-3, CC-5, CC-7, D-7)."""

from __future__ import annotations

from minikubelet.api.pod import Pod

POD_NAME = "io.kubernetes.pod.name"
POD_NAMESPACE = "io.kubernetes.pod.namespace"
POD_UID = "io.kubernetes.pod.uid"
CONTAINER_NAME = "io.kubernetes.container.name"

HASH = "io.kubernetes.container.hash"
RESTART_COUNT = "io.kubernetes.container.restartCount"
TERMINATION_MESSAGE_PATH = "io.kubernetes.container.terminationMessagePath"
TERMINATION_MESSAGE_POLICY = "io.kubernetes.container.terminationMessagePolicy"
PRE_STOP_HANDLER = "io.kubernetes.container.preStopHandler"
PORTS = "io.kubernetes.container.ports"
TERMINATION_GRACE_PERIOD = "io.kubernetes.pod.terminationGracePeriod"

#: The root folder of the daemon that owns the object. Nothing without our own is ever touched.
OWNER = "minikubelet/root"
#: On sandboxes: the pod as JSON, so that one whose manifest and record are both gone still ends in its order.
POD = "minikubelet/pod"
#: On containers: the image as the manifest names it. (CRI 1.6 gives only what it resolved to.)
IMAGE = "minikubelet/image"


def pod_labels(pod: Pod) -> dict[str, str]:
    meta = pod.metadata
    return {POD_NAME: meta.name, POD_NAMESPACE: meta.namespace, POD_UID: meta.uid}

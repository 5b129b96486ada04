"""Who a container's processes are: user and group, and the range of host ids behind them (SC-1 to SC-3, SB-11)."""

from __future__ import annotations

import msgspec

from minikubelet.api.pod import Container, Pod
from minikubelet.api.security import PodSecurityContext, SecurityContext
from minikubelet.runtime.pb import cri_pb2

#: Ids that a pod with a user namespace of its own has.
IDS_OF_A_POD = 65536

_HIGHEST_ID = 2**31 - 1
_NO_CONTEXT, _NO_POD_CONTEXT = SecurityContext(), PodSecurityContext()


class NonRootError(ValueError):
    """The container must not run as root, and does or may; for CreateContainerConfigError."""


class UserNamespaceError(ValueError):
    """The runtime has no user namespaces; no sandbox is made."""


class Runner(msgspec.Struct, frozen=True, kw_only=True):
    """Who runs: `name` counts only where there is no `uid`; without a `gid` the image or the user's entry decides."""

    uid: int | None
    name: str = ""
    gid: int | None = None


def runner(pod: Pod, container: Container, *, image_uid: int | None, image_user: str) -> Runner:
    """SC-2. `image_uid` and `image_user` are what the image says, if it says it. Raises NonRootError."""
    own, common = container.security_context or _NO_CONTEXT, pod.spec.security_context or _NO_POD_CONTEXT
    uid = common.run_as_user if own.run_as_user is None else own.run_as_user
    gid = common.run_as_group if own.run_as_group is None else own.run_as_group
    non_root = common.run_as_non_root if own.run_as_non_root is None else own.run_as_non_root
    if non_root and (reason := _may_be_root(uid, image_uid=image_uid, image_user=image_user)):
        meta = pod.metadata
        where = f'(pod: "{meta.name}_{meta.namespace}({meta.uid})", container: {container.name})'
        raise NonRootError(f"{reason} {where}")
    if uid is not None:
        return Runner(uid=uid, gid=gid)
    if image_uid is None and image_user:
        return Runner(uid=None, name=image_user, gid=gid)
    return Runner(uid=image_uid or 0, gid=gid)


def namespace_of_users(pod: Pod, first_id: int | None) -> cri_pb2.UserNamespace:
    """SB-11: the host's, or a range of ids of its own that begins at `first_id` on the host.

    Raises UserNamespaceError: the pod wants its own, and has been given none.
    """
    if not pod.spec.host_users and first_id is None:
        raise UserNamespaceError("can't set `spec.hostUsers: false`, runtime does not support user namespaces")
    if first_id is None:
        return cri_pb2.UserNamespace(mode=cri_pb2.NODE)
    return cri_pb2.UserNamespace(mode=cri_pb2.POD, uids=[_mapping(first_id)], gids=[_mapping(first_id)])


def with_own_ids(mounts: list[cri_pb2.Mount], first_id: int | None) -> list[cri_pb2.Mount]:
    """SB-11: in a pod with ids of its own, files keep the owners that they have on the host."""
    if first_id is not None:
        for mount in mounts:
            mount.uidMappings.append(_mapping(first_id))
            mount.gidMappings.append(_mapping(first_id))
    return mounts


def _mapping(first_id: int) -> cri_pb2.IDMapping:
    return cri_pb2.IDMapping(container_id=0, host_id=first_id, length=IDS_OF_A_POD)


def _may_be_root(uid: int | None, *, image_uid: int | None, image_user: str) -> str | None:
    """SC-3."""
    if uid is not None:
        return "container's runAsUser breaks non-root policy" if uid == 0 else None
    if image_uid is None and image_user:
        return (
            f"container has runAsNonRoot and image has non-numeric user ({image_user}), cannot verify user is non-root"
        )
    if not image_uid:
        return "container has runAsNonRoot and image will run as root"
    if image_uid > _HIGHEST_ID:
        return (
            f"container has runAsNonRoot and image has an invalid user id ({image_uid}). "
            f"(Must be 1-({_HIGHEST_ID})): must be between 0 and {_HIGHEST_ID}, inclusive"
        )
    return None

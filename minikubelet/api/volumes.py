"""The volumes of a pod: one struct per source that this agent can bring to a single host, a refusal for every other."""

from __future__ import annotations

from typing import Annotated

from minikubelet.api.base import Int32, Int64, Object, Quantity, Raw, shown
from minikubelet.api.environment import ObjectFieldSelector, ResourceFieldSelector
from minikubelet.api.support import Mark, refused

NEVER = refused("not supported by this agent", even_empty=True)
_MOUNT_IT = "mount it on this host, for example in /etc/fstab, and use hostPath"
_NETWORK = refused(f"not supported by this agent: {_MOUNT_IT}", even_empty=True)
_CLAIM = "use a persistentVolumeClaim, which is a directory on this host, or hostPath"
_CLOUD = refused(f"not supported by this agent: {_CLAIM}", even_empty=True)

DEFAULT_MODE = 0o644


def _no_reference(to: str, via: str = "", *, advice: str) -> Mark:
    return refused(f"static pods may not reference {to}{f' (via {via})' if via else ''}: {advice}", even_empty=True)


class EmptyDirVolumeSource(Object):
    medium: str = ""
    size_limit: Quantity | None = None


class HostPathVolumeSource(Object):
    path: str
    type: str = ""


class KeyToPath(Object):
    key: str
    path: str
    mode: Int32 | None = None


class ConfigMapVolumeSource(Object):
    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: Int32 = shown(DEFAULT_MODE)
    optional: bool | None = None


class SecretVolumeSource(Object):
    secret_name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: Int32 = shown(DEFAULT_MODE)
    optional: bool | None = None


class DownwardAPIVolumeFile(Object):
    path: str
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    mode: Int32 | None = None


class DownwardAPIVolumeSource(Object):
    items: tuple[DownwardAPIVolumeFile, ...] = ()
    default_mode: Int32 = shown(DEFAULT_MODE)


class ConfigMapProjection(Object):
    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    optional: bool | None = None


class SecretProjection(Object):
    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    optional: bool | None = None


class DownwardAPIProjection(Object):
    items: tuple[DownwardAPIVolumeFile, ...] = ()


class ServiceAccountTokenProjection(Object):
    path: str
    audience: str = ""
    expiration_seconds: Int64 | None = None


class VolumeProjection(Object):
    secret: SecretProjection | None = None
    downward_api: DownwardAPIProjection | None = None
    config_map: ConfigMapProjection | None = None
    service_account_token: Annotated[
        ServiceAccountTokenProjection | None,
        _no_reference(
            "serviceaccounts", "projected volumes", advice="there is no API server to give a token; leave it out"
        ),
    ] = None
    cluster_trust_bundle: Annotated[
        Raw, _no_reference("clustertrustbundles", advice="put the certificates into a configMap")
    ] = None
    pod_certificate: Annotated[
        Raw, _no_reference("podcertificates", advice="put key and certificate into a secret")
    ] = None


class ProjectedVolumeSource(Object):
    sources: tuple[VolumeProjection, ...] = ()
    default_mode: Int32 = shown(DEFAULT_MODE)


class PersistentVolumeClaimVolumeSource(Object):
    claim_name: str = ""
    read_only: bool = False


class ImageVolumeSource(Object):
    reference: str = ""
    pull_policy: str = ""


class Volume(Object):
    """Exactly one source is set; none means `emptyDir`."""

    name: str
    host_path: HostPathVolumeSource | None = None
    empty_dir: EmptyDirVolumeSource | None = None
    config_map: ConfigMapVolumeSource | None = None
    secret: SecretVolumeSource | None = None
    downward_api: DownwardAPIVolumeSource | None = None
    projected: ProjectedVolumeSource | None = None
    image: ImageVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: Annotated[
        Raw, _no_reference("persistentvolumeclaims", "ephemeral volumes", advice="use emptyDir, or a claim of its own")
    ] = None
    csi: Annotated[Raw, _no_reference("csidrivers", "CSI volumes", advice=_CLAIM)] = None
    glusterfs: Annotated[Raw, _no_reference("endpoints", "glusterFS volumes", advice=_MOUNT_IT)] = None
    azure_file: Annotated[Raw, _no_reference("secrets", "azureFile volumes", advice=_MOUNT_IT)] = None
    aws_elastic_block_store: Annotated[Raw, _CLOUD] = None
    azure_disk: Annotated[Raw, _CLOUD] = None
    cephfs: Annotated[Raw, _NETWORK] = None
    cinder: Annotated[Raw, _CLOUD] = None
    fc: Annotated[Raw, _NETWORK] = None
    flex_volume: Annotated[Raw, _CLOUD] = None
    flocker: Annotated[Raw, _CLOUD] = None
    gce_persistent_disk: Annotated[Raw, _CLOUD] = None
    git_repo: Annotated[
        Raw, refused("not supported by this agent: clone it in an init container, into an emptyDir", even_empty=True)
    ] = None
    iscsi: Annotated[Raw, _NETWORK] = None
    nfs: Annotated[Raw, _NETWORK] = None
    photon_persistent_disk: Annotated[Raw, _CLOUD] = None
    portworx_volume: Annotated[Raw, _CLOUD] = None
    quobyte: Annotated[Raw, _CLOUD] = None
    rbd: Annotated[Raw, _NETWORK] = None
    scale_io: Annotated[Raw, _CLOUD] = None
    storageos: Annotated[Raw, _CLOUD] = None
    vsphere_volume: Annotated[Raw, _CLOUD] = None

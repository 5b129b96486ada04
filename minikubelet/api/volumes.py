"""The volumes of a pod: one struct per source that this agent can bring to a single host, a refusal for every other."""

from __future__ import annotations

from typing import Annotated

from minikubelet.api.base import Int32, Int64, Object, Quantity, Raw, shown
from minikubelet.api.environment import ObjectFieldSelector, ResourceFieldSelector
from minikubelet.api.support import Mark, refused

NEVER = refused("not supported by this agent", even_empty=True)

DEFAULT_MODE = 0o644


def _no_reference(to: str, via: str = "") -> Mark:
    return refused(f"static pods may not reference {to}{f' (via {via})' if via else ''}", even_empty=True)


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
        ServiceAccountTokenProjection | None, _no_reference("serviceaccounts", "projected volumes")
    ] = None
    cluster_trust_bundle: Annotated[Raw, _no_reference("clustertrustbundles")] = None
    pod_certificate: Annotated[Raw, _no_reference("podcertificates")] = None


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
    ephemeral: Annotated[Raw, _no_reference("persistentvolumeclaims", "ephemeral volumes")] = None
    csi: Annotated[Raw, _no_reference("csidrivers", "CSI volumes")] = None
    glusterfs: Annotated[Raw, _no_reference("endpoints", "glusterFS volumes")] = None
    azure_file: Annotated[Raw, _no_reference("secrets", "azureFile volumes")] = None
    aws_elastic_block_store: Annotated[Raw, NEVER] = None
    azure_disk: Annotated[Raw, NEVER] = None
    cephfs: Annotated[Raw, NEVER] = None
    cinder: Annotated[Raw, NEVER] = None
    fc: Annotated[Raw, NEVER] = None
    flex_volume: Annotated[Raw, NEVER] = None
    flocker: Annotated[Raw, NEVER] = None
    gce_persistent_disk: Annotated[Raw, NEVER] = None
    git_repo: Annotated[Raw, NEVER] = None
    iscsi: Annotated[Raw, NEVER] = None
    nfs: Annotated[Raw, NEVER] = None
    photon_persistent_disk: Annotated[Raw, NEVER] = None
    portworx_volume: Annotated[Raw, NEVER] = None
    quobyte: Annotated[Raw, NEVER] = None
    rbd: Annotated[Raw, NEVER] = None
    scale_io: Annotated[Raw, NEVER] = None
    storageos: Annotated[Raw, NEVER] = None
    vsphere_volume: Annotated[Raw, NEVER] = None

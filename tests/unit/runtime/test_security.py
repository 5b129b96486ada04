"""What pods and containers may do and see, as CRI is told it (SB-10 to SB-13, SC-1 to SC-9)."""

from __future__ import annotations

from typing import Any

import pytest

from minikubelet.runtime.mapping import ImageFacts, NonRootError, UserNamespaceError, container_config, sandbox_config
from minikubelet.runtime.pb import cri_pb2
from tests.unit.runtime.build import INPUTS, container, made, node, pod, sandbox

ROOT_IMAGE = ImageFacts(ref="r", uid=0)


def security_of(
    own: dict[str, Any] | None = None,
    common: dict[str, Any] | None = None,
    *,
    image: ImageFacts = ROOT_IMAGE,
    annotations: dict[str, str] | None = None,
) -> cri_pb2.LinuxContainerSecurityContext:
    of = container(securityContext=own)
    within = pod(of, metadata={"annotations": annotations or {}}, securityContext=common or {})
    return made(of, within=within, image=image).linux.security_context


def sandbox_of(common: dict[str, Any] | None = None, **spec: Any) -> cri_pb2.LinuxPodSandboxConfig:
    return sandbox(pod(securityContext=common or {}, **spec)).linux


def _user(security: cri_pb2.LinuxContainerSecurityContext) -> tuple[int | None, str, int | None]:
    return (
        security.run_as_user.value if security.HasField("run_as_user") else None,
        security.run_as_username,
        security.run_as_group.value if security.HasField("run_as_group") else None,
    )


@pytest.mark.parametrize(
    ("own", "common", "image", "expected"),
    [
        pytest.param({}, {"runAsUser": 7}, ROOT_IMAGE, (7, "", None), id="SC-1 the pod's user"),
        pytest.param({"runAsUser": 8}, {"runAsUser": 7}, ROOT_IMAGE, (8, "", None), id="SC-1 the container's wins"),
        pytest.param({"runAsUser": 0}, {"runAsUser": 7}, ROOT_IMAGE, (0, "", None), id="SC-1 zero is a choice"),
        pytest.param({"runAsGroup": 5}, {"runAsGroup": 6}, ROOT_IMAGE, (0, "", 5), id="SC-1 group"),
        pytest.param({}, {"runAsGroup": 6}, ROOT_IMAGE, (0, "", 6), id="SC-2 the pod's group, the image's user"),
        pytest.param({"runAsUser": 9}, {}, ImageFacts(ref="r", username="app"), (9, "", None), id="SC-2 no user name"),
        pytest.param({"runAsGroup": 9}, {}, ImageFacts(ref="r", username="app"), (None, "app", 9), id="SC-2 user name"),
    ],
)
def test_user_and_group(
    own: dict[str, Any], common: dict[str, Any], image: ImageFacts, expected: tuple[int | None, str, int | None]
) -> None:
    assert _user(security_of(own, common, image=image)) == expected


WHERE = '(pod: "web_default(u-1)", container: main)'


@pytest.mark.parametrize(
    ("own", "common", "image", "message"),
    [
        pytest.param(
            {"runAsUser": 0},
            {"runAsNonRoot": True},
            ROOT_IMAGE,
            "container's runAsUser breaks non-root policy",
            id="SC-3 runAsUser 0",
        ),
        pytest.param(
            {"runAsNonRoot": True},
            {},
            ROOT_IMAGE,
            "container has runAsNonRoot and image will run as root",
            id="SC-3 image runs as root",
        ),
        pytest.param(
            {"runAsNonRoot": True},
            {},
            ImageFacts(ref="r"),
            "container has runAsNonRoot and image will run as root",
            id="SC-3 image without user",
        ),
        pytest.param(
            {"runAsNonRoot": True},
            {},
            ImageFacts(ref="r", username="app"),
            "container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root",
            id="SC-3 image with a user name",
        ),
        pytest.param(
            {"runAsNonRoot": True},
            {},
            ImageFacts(ref="r", uid=2147483648),
            "container has runAsNonRoot and image has an invalid user id (2147483648). (Must be 1-(2147483647)): "
            "must be between 0 and 2147483647, inclusive",
            id="SC-3 image with an impossible id",
        ),
    ],
)
def test_must_not_be_root(own: dict[str, Any], common: dict[str, Any], image: ImageFacts, message: str) -> None:
    with pytest.raises(NonRootError) as caught:
        security_of(own, common, image=image)
    assert str(caught.value) == f"{message} {WHERE}"


@pytest.mark.parametrize(
    ("own", "common", "image"),
    [
        pytest.param({"runAsNonRoot": True, "runAsUser": 5}, {}, ROOT_IMAGE, id="SC-3 runAsUser above 0"),
        pytest.param({"runAsNonRoot": True}, {}, ImageFacts(ref="r", uid=1000), id="SC-3 the image's id"),
        pytest.param({"runAsNonRoot": False}, {"runAsNonRoot": True}, ROOT_IMAGE, id="SC-1 the container's wins"),
    ],
)
def test_need_not_be_refused(own: dict[str, Any], common: dict[str, Any], image: ImageFacts) -> None:
    assert security_of(own, common, image=image).HasField("run_as_user")


@pytest.mark.parametrize(
    ("common", "groups", "policy"),
    [
        pytest.param({}, [], cri_pb2.Merge, id="SC-5 none"),
        pytest.param({"fsGroup": 3000, "supplementalGroups": [4000]}, [3000, 4000], cri_pb2.Merge, id="SC-5 order"),
        pytest.param({"fsGroup": 0}, [0], cri_pb2.Merge, id="SC-5 group 0"),
        pytest.param({"supplementalGroupsPolicy": "Strict"}, [], cri_pb2.Strict, id="SB-12 Strict"),
    ],
)
def test_groups_of_sandbox_and_container(common: dict[str, Any], groups: list[int], policy: int) -> None:
    for security in (security_of({}, common), sandbox_of(common).security_context):
        assert list(security.supplemental_groups) == groups
        assert security.supplemental_groups_policy == policy


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        pytest.param({}, (False, False, False), id="SC-9 defaults"),
        pytest.param({"privileged": True}, (True, False, False), id="SC-9 privileged"),
        pytest.param({"readOnlyRootFilesystem": True}, (False, True, False), id="SC-9 readOnlyRootFilesystem"),
        pytest.param({"allowPrivilegeEscalation": False}, (False, False, True), id="SC-4 explicitly false"),
        pytest.param({"allowPrivilegeEscalation": True}, (False, False, False), id="SC-4 true"),
    ],
)
def test_privileges(own: dict[str, Any], expected: tuple[bool, bool, bool]) -> None:
    security = security_of(own)
    assert (security.privileged, security.readonly_rootfs, security.no_new_privs) == expected


def test_sc_1_capabilities_are_sent_as_written() -> None:
    capabilities = security_of({"capabilities": {"add": ["NET_ADMIN", "CAP_SYS_TIME"], "drop": ["ALL"]}}).capabilities
    assert list(capabilities.add_capabilities) == ["NET_ADMIN", "CAP_SYS_TIME"]
    assert list(capabilities.drop_capabilities) == ["ALL"]


def test_sc_1_without_capabilities_none_are_mentioned() -> None:
    assert not security_of({}).HasField("capabilities")


def _profile(profile: cri_pb2.SecurityProfile) -> tuple[str, str]:
    return cri_pb2.SecurityProfile.ProfileType.Name(profile.profile_type), profile.localhost_ref


LOCALHOST = {"type": "Localhost", "localhostProfile": "a/b.json"}


@pytest.mark.parametrize(
    ("own", "common", "default", "expected"),
    [
        pytest.param(None, None, False, ("Unconfined", ""), id="SC-6 none"),
        pytest.param(None, None, True, ("RuntimeDefault", ""), id="SC-6 seccompDefault"),
        pytest.param(None, {"type": "RuntimeDefault"}, False, ("RuntimeDefault", ""), id="SC-6 the pod's"),
        pytest.param({"type": "Unconfined"}, LOCALHOST, True, ("Unconfined", ""), id="SC-6 the container's wins"),
        pytest.param(LOCALHOST, None, False, ("Localhost", "/var/lib/mk/seccomp/a/b.json"), id="SC-6 Localhost"),
    ],
)
def test_seccomp(
    own: dict[str, Any] | None, common: dict[str, Any] | None, *, default: bool, expected: tuple[str, str]
) -> None:
    of = container(securityContext={"seccompProfile": own} if own else None)
    within = pod(of, securityContext={"seccompProfile": common} if common else {})
    config = container_config(within, of, node(seccomp_default=default), INPUTS)
    assert _profile(config.linux.security_context.seccomp) == expected


MINE = {"type": "Localhost", "localhostProfile": "mine"}
KEY = "container.apparmor.security.beta.kubernetes.io/"


@pytest.mark.parametrize(
    ("own", "note", "common", "expected", "text"),
    [
        pytest.param(None, "", None, None, "", id="SC-7 nothing"),
        pytest.param(MINE, "unconfined", None, ("Localhost", "mine"), "localhost/mine", id="SC-7 its field"),
        pytest.param(None, "localhost/old", MINE, ("Localhost", "old"), "localhost/old", id="SC-7 its annotation"),
        pytest.param(None, "runtime/default", None, ("RuntimeDefault", ""), "runtime/default", id="SC-7 default"),
        pytest.param(None, "", {"type": "Unconfined"}, ("Unconfined", ""), "unconfined", id="SC-7 the pod's field"),
    ],
)
def test_app_armor(
    own: dict[str, Any] | None, note: str, common: dict[str, Any] | None, expected: tuple[str, str] | None, text: str
) -> None:
    security = security_of(
        {"appArmorProfile": own} if own else None,
        {"appArmorProfile": common} if common else None,
        annotations={f"{KEY}main": note, f"{KEY}other": "unconfined"} if note else {},
    )
    assert (_profile(security.apparmor) if security.HasField("apparmor") else None) == expected
    assert security.apparmor_profile == text


def test_sc_8_unmasked_hides_nothing() -> None:
    security = security_of({"procMount": "Unmasked"})
    assert (list(security.masked_paths), list(security.readonly_paths)) == ([], [])


def test_sc_8_privileged_containers_are_sent_the_paths_as_well() -> None:
    security = security_of({"privileged": True})
    assert len(security.masked_paths) == 12
    assert len(security.readonly_paths) == 5


def test_sc_1_selinux_options() -> None:
    common = {"seLinuxOptions": {"user": "u", "role": "r", "type": "t", "level": "s0:c1"}}
    expected = cri_pb2.SELinuxOption(user="u", role="r", type="t", level="s0:c1")
    assert security_of({}, common).selinux_options == sandbox_of(common).security_context.selinux_options == expected
    assert security_of({"seLinuxOptions": {"level": "s0"}}, common).selinux_options == cri_pb2.SELinuxOption(level="s0")
    assert not security_of().HasField("selinux_options")


def test_sb_12_the_sandbox_has_the_pods_user_and_group_only_when_set() -> None:
    bare, given = sandbox_of().security_context, sandbox_of({"runAsUser": 3, "runAsGroup": 4}).security_context
    assert (bare.HasField("run_as_user"), bare.HasField("run_as_group")) == (False, False)
    assert (given.run_as_user.value, given.run_as_group.value) == (3, 4)
    assert not sandbox_of({"runAsGroup": 4}).security_context.HasField("run_as_group"), "containerd would refuse it"


@pytest.mark.parametrize("where", ["containers", "init", "sidecar"])
def test_sb_12_one_privileged_container_makes_the_sandbox_privileged(where: str) -> None:
    able = {"securityContext": {"privileged": True}}
    of = {
        "containers": pod(container(), container("b", **able)),
        "init": pod(container(), init=(container("b", **able),)),
        "sidecar": pod(container(), init=(container("b", restartPolicy="Always", **able),)),
    }[where]
    assert sandbox(of).linux.security_context.privileged


def test_sb_13_sysctls() -> None:
    sysctls = [{"name": "net.core.somaxconn", "value": "9"}, {"name": "kernel.shm_rmid_forced", "value": "1"}]
    assert sandbox_of({"sysctls": sysctls}).sysctls == {"net.core.somaxconn": "9", "kernel.shm_rmid_forced": "1"}


def test_sb_11_a_user_namespace_of_its_own_maps_one_range_of_ids_also_in_every_mount() -> None:
    of = container(volumeMounts=[{"name": "v", "mountPath": "/v"}])
    within = pod(of, hostUsers=False, volumes=[{"name": "v", "emptyDir": {}}])
    config = made(of, within=within, first_id=131072, volumes={"v": "/v"}, termination_log="/t")
    mapping = cri_pb2.IDMapping(container_id=0, host_id=131072, length=65536)
    expected = cri_pb2.UserNamespace(mode=cri_pb2.POD, uids=[mapping], gids=[mapping])
    assert config.linux.security_context.namespace_options.userns_options == expected
    assert len(config.mounts) == 2
    assert all(list(m.uidMappings) == list(m.gidMappings) == [mapping] for m in config.mounts)
    box, _ = sandbox_config(within, node(), attempt=0, resolv_conf="", first_id=131072)
    assert box.linux.security_context.namespace_options.userns_options == expected
    assert (
        not made(of, within=pod(of, volumes=[{"name": "v", "emptyDir": {}}]), volumes={"v": "/v"}).mounts[0].uidMappings
    )


def test_sb_11_without_a_range_such_a_pod_has_no_sandbox() -> None:
    with pytest.raises(UserNamespaceError) as caught:
        sandbox(pod(hostUsers=False))
    assert str(caught.value) == "can't set `spec.hostUsers: false`, runtime does not support user namespaces"

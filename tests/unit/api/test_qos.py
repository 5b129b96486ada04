import pytest

from minikubelet.api.pod import Container, PodSpec, ResourceRequirements
from minikubelet.api.qos import qos_class

Amounts = dict[str, str]


def container(requests: Amounts, limits: Amounts) -> Container:
    return Container(name="c", resources=ResourceRequirements(requests=requests, limits=limits))


FULL = {"cpu": "100m", "memory": "64Mi"}
NOTHING: Amounts = {}


@pytest.mark.parametrize(
    ("containers", "init_containers", "expected"),
    [
        pytest.param([(NOTHING, NOTHING)], [], "BestEffort", id="nothing asked"),
        pytest.param([({"cpu": "0", "memory": "0"}, {"cpu": "0"})], [], "BestEffort", id="zero counts as nothing"),
        pytest.param([({"ephemeral-storage": "1Gi"}, NOTHING)], [], "BestEffort", id="only cpu and memory count"),
        pytest.param([(FULL, FULL)], [], "Guaranteed", id="all limited"),
        pytest.param([({"cpu": "0.1", "memory": "65536Ki"}, FULL)], [], "Guaranteed", id="equal in value"),
        pytest.param([(FULL, FULL), (FULL, FULL)], [(FULL, FULL)], "Guaranteed", id="init container limited as well"),
        pytest.param([({"cpu": "50m", "memory": "64Mi"}, FULL)], [], "Burstable", id="request below limit"),
        pytest.param([({"cpu": "100m"}, NOTHING)], [], "Burstable", id="request only"),
        pytest.param([(FULL, FULL), (NOTHING, NOTHING)], [], "Burstable", id="one container without limits"),
        pytest.param([(FULL, FULL)], [(NOTHING, NOTHING)], "Burstable", id="a sidecar without limits"),
        pytest.param([(NOTHING, NOTHING)], [({"cpu": "1m"}, NOTHING)], "Burstable", id="only an init container asks"),
        pytest.param([({"cpu": "1"}, {"cpu": "1"})], [], "Burstable", id="memory not limited"),
        pytest.param([(FULL, {**FULL, "cpu": "0"})], [], "Burstable", id="zero limit"),
    ],
)
def test_the_class_follows_requests_and_limits(  # CG-1
    containers: list[tuple[Amounts, Amounts]], init_containers: list[tuple[Amounts, Amounts]], expected: str
) -> None:
    spec = PodSpec(
        containers=tuple(container(*each) for each in containers),
        init_containers=tuple(container(*each) for each in init_containers),
    )
    assert qos_class(spec) == expected


@pytest.mark.parametrize(
    ("requests", "limits", "expected"),
    [
        pytest.param(NOTHING, NOTHING, "BestEffort", id="nothing for the pod, whatever the containers ask"),
        pytest.param(FULL, FULL, "Guaranteed", id="the pod is limited, whatever its containers are"),
        pytest.param(FULL, NOTHING, "Burstable", id="no limits"),
        pytest.param({"cpu": "1"}, {"cpu": "1"}, "Burstable", id="memory not limited"),
    ],
)
def test_what_the_pod_says_of_itself_counts_alone(requests: Amounts, limits: Amounts, expected: str) -> None:  # CG-1
    of = ResourceRequirements(requests=requests, limits=limits)
    assert qos_class(PodSpec(containers=(container({"cpu": "3"}, NOTHING),), resources=of)) == expected

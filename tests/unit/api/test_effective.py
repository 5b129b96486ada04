"""What a pod needs as a whole (RS-1 to RS-4): KEP-753's formula, init position taken into account."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikubelet.api.container import Container
from minikubelet.api.effective import effective_limits, effective_requests, is_limited
from minikubelet.api.pod import PodSpec

Spec = tuple[list[str], list[str]]  # init entries as "S50" (a sidecar that asks for 50m cpu) or "I300", then mains


def _container(name: str, milli: str, *, sidecar: bool = False) -> Container:
    amounts = {"cpu": f"{milli}m"} if milli else {}
    resources = {"requests": amounts, "limits": amounts}
    fields: dict[str, Any] = {"name": name, "resources": resources}
    return msgspec.convert(fields | ({"restartPolicy": "Always"} if sidecar else {}), Container)


def spec_of(init: list[str], mains: list[str], **fields: Any) -> PodSpec:
    return msgspec.structs.replace(
        msgspec.convert(fields, PodSpec),
        init_containers=tuple(_container(f"i{n}", entry[1:], sidecar=entry[0] == "S") for n, entry in enumerate(init)),
        containers=tuple(_container(f"m{n}", amount) for n, amount in enumerate(mains)),
    )


@pytest.mark.parametrize(
    ("init", "mains", "expected"),
    [
        pytest.param([], ["100", "200"], 300, id="RS-1 mains add up"),
        pytest.param(["I500"], ["100", "200"], 500, id="RS-1 an init container runs alone"),
        pytest.param(["I500", "I400"], ["100"], 500, id="RS-1 the widest init container"),
        pytest.param(["S50"], ["100"], 150, id="RS-1 a sidecar runs beside the mains"),
        pytest.param(["S50", "I100"], ["10"], 150, id="RS-1 and beside the init containers after it"),
        pytest.param(["I100", "S50"], ["10"], 100, id="RS-1 not beside those before it"),
        pytest.param(
            ["S50", "I10", "S60", "I100", "S1"], ["5"], 210, id="RS-1 sidecars before an init container add up"
        ),
        pytest.param(["I300", "S50", "I400"], ["100", "100"], 450, id="RS-4"),
        pytest.param(["S", "I300"], [""], 300, id="a sidecar that asks for nothing"),
    ],
)
def test_cpu(init: list[str], mains: list[str], expected: int) -> None:
    spec = spec_of(init, mains)
    assert effective_requests(spec, overhead=True) == {"cpu": Fraction(expected, 1000)}
    assert effective_limits(spec, overhead=True) == {"cpu": Fraction(expected, 1000)}


def test_rs_3_an_init_container_that_restarts_on_failure_is_no_sidecar() -> None:
    init = msgspec.structs.replace(_container("i", "300"), restart_policy="OnFailure")
    spec = msgspec.structs.replace(spec_of([], ["100"]), init_containers=(init,))
    assert effective_requests(spec, overhead=False)["cpu"] == Fraction(3, 10)


def test_rs_2_overhead_is_added_to_requests_and_to_limits_that_there_are() -> None:
    spec = spec_of([], ["100"], overhead={"cpu": "50m", "memory": "10Mi"})
    assert effective_requests(spec, overhead=True) == {"cpu": Fraction(15, 100), "memory": 10 * 2**20}
    assert effective_limits(spec, overhead=True) == {"cpu": Fraction(15, 100)}
    assert effective_requests(spec, overhead=False) == {"cpu": Fraction(1, 10)}


def test_rs_2_what_the_pod_says_of_itself_counts_before_overhead_is_added() -> None:
    whole = {"requests": {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "2Mi"}, "limits": {"cpu": "2"}}
    spec = spec_of(["S50"], ["100"], resources=whole, overhead={"cpu": "500m"})
    assert effective_requests(spec, overhead=True) == {
        "cpu": Fraction(3, 2), "memory": 2**30, "hugepages-2Mi": 2**21,
    }  # fmt: skip
    assert effective_limits(spec, overhead=True) == {"cpu": Fraction(5, 2)}


@pytest.mark.parametrize(
    ("init", "mains", "expected"),
    [
        pytest.param([], ["1"], True, id="CG-6 every container is"),
        pytest.param([], ["1", ""], False, id="CG-6 one main is not"),
        pytest.param(["I"], ["1"], False, id="CG-6 an init container is not"),
        pytest.param(["S"], ["1"], False, id="CG-6 a sidecar is not"),
        pytest.param(["S1", "I"], ["1"], True, id="CG-6 with the sidecars before it an init container is"),
        pytest.param(["I", "S1"], ["1"], False, id="CG-6 with one after it it is not"),
    ],
)
def test_the_pod_is_limited_if(init: list[str], mains: list[str], *, expected: bool) -> None:
    assert is_limited(spec_of(init, mains), "cpu") is expected
    assert not is_limited(spec_of(init, mains), "memory")


def test_cg_6_a_limit_of_the_pods_own_is_enough() -> None:
    assert is_limited(spec_of([], [""], resources={"limits": {"cpu": "1"}}), "cpu")


amounts = st.integers(0, 1000)


@given(init=st.lists(st.tuples(st.sampled_from("SI"), amounts), max_size=6), mains=st.lists(amounts, min_size=1))
def test_the_need_is_the_most_that_ever_runs_at_once(init: list[tuple[str, int]], mains: list[int]) -> None:
    spec = spec_of([f"{kind}{amount}" for kind, amount in init], [str(amount) for amount in mains])
    running: list[int] = []
    moments = []
    for kind, amount in init:
        moments.append(sum(running) + amount)
        if kind == "S":
            running.append(amount)
    moments.append(sum(running) + sum(mains))
    assert effective_requests(spec, overhead=False)["cpu"] * 1000 == max(moments)

from __future__ import annotations

import pytest

from minikubelet.lifecycle.memory import ProbeResult
from minikubelet.pods.probes.thresholds import Counter

RESULTS = {"S": ProbeResult.SUCCESS, "F": ProbeResult.FAILURE, "-": None}


@pytest.mark.parametrize(
    ("success", "failure", "outcomes", "verdicts"),
    [
        pytest.param(1, 3, "FFF", "--F", id="PH 4.4: a failure is stored when the threshold is reached"),
        pytest.param(1, 3, "FFSFF", "--S--", id="PH 4.4: one success restarts the count of failures"),
        pytest.param(1, 3, "FFFFS", "--FFS", id="PH 4.4: the verdict stands while the outcome repeats"),
        pytest.param(3, 1, "SSS", "--S", id="PH 4.4: successes are counted the same way"),
        pytest.param(3, 1, "SSFSSS", "--F--S", id="PH 4.4: one failure restarts the count of successes"),
        pytest.param(1, 1, "SFSF", "SFSF", id="PH 2.1: thresholds of one"),
        pytest.param(2, 2, "SFSFSS", "-----S", id="PH 4.4: alternating outcomes give no verdict"),
    ],
)
def test_outcomes_become_a_verdict(success: int, failure: int, outcomes: str, verdicts: str) -> None:
    counter = Counter(success_threshold=success, failure_threshold=failure)
    for position, (outcome, verdict) in enumerate(zip(outcomes, verdicts, strict=True)):
        result = RESULTS[outcome]
        assert result is not None
        counter = counter.add(result)
        assert counter.verdict is RESULTS[verdict], f"after {outcomes[: position + 1]}"


def test_a_new_counter_has_no_verdict() -> None:
    assert Counter(success_threshold=1, failure_threshold=1).verdict is None

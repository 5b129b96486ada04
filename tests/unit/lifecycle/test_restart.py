"""LC 5.2, 5.3: does a container that exited run again?"""

from __future__ import annotations

import pytest

from minikubelet.api.pod import ContainerRestartRule, RestartRuleExitCodes
from minikubelet.lifecycle.memory import Kill, KillReason
from minikubelet.lifecycle.restart import effective_policy, may_restart_all, restarts, restarts_after, rule_action
from tests.unit.lifecycle.build import container, pod


def rule(operator: str, *values: int, action: str = "Restart") -> ContainerRestartRule:
    return ContainerRestartRule(action=action, exit_codes=RestartRuleExitCodes(operator=operator, values=values))


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [
        ("Always", 0, True),
        ("Always", 1, True),
        ("Always", 137, True),
        ("OnFailure", 0, False),
        ("OnFailure", 1, True),
        ("OnFailure", 137, True),
        ("Never", 0, False),
        ("Never", 1, False),
    ],
)
def test_lc_5_2_the_effective_policy_decides(policy: str, code: int, *, again: bool) -> None:  # VI-6
    assert restarts(pod(policy=policy), container("m"), code) is again
    other = "Never" if policy != "Never" else "Always"
    own = container("m", restart_policy=policy)
    assert effective_policy(pod(policy=other), own) == policy
    assert restarts(pod(policy=other), own, code) is again  # LC 5.3: it overrides the pod's both ways


@pytest.mark.parametrize(
    ("rules", "code", "again"),
    [
        ((rule("In", 3, 4),), 4, True),
        ((rule("In", 3, 4),), 5, False),
        ((rule("NotIn", 3, 4),), 5, True),
        ((rule("NotIn", 3, 4),), 3, False),
        ((rule("In", 3), rule("In", 5)), 5, True),
        ((rule("In", 0),), 0, True),
        ((rule("In", 9, action="RestartAllContainers"),), 9, True),
        ((ContainerRestartRule(action="Restart"),), 1, False),
    ],
)
def test_lc_5_2_the_first_matching_rule_restarts(
    rules: tuple[ContainerRestartRule, ...], code: int, *, again: bool
) -> None:
    """VI-6."""
    own = container("m", restart_policy="Never", restart_policy_rules=rules)
    assert restarts(pod(), own, code) is again


def test_lc_5_2_the_first_rule_that_matches_names_the_action() -> None:
    own = container(
        "m", restart_policy="Never", restart_policy_rules=(rule("In", 1), rule("In", 1, action="RestartAllContainers"))
    )
    assert rule_action(own, 1) == "Restart"
    assert may_restart_all(pod(own))
    assert not may_restart_all(pod())


def test_lc_5_3_rules_need_a_policy_of_the_container_itself() -> None:
    assert not restarts(pod(policy="Never"), container("m", restart_policy_rules=(rule("In", 1),)), 1)


@pytest.mark.parametrize(
    ("reason", "policy", "again"),
    [
        (KillReason.LIVENESS, "Always", True),
        (KillReason.LIVENESS, "OnFailure", True),
        (KillReason.STARTUP, "OnFailure", True),
        (KillReason.LIVENESS, "Never", False),
        (KillReason.CHANGED, "Never", True),
        (KillReason.UNKNOWN, "Never", True),
        (KillReason.POST_START, "OnFailure", False),
        (KillReason.POD, "Always", True),
        (KillReason.POD, "Never", False),
    ],
)
def test_lc_5_1_what_we_killed_to_replace_it_comes_back_whatever_its_exit_code(
    reason: KillReason, policy: str, *, again: bool
) -> None:
    kill = Kill(reason=reason, message="", began=0, grace=1)
    assert restarts_after(pod(policy=policy), container("m"), 0, kill) is again

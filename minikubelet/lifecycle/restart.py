"""Does a container that exited run again (LC 5.2, 5.3)? And does its exit restart the whole pod (LC 5.4)?

Asked by the plan, the status and the phase, so that all three always give the same answer.
"""

from __future__ import annotations

from minikubelet.api.pod import Container, Pod
from minikubelet.lifecycle.memory import Kill, KillReason, Memory
from minikubelet.lifecycle.records import Observed, ObservedContainer, RecordState
from minikubelet.lifecycle.view import active, all_containers

RESTART_ALL = "RestartAllContainers"

_PROBE_KILLS = (KillReason.LIVENESS, KillReason.STARTUP)


def effective_policy(pod: Pod, container: Container) -> str:
    """LC 0: the container's own restartPolicy, else the pod's."""
    return container.restart_policy or pod.spec.restart_policy


def rule_action(container: Container, exit_code: int) -> str | None:
    """The action of the first restart rule that matches an exit code (LC 5.2)."""
    for rule in container.restart_policy_rules if container.restart_policy else ():
        if rule.exit_codes is not None and (exit_code in rule.exit_codes.values) == (rule.exit_codes.operator == "In"):
            return rule.action
    return None


def restarts(pod: Pod, container: Container, exit_code: int) -> bool:
    """LC 5.2: whether a container that ended by itself with this code is started again."""
    if rule_action(container, exit_code) is not None:
        return True
    policy = effective_policy(pod, container)
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def restarts_after(pod: Pod, container: Container, exit_code: int, kill: Kill | None) -> bool:
    """As `restarts`, but a container that we killed to have a new one comes back whatever its exit code.

    After a failed probe: unless the policy is Never (LC 5.1, PH 5.1); this differs from the kubelet only where a
    back-off comes between, and keeps the event's promise. After a change of its image, or from state Unknown: always
    (LC 4.5, 5.1).
    """
    if kill is not None and kill.reason in (KillReason.CHANGED, KillReason.UNKNOWN):
        return True
    if kill is not None and kill.reason in _PROBE_KILLS:
        return effective_policy(pod, container) != "Never"
    return restarts(pod, container, exit_code)


def record_restarts(pod: Pod, container: Container, record: ObservedContainer, memory: Memory) -> bool:
    """Whether an exited record is followed by a new start."""
    return restarts_after(pod, container, record.exit_code, memory.kills.get(record.id))


def restart_all_triggers(pod: Pod, observed: Observed) -> list[ObservedContainer]:
    """LC 5.4: records of the present sandbox whose exit restarts all containers."""
    pairs = ((container, active(observed, container.name)) for container in all_containers(pod))
    return [
        record
        for container, record in pairs
        if record is not None
        and record.state is RecordState.EXITED
        and rule_action(container, record.exit_code) == RESTART_ALL
    ]


def may_restart_all(pod: Pod) -> bool:
    """Whether some rule of the pod has the action RestartAllContainers."""
    return any(rule.action == RESTART_ALL for c in all_containers(pod) for rule in c.restart_policy_rules)

"""What one pod's worker remembers between two decisions, and what a daemon restart must not lose.

Memory is a value: `decide` and the `notes` functions return a new one and never change the one they are given.
Everything but `in_flight` is kept in `store/`, so a killed daemon resumes with it.
"""

from __future__ import annotations

import enum

import msgspec

from minikubelet.api.status import PodStatus


class ProbeResult(enum.Enum):
    UNKNOWN = "Unknown"
    SUCCESS = "Success"
    FAILURE = "Failure"


class ProbeResults(msgspec.Struct, frozen=True, kw_only=True):
    """Results of one container id; None means no result yet. A new container id starts with none."""

    startup: ProbeResult | None = None
    liveness: ProbeResult | None = None
    readiness: ProbeResult | None = None


class HookState(enum.Enum):
    PENDING = "Pending"  # to be run, or running: it is run again if the daemon dies meanwhile
    DONE = "Done"
    FAILED = "Failed"


class BackoffEntry(msgspec.Struct, frozen=True, kw_only=True):
    """lifecycle.md section 7. `delay` and `last_update` in seconds."""

    delay: float
    last_update: float


class StartError(msgspec.Struct, frozen=True, kw_only=True):
    """Why the last start of a container failed: `waiting.reason` and `.message` (lifecycle.md 6.1).

    `retry_at` is when the next try is due. A failed pull turns from ErrImagePull to its back-off wording
    (`later_reason`, `later_message`) at `later_at`, so that both can be seen, as with the kubelet.
    """

    reason: str
    message: str
    at: float
    retry_at: float
    later_reason: str = ""
    later_message: str = ""
    later_at: float = 0.0


class KillReason(enum.Enum):
    LIVENESS = "LivenessProbe"
    STARTUP = "StartupProbe"
    CHANGED = "DefinitionChanged"
    POST_START = "FailedPostStartHook"
    UNKNOWN = "Unknown"
    POD = "PodStopping"  # part of a pod-wide stop


class Kill(msgspec.Struct, frozen=True, kw_only=True):
    """One container is being stopped since `began`, with `grace` seconds in all (preStop included)."""

    reason: KillReason
    message: str
    began: float
    grace: int


class StopCause(enum.Enum):
    REMOVED = "Removed"  # the manifest is gone or replaced
    ENDED = "Ended"  # the pod's owner or the node wants it to end, and to stay as it is then
    COMPLETED = "Completed"  # no regular container is left to run (lifecycle.md 9)
    INIT_FAILED = "InitFailed"
    DEADLINE = "DeadlineExceeded"
    SANDBOX = "SandboxChanged"  # stop, then create a new sandbox (lifecycle.md 3.2)
    RESTART_ALL = "RestartAllContainers"  # lifecycle.md 5.4: kill and remove everything, keep the sandbox


#: The pod goes on after these.
PASSING = frozenset({StopCause.SANDBOX, StopCause.RESTART_ALL})
#: Asked for from outside the room; they give at least 1 s of grace (LC 10.2).
REQUESTED = frozenset({StopCause.REMOVED, StopCause.ENDED})
#: Regular containers may still run for a while in these.
FROM_OUTSIDE = REQUESTED | {StopCause.DEADLINE}


class Stopping(msgspec.Struct, frozen=True, kw_only=True):
    """A pod-wide stop under way. `grace` may shrink, never grow (10.2)."""

    cause: StopCause
    began: float
    grace: int


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Keys are container ids where it says id, container names where it says name."""

    #: When the pod was accepted: `status.startTime`, and the start of activeDeadlineSeconds.
    accepted_at: float
    #: The last published status ("old" in lifecycle.md section 11).
    status: PodStatus | None = None
    backoff: dict[str, BackoffEntry] = {}  # by back-off key (7.1)
    start_errors: dict[str, StartError] = {}  # by name
    #: The back-off key under which each container was last tried, by name: an edit of its image ends the wait (LC 4.5).
    start_keys: dict[str, str] = {}
    probes: dict[str, ProbeResults] = {}  # by id
    #: By id; absent: no hook, or adopted: counts as done. By name from the hand-out of a start until it has come back.
    post_start: dict[str, HookState] = {}
    #: Why a hook failed, by id, until `decide` has made it the container's start error.
    post_start_errors: dict[str, StartError] = {}
    pre_stop: dict[str, HookState] = {}  # by name, for the pod-wide stop under way; by id for a single kill
    kills: dict[str, Kill] = {}  # by id; kept until the record is gone, so that restart rules can see it
    signalled: frozenset[str] = frozenset()  # ids that were sent the stop signal
    stop_by: dict[str, float] = {}  # by id: the end of the grace that the stop in hand was given
    #: When containers have ended, by id, where their records give a time that was still to come (the clock was set back
    #: since): the moment at which that was first seen.
    ended_by: dict[str, float] = {}
    #: Ids of containers that never ran, since their start was cut short, and whose removal was asked for: whatever is
    #: seen of them later is that removal's doing.
    half_made: frozenset[str] = frozenset()
    stopped_sandboxes: frozenset[str] = (
        frozenset()
    )  # ids whose stop was handed out (a dead one is stopped once, for its network)
    #: Names of init containers that completed, per sandbox id: they are not run again in that sandbox.
    init_done: dict[str, frozenset[str]] = {}
    #: Sandbox ids in which the pod was initialised once (all init entries done or started).
    initialized: frozenset[str] = frozenset()
    #: Why the sandbox that is wanted could not be made yet.
    sandbox_hindered: str = ""
    stopping: Stopping | None = None
    deadline_exceeded: bool = False
    #: The pod-wide stop has finished for good: nothing runs and nothing will.
    stopped: bool = False
    #: Highest restart count given out, by name: counts go on when records are gone.
    restart_counts: dict[str, int] = {}
    #: Names waiting for their new record after RestartAllContainers (5.4.4).
    restarting_all: frozenset[str] = frozenset()
    #: Keys of actions that were handed out and have not come back. Never stored.
    in_flight: frozenset[str] = frozenset()

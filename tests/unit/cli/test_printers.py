"""READY, STATUS and RESTARTS of pods: a row for each rule and each example of tables.md."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from minikubelet.cli.printers import event_row, pod_row, summary
from minikubelet.cli.tables import table
from minikubelet.cli.views import Event, Pod

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)

RUN = {"running": {"startedAt": "2026-01-01T11:00:00Z"}}
INITIALIZING = {"waiting": {"reason": "PodInitializing"}}


def waiting(reason: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason}}


def ended(code: int = 0, reason: str = "", **more: Any) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, **more}}


def last(at: str) -> dict[str, Any]:
    return {"lastState": {"terminated": {"exitCode": 1, "finishedAt": at}}}


class C:
    """A container's entry in spec and status."""

    def __init__(self, state: dict[str, Any], *, sidecar: bool = False, **status: Any) -> None:
        self.state, self.sidecar, self.status = state, sidecar, status


def sidecar(state: dict[str, Any], **status: Any) -> C:
    return C(state, sidecar=True, **status)


UP = {"started": True, "ready": True}


def pod(
    *, init: tuple[C, ...] = (), main: tuple[C, ...] = (), status: dict[str, Any] | None = None, **meta: Any
) -> Pod:
    def statuses(prefix: str, entries: tuple[C, ...]) -> list[dict[str, Any]]:
        return [{"name": f"{prefix}{i}", "state": c.state, **c.status} for i, c in enumerate(entries)]

    spec = {
        "containers": [{"name": f"m{i}"} for i, _ in enumerate(main)],
        "initContainers": [
            {"name": f"i{i}", **({"restartPolicy": "Always"} if c.sidecar else {})} for i, c in enumerate(init)
        ],
    }
    base = {"phase": "Running", "initContainerStatuses": statuses("i", init), "containerStatuses": statuses("m", main)}
    return msgspec.convert({"metadata": {"name": "p", **meta}, "spec": spec, "status": base | (status or {})}, Pod)


def condition(kind: str, value: str = "True") -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": value}]}


INITIALIZED = condition("Initialized")
READY = condition("Ready")
ROWS: list[tuple[str, Pod, str]] = [
    # Examples of tables.md.
    (
        "example: init 2 of 3 under way, two sidecars after it",
        # three init entries, of which the later two are sidecars: total is one main and two sidecars
        pod(init=(C(ended()), sidecar(INITIALIZING), sidecar(INITIALIZING)), main=(C(INITIALIZING),)),
        "0/3 Init:1/3 0",
    ),
    (
        "example: sidecar up and main starting",
        pod(init=(sidecar(RUN, **UP),), main=(C(INITIALIZING),), status=INITIALIZED),
        "1/2 PodInitializing 0",
    ),
    (
        "example: crash loop of main beside a ready sidecar",
        pod(
            init=(sidecar(RUN, **UP),),
            main=(C(waiting("CrashLoopBackOff"), restartCount=4, **last("2026-01-01T11:59:48Z")),),
        ),
        "1/2 CrashLoopBackOff 4 (12s ago)",
    ),
    (
        "example: job pod done",
        pod(init=(sidecar(ended(0, "Completed")),), main=(C(ended(0, "Completed")),), status={"phase": "Succeeded"}),
        "0/2 Completed 0",
    ),
    (
        "example: main done and sidecar still ending",
        pod(init=(sidecar(RUN, **UP),), main=(C(ended(0, "Completed")),)),
        "1/2 Completed 0",
    ),
    (
        "example: NotReady when a main still runs",
        pod(init=(sidecar(RUN, **UP),), main=(C(RUN, ready=True), C(ended(0, "Completed")))),
        "2/3 NotReady 0",
    ),
    # Start values.
    ("no statuses yet: the phase", pod(status={"phase": "Pending"}), "0/0 Pending 0"),
    ("status.reason before the phase", pod(status={"phase": "Failed", "reason": "OutOfcpu"}), "0/0 OutOfcpu 0"),
    # Step 1, the init walk.
    (
        "1: init waits for its turn",
        pod(init=(C(INITIALIZING), C(INITIALIZING)), main=(C(INITIALIZING),)),
        "0/1 Init:0/2 0",
    ),
    ("1: init runs", pod(init=(C(ended()), C(RUN, started=True)), main=(C(INITIALIZING),)), "0/1 Init:1/2 0"),
    (
        "1: an init that is started and ready does not count",
        pod(init=(C(RUN, **UP),), main=(C(INITIALIZING),)),
        "0/1 Init:0/1 0",
    ),
    ("1: waiting without a reason", pod(init=(C(waiting()),), main=(C(INITIALIZING),)), "0/1 Init:0/1 0"),
    (
        "1: waiting with a reason",
        pod(init=(C(waiting("ErrImagePull")),), main=(C(INITIALIZING),)),
        "0/1 Init:ErrImagePull 0",
    ),
    ("1: failed with a reason", pod(init=(C(ended(3, "Error")),), main=(C(INITIALIZING),)), "0/1 Init:Error 0"),
    ("1: failed without a reason", pod(init=(C(ended(3)),), main=(C(INITIALIZING),)), "0/1 Init:ExitCode:3 0"),
    ("1: killed by a signal", pod(init=(C(ended(137, signal=9)),), main=(C(INITIALIZING),)), "0/1 Init:Signal:9 0"),
    (
        "1: sidecar runs and is not started",
        pod(init=(sidecar(RUN, started=False),), main=(C(INITIALIZING),)),
        "0/2 Init:0/1 0",
    ),
    (
        "1: sidecar started and not ready does not hold back the walk",
        pod(init=(sidecar(RUN, started=True), C(RUN)), main=(C(INITIALIZING),)),
        "0/2 Init:1/2 0",
    ),
    (
        "1: sidecar that exited 0 is passed over and not ready",
        pod(init=(sidecar(ended(0, "Completed"), ready=False), C(RUN)), main=(C(INITIALIZING),)),
        "0/2 Init:1/2 0",
    ),
    (
        "1: the walk stops at the first, later ones do not count",
        pod(
            init=(C(waiting("CrashLoopBackOff"), restartCount=2), sidecar(RUN, restartCount=9, **UP)),
            main=(C(INITIALIZING, restartCount=5),),
        ),
        "0/2 Init:CrashLoopBackOff 2",
    ),
    (
        "1: the newest end of all init entries met so far",
        pod(
            init=(
                C(ended(), restartCount=1, **last("2026-01-01T11:59:00Z")),
                C(RUN, restartCount=2, **last("2026-01-01T11:58:00Z")),
            ),
            main=(C(INITIALIZING),),
        ),
        "0/1 Init:1/2 3 (60s ago)",
    ),
    # Step 2, the mains.
    ("2: all is well", pod(main=(C(RUN, ready=True),)), "1/1 Running 0"),
    ("2: runs and is not ready", pod(main=(C(RUN),)), "0/1 Running 0"),
    ("2: ready without running does not count", pod(main=(C({}, ready=True),)), "0/1 Running 0"),
    (
        "2: restarts of plain init containers no longer count",
        pod(init=(C(ended(), restartCount=7),), main=(C(RUN, ready=True, restartCount=1),)),
        "1/1 Running 1",
    ),
    (
        "2: restarts of sidecars do, and the newest end of all",
        pod(
            init=(sidecar(RUN, restartCount=2, **UP, **last("2026-01-01T11:59:58Z")),),
            main=(C(RUN, ready=True, restartCount=1, **last("2026-01-01T11:00:00Z")),),
        ),
        "2/2 Running 3 (2s ago)",
    ),
    ("2: a count without a time", pod(main=(C(RUN, ready=True, restartCount=3),)), "1/1 Running 3"),
    ("2: a time without a count", pod(main=(C(RUN, ready=True, **last("2026-01-01T11:00:00Z")),)), "1/1 Running 0"),
    ("2: the first main in order wins", pod(main=(C(waiting("A")), C(waiting("B")))), "0/2 A 0"),
    ("2: waiting without a reason says nothing", pod(main=(C(waiting()), C(waiting("B")))), "0/2 B 0"),
    ("2: ended with a reason", pod(main=(C(ended(1, "Error")),)), "0/1 Error 0"),
    ("2: ended without a reason", pod(main=(C(ended(4)),)), "0/1 ExitCode:4 0"),
    ("2: ended by a signal", pod(main=(C(ended(137, signal=9)),)), "0/1 Signal:9 0"),
    (
        "2: initialised once: the mains count although a sidecar is down",
        pod(init=(sidecar(waiting("CrashLoopBackOff")),), main=(C(RUN, ready=True),), status=INITIALIZED),
        "1/2 Init:CrashLoopBackOff 0",
    ),
    (
        "2: completed, another runs, the pod is ready",
        pod(main=(C(ended(0, "Completed")), C(RUN, ready=True)), status=READY),
        "1/2 Running 0",
    ),
    (
        "2: completed, another runs, the pod is not ready",
        pod(main=(C(ended(0, "Completed")), C(RUN, ready=True))),
        "1/2 NotReady 0",
    ),
    (
        "2: completed, another failed: its error",
        pod(main=(C(ended(0, "Completed")), C(ended(2, "Error")))),
        "0/2 Error 0",
    ),
    (
        "2: completed, one failed, one runs: the error comes before NotReady",
        pod(main=(C(ended(0, "Completed")), C(ended(2, "Error")), C(RUN, ready=True))),
        "1/3 Error 0",
    ),
    (
        "2: completed, one failed, one runs, ready: Running comes first",
        pod(main=(C(ended(0, "Completed")), C(ended(2, "Error")), C(RUN, ready=True)), status=READY),
        "1/3 Running 0",
    ),
    # Step 3, deletion.
    (
        "3: being deleted",
        pod(main=(C(RUN, ready=True),), deletionTimestamp="2026-01-01T11:59:00Z"),
        "1/1 Terminating 0",
    ),
    (
        "3: being deleted after it ended",
        pod(main=(C(ended(1, "Error")),), status={"phase": "Failed"}, deletionTimestamp="2026-01-01T11:59:00Z"),
        "0/1 Error 0",
    ),
]


@pytest.mark.parametrize(("given", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_ready_status_restarts(given: Pod, expected: str) -> None:
    it = summary(given, now=NOW)
    assert f"{it.ready}/{it.total} {it.status} {it.restarts}" == expected


def test_a_row_has_name_and_age() -> None:
    given = pod(main=(C(RUN, ready=True),), creationTimestamp="2026-01-01T11:00:00Z")
    assert pod_row(given, now=NOW, wide=False) == ("p", "1/1", "Running", "0", "60m")


def test_a_wide_row_has_none_where_nothing_is_known() -> None:
    assert pod_row(pod(), now=NOW, wide=True)[4:] == ("<unknown>", "<none>", "<none>", "<none>", "<none>")


def test_a_wide_row_has_address_node_and_gates() -> None:
    given = msgspec.convert(
        {
            "metadata": {"name": "p"},
            "spec": {"nodeName": "n1", "readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}]},
            "status": {
                "podIP": "10.0.0.9",
                "podIPs": [{"ip": "10.0.0.2"}, {"ip": "fd00::2"}],
                "nominatedNodeName": "n2",
                "conditions": [{"type": "a", "status": "True"}, {"type": "b", "status": "False"}],
            },
        },
        Pod,
    )
    assert pod_row(given, now=NOW, wide=True)[5:] == ("10.0.0.2", "n1", "n2", "1/2")


def test_event_rows() -> None:
    event = msgspec.convert(
        {
            "metadata": {"name": "web.1"},
            "involvedObject": {"kind": "Pod", "name": "web", "fieldPath": "spec.containers{m}"},
            "source": {"component": "minikubelet", "host": "n1"},
            "type": "Warning",
            "reason": "BackOff",
            "message": "Back-off restarting\n",
            "count": 4,
            "firstTimestamp": "2026-01-01T11:00:00Z",
            "lastTimestamp": "2026-01-01T11:59:57Z",
        },
        Event,
    )
    assert event_row(event, now=NOW, wide=False) == ("3s", "Warning", "BackOff", "pod/web", "Back-off restarting")
    assert event_row(event, now=NOW, wide=True)[4:] == (
        "spec.containers{m}",
        "minikubelet, n1",
        "Back-off restarting",
        "60m",
        "4",
        "web.1",
    )


def test_columns_have_three_blanks_between_them_and_six_at_least() -> None:
    assert table(("NAME", "A", "LAST"), [("a-long-name", "1", "x"), ("b", "22", "two\nlines")]) == (
        "NAME          A     LAST\na-long-name   1     x\nb             22    two lines"
    )

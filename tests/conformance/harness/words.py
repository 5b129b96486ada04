"""The words that scenarios are written in: container commands that journal their own life, probes, hooks.

A command appends `UPTIME NAME WORDS` lines to /journal/events, which is a file in a folder of the host. Standard
library only, like all of the harness: it runs on any host against any agent.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

IMAGE = "busybox:1.36"
#: The same programs under another name: the image of an edit.
OTHER_IMAGE = "busybox:1.37"

#: Under every pod policy, for scenarios whose rule does not ask for it.
POLICIES = {"always": "Always", "onfailure": "OnFailure", "never": "Never"}

#: A Kubernetes object, or part of one, as JSON has it.
Json = dict[str, Any]
#: `container` or `sidecar`.
Maker = Callable[..., Json]

PRELUDE = r"""
j() { read u _ </proc/uptime; echo "$u $N $*" >>/journal/events; }
nap() { sleep "$1" & wait $!; }
when_started() { until [ -e /tmp/started ]; do sleep 0.1; done; }
until_file() { while [ ! -e "/journal/$1" ]; do nap 0.2; done; }
"""


def script(
    name: str,
    *,
    delay: float = 0,
    run: float | None = None,
    until: str = "",
    code: int = 0,
    on_term: float | None = 0,
    term_code: int = 0,
    term: str = "",
    body: str = "",
) -> list[str]:
    """A container command that journals its own life.

    It journals `starting`, waits `delay` seconds, journals `started` and touches /tmp/started, executes `body`, then
    runs for `run` seconds, or until `Run.release(until)`, and leaves with `code` (journal: `exiting`), or runs until it
    is told to stop. On SIGTERM it journals `term`, executes `term`, takes `on_term` seconds, journals `exiting` and
    leaves with `term_code`; with on_term=None it journals and ignores it.
    """
    ending = f"[ {on_term} = 0 ] || sleep {on_term}; j exiting; exit {term_code}" if on_term is not None else ":"
    trap = f"j term; {term or ':'}; {ending}"
    life = f"nap {run}; " if run is not None else f"until_file {until}; " if until else ""
    lines = [
        f"N={name}",
        PRELUDE,
        f"trap {shlex.quote(trap)} TERM",
        "j starting",
        f"[ {delay} = 0 ] || nap {delay}",
        "j started; touch /tmp/started",
        body,
        f"{life}j exiting; exit {code}" if life else "while :; do nap 1000; done",
    ]
    return ["sh", "-c", "\n".join(lines)]


def shell(name: str, what: str) -> list[str]:
    """A command (for hooks and probes) that runs `what` with the journal at hand."""
    return ["sh", "-c", f"N={name}\n{PRELUDE}\n{what}"]


def container(name: str, command: list[str], **extra: Any) -> Json:
    mounts = [{"name": "journal", "mountPath": "/journal"}, *extra.pop("volumeMounts", [])]
    return {
        "name": name,
        "image": extra.pop("image", IMAGE),
        "imagePullPolicy": extra.pop("imagePullPolicy", "IfNotPresent"),
        "command": command,
        "volumeMounts": mounts,
        **extra,
    }


def sidecar(name: str, command: list[str], **extra: Any) -> Json:
    return container(name, command, restartPolicy="Always", **extra)


#: In a probe: a failure must not end a `script` before that has set its trap, for a signal before that is lost.
_WHEN_STARTED = "until [ -e /tmp/started ]; do sleep 0.1; done"


def exec_probe(command: list[str], **fields: Any) -> Json:
    """Each second, with a timeout that also a busy machine keeps."""
    return {"exec": {"command": command}, "periodSeconds": 1, "timeoutSeconds": 10, **fields}


def file_probe(name: str, **fields: Any) -> Json:
    """A probe that succeeds while `Run.release(name)` holds."""
    return exec_probe(["sh", "-c", f"{_WHEN_STARTED}; [ -e /journal/{name} ]"], **fields)


def fails(**fields: Any) -> Json:
    """A probe that always fails, the first time counts."""
    return exec_probe(["sh", "-c", f"{_WHEN_STARTED}; false"], **{"failureThreshold": 1, **fields})


def post_start(name: str, what: str) -> Json:
    return {"postStart": {"exec": {"command": shell(name, what)}}}


def pre_stop(name: str, what: str) -> Json:
    return {"preStop": {"exec": {"command": shell(name, what)}}}


STARTED = exec_probe(["cat", "/tmp/started"], failureThreshold=60)

#: The body of a container whose first life ends at once with code 1.
FAIL_ONCE = (
    "n=$(cat /journal/n 2>/dev/null || echo 0); echo $((n+1)) >/journal/n; [ $n -ge 1 ] || { j failing; exit 1; }"
)

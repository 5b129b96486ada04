"""The play that scripts/demo shows: sidecars that gate, crash and end in order; a one-off that completes beside one.

Runs on a node of its own (tests/support/node.py). What happened is told from two sides: by the daemon's events, and by
what the containers themselves wrote to their logs, at the time they wrote it. The arguments: what scripts/demo keeps.
"""

from __future__ import annotations

import datetime as dt
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from tests.support.node import PrivateNode

#: A container that says what it does, and ends only when it is told to; `$1` is how long it needs to come up.
_SERVICE = """
trap 'echo "told to stop; finishing for {stop} s"; sleep {stop}; echo "done, ending"; exit 0' TERM
echo "process started{coming}"; sleep {start}; touch /up{up}
while :; do sleep 1000 & wait $!; done
"""
_BATCH = """
echo "process started: 4 s of work"; for i in 1 2 3 4; do sleep 1; echo "result $i" >>/results/lines; done
echo "work done, ending with exit code 0"
"""
_SHIPPER = """
trap 'echo "told to stop; $(wc -l </results/lines) lines shipped, ending"; exit 0' TERM
echo "process started; would run for ever"; touch /results/lines
while :; do sleep 1000 & wait $!; done
"""
#: The events that tell this story. `Killing` is not among them: as in Kubernetes it comes for all containers of a pod
#: when its end begins, before those that wait for others are told to stop; their own words are the better witness.
_TOLD = frozenset({"Started", "Unhealthy", "BackOff", "Failed"})
Json = dict[str, Any]


class Interrupted(Exception):  # noqa: N818 - somebody pressed Ctrl-C: no error
    pass


class Play:
    """Prints what happens on a node as it happens. Times on the left are seconds since the last heading."""

    def __init__(self, node: PrivateNode) -> None:
        self.node = node
        self.interrupted = False
        self._zero = time.time()
        self._logs: dict[Path, IO[str]] = {}
        self._events: set[tuple[str, int]] = set()

    def heading(self, title: str, *explanation: str) -> None:
        bold, plain = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("", "")
        print(f"\n{bold}{title}{plain}")
        for line in explanation:
            print(f"  {line}")
        print(flush=True)
        self._let_read(3)
        self._zero = time.time()

    def drop(self, pod: Json) -> None:
        target = self.node.manifests / f"{pod['metadata']['name']}.yaml"
        fresh = target.with_suffix(".new")
        fresh.write_text(json.dumps(pod, indent=1))
        fresh.rename(target)
        self.say(time.time(), "you", f"put {target.name} into the folder")

    def take_away(self, name: str) -> None:
        (self.node.manifests / f"{name}.yaml").unlink()
        self.say(time.time(), "you", f"removed {name}.yaml from the folder")

    def table(self, *, after: str = "") -> None:
        print(f"\n  $ minikubelet get pods{'      # ' + after if after else ''}")
        for line in self.node.cli("get", "pods").splitlines():
            print(f"  {line}")
        print(flush=True)
        self._let_read(2)

    def until(self, what: str, test: Callable[[], object], *, within: float = 30) -> None:
        """Tell what happens until `test` is true. Raises TimeoutError, and Interrupted after Ctrl-C."""
        deadline = time.monotonic() + within
        while True:
            if self.interrupted:
                raise Interrupted
            done = test()
            self.tell()
            if done:
                return
            if time.monotonic() > deadline:
                tail = "".join(self.node.log.read_text(errors="replace").splitlines(keepends=True)[-15:])
                raise TimeoutError(f"waited {within:g} s for: {what}; the end of the daemon's log:\n{tail}")
            time.sleep(0.05)

    def pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        self.until("a moment", lambda: time.monotonic() > end, within=seconds + 10)

    def _let_read(self, seconds: float) -> None:
        """Whoever looks at a terminal reads slower than this goes."""
        if sys.stdout.isatty():
            self.pause(seconds)

    def tell(self) -> None:
        for at, who, text in sorted([*self._new_log_lines(), *self._new_events()]):
            self.say(at, who, text)

    def say(self, at: float, who: str, text: str) -> None:
        print(f"  {at - self._zero:6.2f} s  {who:12} {text}", flush=True)

    def pod(self, name: str) -> Json | None:
        found: list[Json] = self.node.get("/pods").get("items") or []
        return next((pod for pod in found if pod["metadata"]["name"] == name), None)

    def phase(self, name: str) -> str:
        return str(((self.pod(name) or {}).get("status") or {}).get("phase", "gone"))

    def container(self, pod: str, name: str) -> Json:
        status: Json = (self.pod(pod) or {}).get("status") or {}
        every: list[Json] = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
        return next((c for c in every if c["name"] == name), {})

    def running(self, pod: str, name: str) -> bool:
        return "running" in (self.container(pod, name).get("state") or {})

    def _new_log_lines(self) -> Iterator[tuple[float, str, str]]:
        # A log that was opened once can be read to its end, also after its pod and so its file are gone.
        for path in self.node.logs.glob("*/*/*.log"):
            if path not in self._logs:
                self._logs[path] = path.open()
        for path, log in self._logs.items():
            while line := log.readline():
                stamp, _, _, text = line.rstrip("\n").split(" ", 3)
                yield _unix(stamp), path.parent.name, text

    def _new_events(self) -> Iterator[tuple[float, str, str]]:
        # Kubernetes' events tell whole seconds: the moment at which they are seen here is more exact.
        for event in self.node.get("/events").get("items") or []:
            seen = (event["metadata"]["name"], event["count"])
            if seen not in self._events:
                self._events.add(seen)
                if event["reason"] in _TOLD:
                    container = event["involvedObject"].get("fieldPath", "").partition("{")[2].rstrip("}")
                    yield time.time(), "event", f"{container} {event['reason']}: {event['message'].splitlines()[0]}"


def _unix(stamp: str) -> float:
    """RFC 3339 with nanoseconds to unix seconds."""
    whole, _, fraction = stamp.rstrip("Z").partition(".")
    at = dt.datetime.fromisoformat(whole).replace(tzinfo=dt.UTC).timestamp()
    return at + float(f"0.{fraction or 0}")


def service(name: str, *, start: float = 0, stop: float = 1, **fields: object) -> Json:
    coming, up = (f"; needs {start:g} s to come up", '; echo "up"') if start else ("", "")
    return container(name, _SERVICE.format(start=start, stop=stop, coming=coming, up=up), **fields)


def container(name: str, script: str, **fields: object) -> Json:
    return {"name": name, "image": "busybox:1.36", "command": ["sh", "-c", script], **fields}


def pod(name: str, *, init: list[Json], main: list[Json], **spec: object) -> Json:
    everything = {"terminationGracePeriodSeconds": 20, **spec, "initContainers": init, "containers": main}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": everything}


def sidecars(play: Play) -> None:
    play.heading(
        "1. Sidecars come first, and gate",
        "proxy and shipper are init containers with restartPolicy: Always, that is, sidecars.",
        "proxy has a startup probe: nothing after it starts before it is up.",
    )
    probe = {"exec": {"command": ["cat", "/up"]}, "periodSeconds": 1, "failureThreshold": 30}
    init = [
        service("proxy", start=2, restartPolicy="Always", startupProbe=probe),
        service("shipper", restartPolicy="Always"),
    ]
    play.drop(pod("shop", init=init, main=[service("web")]))
    play.until("proxy runs", lambda: play.running("shop", "proxy"))
    play.table(after="proxy runs, and is not up yet")
    play.until("web runs", lambda: play.running("shop", "web"))
    play.pause(0.5)
    play.table()


def crash(play: Play) -> None:
    play.heading("2. A sidecar crashes", "It is started again by itself; web, beside it, is not touched.")
    before, web = (play.container("shop", name) for name in ("shipper", "web"))
    play.say(time.time(), "you", "kill -9 the process of shipper")
    play.node.ctr("tasks", "kill", "--signal", "SIGKILL", before["containerID"].split("//")[1])
    play.until(
        "shipper is back", lambda: play.container("shop", "shipper").get("restartCount", 0) > before["restartCount"]
    )
    play.until("shipper runs", lambda: play.running("shop", "shipper"))
    play.pause(0.5)
    same = play.container("shop", "web")["containerID"] == web["containerID"]
    play.table(after=f"one restart; web is {'still the same container' if same else 'ANOTHER CONTAINER'}")


def kill_daemon(play: Play) -> None:
    play.heading(
        "3. The daemon itself is killed, and started again",
        "Containers do not notice; the new daemon takes them up as they are.",
    )
    names = ("proxy", "shipper", "web")
    before = [play.container("shop", name)["containerID"] for name in names]
    play.say(time.time(), "you", "kill -9 the daemon")
    play.node.stop(signal.SIGKILL)
    play.node.start()
    play.say(time.time(), "daemon", "answers again")
    play.until("shop is Ready", lambda: all(play.container("shop", name).get("ready") for name in names))
    same = before == [play.container("shop", name)["containerID"] for name in names]
    play.table(after=f"{'the same containers as before' if same else 'OTHER CONTAINERS'}")


def job(play: Play) -> None:
    play.heading(
        "4. A one-off pod completes although its sidecar would run for ever",
        "restartPolicy: Never. When batch has ended, its shipper is told to stop, and the pod is done.",
    )
    mounts = [{"name": "results", "mountPath": "/results"}]
    volumes = [{"name": "results", "emptyDir": {}}]
    init = [container("shipper", _SHIPPER, restartPolicy="Always", volumeMounts=mounts)]
    main = [container("batch", _BATCH, volumeMounts=mounts)]
    play.drop(pod("report", init=init, main=main, volumes=volumes, restartPolicy="Never"))
    play.until("report is done", lambda: play.phase("report") in ("Succeeded", "Failed"))
    play.pause(0.5)
    play.table(after=f"report is {play.phase('report')}")


def end(play: Play) -> None:
    play.heading(
        "5. The end, in reverse order", "First web, then the sidecars, the last one first: shipper, then proxy."
    )
    play.take_away("shop")
    play.take_away("report")
    play.until("both pods are gone", lambda: play.pod("shop") is None and play.pod("report") is None)
    play.pause(0.2)
    play.table()


def main() -> int:
    node = PrivateNode(Path(tempfile.mkdtemp(prefix="mk-demo-")))
    play = Play(node)

    def interrupt(_signal: int, _frame: object) -> None:
        play.interrupted = True

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    status = 1
    try:
        print(f"Starting a containerd and minikubelet of their own in {node.base}", flush=True)
        node.create()
        node.start()
        for act in (sidecars, crash, kill_daemon, job, end):
            act(play)
        status = 0
    except Interrupted:
        print("\nInterrupted.", flush=True)
        status = 130
    except (TimeoutError, RuntimeError) as error:
        print(f"\nThe demo did not go as it should: {error}", file=sys.stderr)
    finally:
        # Not to be disturbed: also what this starts ignores Ctrl-C from here on.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        node.destroy()
        left = node.leftovers()
        print(
            "Left behind: "
            + ("; ".join(left) if left else "nothing (no container, mount, bridge, cgroup, process or file)")
        )
        if sys.argv[1:]:
            print(f"Kept for next time: {', '.join(sys.argv[1:])}")
    return status or int(bool(left))


if __name__ == "__main__":
    sys.exit(main())

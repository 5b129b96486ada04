"""nginx, haproxy, rsyslog and redis in the samples' pods: what a proxy, a shipper and a database need of a node."""

from __future__ import annotations

import datetime as dt
import functools
import re
import socket
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import pytest

from tests.integration.software.conftest import Place

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(400)]

#: An answer that is much longer than what all buffers between nginx and a client hold, so that it is under way until
#: the client has read it. nginx' configuration may have no word this long, but variables.
LONG_BYTES = 32 * 1024 * 1024
LONG = (
    f'location /long {{ set $a "{"." * 1024}"; set $b "{"$a" * 32}"; set $c "{"$b" * 32}"; return 200 "{"$c" * 32}"; }}'
)
LINES = 200_000


def fetch(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - our own URL
            return str(answer.read().decode())
    except (OSError, urllib.error.URLError):
        return ""


def container(pod: dict[str, Any], name: str) -> dict[str, Any]:
    status = pod["status"]
    statuses = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    found: dict[str, Any] = next(it for it in statuses if it["name"] == name)
    return found


def container_id(pod: dict[str, Any], name: str) -> str:
    return str(container(pod, name)["containerID"]).partition("://")[2]


def test_requests_reach_nginx_through_haproxy_which_comes_first_and_goes_last(place: Place) -> None:
    place.put("web-behind-haproxy", lambda text: text.replace("location / {", f"{LONG}\n            location / {{"))
    pod = place.ready("web-behind-haproxy")
    url = f"http://{pod['status']['podIP']}:8080"
    assert fetch(f"{url}/") == "hello from nginx\n"

    # haproxy's log has the moment of each request: the startup probe's first one was answered before nginx was made.
    probed = [line for line in place.printed("web-behind-haproxy", "haproxy") if re.search(r" health GET / 200", line)]
    first = dt.datetime.fromtimestamp(float(probed[0].split()[0]), dt.UTC)
    assert first < place.runtime.created(container_id(pod, "nginx"))
    assert container(pod, "haproxy")["started"] is True

    begun, told = threading.Barrier(3), threading.Event()

    def load() -> int:
        with urllib.request.urlopen(f"{url}/long", timeout=120) as answer:  # noqa: S310 - our own URL
            size = len(answer.read(1024))
            begun.wait(60)
            told.wait(60)
            return size + len(answer.read())

    with ThreadPoolExecutor(2) as threads:
        loads = [threads.submit(load) for _ in range(2)]
        begun.wait(60)
        place.take("web-behind-haproxy")
        log = functools.partial(place.printed, "web-behind-haproxy", "nginx")
        place.until("nginx has been asked to end", lambda: any("gracefully shutting down" in line for line in log()))
        told.set()
        assert [each.result(120) for each in loads] == [LONG_BYTES] * 2
    place.gone("web-behind-haproxy")

    ids = {container_id(pod, name): name for name in ("haproxy", "nginx")}
    exits = [(ids[it], code) for it, code in place.runtime.exits().items() if it in ids]
    assert exits == [("nginx", 0), ("haproxy", 0)]


def test_every_line_of_a_batch_is_shipped_the_last_one_too(place: Place) -> None:
    """So many lines that rsyslog is far from done when the batch ends."""
    work = 'for i in $(seq 1000); do echo "item $i done"; done'
    place.put("batch-with-rsyslog", lambda text: text.replace(work, f"seq {LINES}"))
    place.completes("batch-with-rsyslog")
    (shipped,) = (place.host / "batch-with-rsyslog").iterdir()
    assert shipped.read_text().splitlines() == [*map(str, range(1, LINES + 1)), "all done"]


class Redis:
    """A client of few words, for one connection."""

    def __init__(self, address: str) -> None:
        self._socket = socket.create_connection((address, 6379), timeout=30)
        self._file = self._socket.makefile("rb")

    def ask(self, *words: str) -> str:
        """The answer to a command: a status, or a text."""
        encoded = "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
        self._socket.sendall(f"*{len(words)}\r\n{encoded}".encode())
        answer = self._file.readline().decode().strip()
        if not answer.startswith("$"):
            return answer
        return self._file.readline().decode().strip() if answer != "$-1" else ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()


def test_redis_keeps_its_data_over_the_replacement_of_its_pod(place: Place) -> None:
    place.put("redis-with-claim")
    first = place.ready("redis-with-claim")
    with Redis(first["status"]["podIP"]) as redis:
        assert redis.ask("GET", "greeting") == "-NOAUTH Authentication required."
        assert redis.ask("AUTH", "change-me") == "+OK"
        assert redis.ask("SET", "greeting", "hello") == "+OK"

    place.put("redis-with-claim", lambda text: text.replace("maxmemory 64mb", "maxmemory 96mb").replace('"1"', '"2"'))
    second = place.ready("redis-with-claim", other_than=first["metadata"]["uid"])
    with Redis(second["status"]["podIP"]) as redis:
        assert redis.ask("AUTH", "change-me") == "+OK"
        assert redis.ask("GET", "greeting") == "hello"
    assert place.runtime.exits()[container_id(first, "redis")] == 0

"""Following a log: nothing is missed, and it ends when the container has."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from minikubelet.cli.errors import UnreachedError
from minikubelet.cli.following import follow
from minikubelet.pods.log_reading import LogReader, container_folder


def line(text: str) -> bytes:
    return f"2026-01-01T00:00:00Z stdout F {text}\n".encode()


class Follower:
    """Follows in a thread."""

    def __init__(self, top: Path, ended: Callable[[float], bool]) -> None:
        self.lines: list[bytes] = []
        self._more = threading.Condition()
        self._thread = threading.Thread(target=self._run, args=(top, ended))
        self._thread.start()

    def _run(self, top: Path, ended: Callable[[float], bool]) -> None:
        with container_folder(top, "p", "m") as folder, LogReader(folder, 0) as log:

            def show() -> None:
                with self._more:
                    self.lines += log.read()
                    self._more.notify_all()

            follow(folder, log.name, show=show, ended=ended)

    def until(self, *lines: str) -> None:
        wanted = [text.encode() for text in lines]
        with self._more:
            assert self._more.wait_for(lambda: self.lines == wanted, 60), self.lines

    def over(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "p" / "m" / "0.log"
    path.parent.mkdir(parents=True)
    return path


def test_what_is_written_is_shown_through_a_rotation_until_the_end(log: Path) -> None:
    end = threading.Event()
    with log.open("ab", buffering=0) as file:
        file.write(line("a"))
        follower = Follower(log.parent.parent.parent, lambda _: end.wait(60))
        follower.until("a")
        file.write(line("b"))
        follower.until("a", "b")
        log.rename(log.with_name("0.log.20260101-000000"))
        file.write(line("c"))
        with log.open("ab", buffering=0) as after:
            after.write(line("d"))
            follower.until("a", "b", "c", "d")
            after.write(line("e"))
            end.set()
    follower.over()
    follower.until("a", "b", "c", "d", "e")


def test_while_the_daemon_is_away_it_ends_when_nobody_writes_any_more(log: Path) -> None:
    asked = threading.Event()

    def unreached(_: float) -> bool:
        asked.set()
        raise UnreachedError("away")

    with log.open("ab", buffering=0) as file:
        follower = Follower(log.parent.parent.parent, unreached)
        assert asked.wait(60)
        file.write(line("a"))
        follower.until("a")
    follower.over()

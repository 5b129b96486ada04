"""What all Job workers share. Made once by `controller`."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from minikubelet.jobs.backoff import Settings
from minikubelet.jobs.pods import Draw
from minikubelet.jobs.runner import PodRunner
from minikubelet.store.durable import Work
from minikubelet.store.job_records import JobRecord

T = TypeVar("T")


class Transact(Protocol):
    def __call__(self, work: Work[T]) -> Awaitable[T]:
        """Run `work` in a transaction of its own; it is on the disk when this returns."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobServices:
    transact: Transact
    runner: PodRunner
    #: Told whenever something about a Job may look different.
    show: Callable[[JobRecord], None]
    #: Unix seconds.
    clock: Callable[[], float]
    #: Draws one of the given characters at random.
    draw: Draw
    node_name: str
    settings: Settings = dataclasses.field(default_factory=Settings)
    #: Namespace and name of every pod in the books.
    pod_names: set[tuple[str, str]] = dataclasses.field(default_factory=set)
    #: Whom to tell of a pod's changes, by its uid.
    tell: dict[str, Callable[[str], None]] = dataclasses.field(default_factory=dict)

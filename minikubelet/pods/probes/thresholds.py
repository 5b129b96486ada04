"""When do outcomes of single runs make a verdict (PH 4.4).

A counter belongs to one probe of one container id and starts anew with the next id (the kubelet carries it over; a
restarted container must not die for the failures of its predecessor). Pure: `prober` feeds it and keeps the verdict.
"""

from __future__ import annotations

import msgspec

from minikubelet.api.pod import Probe
from minikubelet.lifecycle.memory import ProbeResult


class Counter(msgspec.Struct, frozen=True, kw_only=True):
    """Counts equal outcomes in a row. Runs that were skipped, or that ended in an error, are never shown to it."""

    success_threshold: int
    failure_threshold: int
    last: ProbeResult | None = None
    run: int = 0

    @classmethod
    def of(cls, probe: Probe) -> Counter:
        return cls(success_threshold=probe.success_threshold, failure_threshold=probe.failure_threshold)

    def add(self, outcome: ProbeResult) -> Counter:
        """The counter after one more outcome (SUCCESS or FAILURE); an opposite outcome starts the count again."""
        run = self.run + 1 if outcome is self.last else 1
        return msgspec.structs.replace(self, last=outcome, run=run)

    @property
    def verdict(self) -> ProbeResult | None:
        """The outcome that reached its threshold, or None: what was stored before still stands."""
        needed = self.success_threshold if self.last is ProbeResult.SUCCESS else self.failure_threshold
        return self.last if self.run >= needed else None

"""Kubernetes' way of writing moments."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


def rfc3339(seconds: float) -> str:
    """Unix seconds as Kubernetes shows times: UTC, whole seconds."""
    return _written(int(seconds))


@lru_cache(maxsize=4096)
def _written(seconds: int) -> str:
    """A status is made up at every decision, nearly always of moments it has written before."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

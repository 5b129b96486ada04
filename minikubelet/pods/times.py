"""Kubernetes' way of writing moments."""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339(seconds: float) -> str:
    """Unix seconds as Kubernetes shows times: UTC, whole seconds."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_nano(seconds: float) -> str:
    """The same with nine digits of the second, as far as a float has them."""
    return f"{datetime.fromtimestamp(int(seconds), UTC):%Y-%m-%dT%H:%M:%S}.{int(seconds % 1 * 1e9):09d}Z"

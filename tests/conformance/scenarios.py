#!/usr/bin/env python3
"""All scenarios, for `python3 -m tests.conformance.scenarios --help`; their modules say what each is about.

Those that are not marked `beyond` tell what a kubelet v1.36 in standalone mode does, too.
"""

from __future__ import annotations

import sys

from tests.conformance import (
    completion,
    endings,
    hooks,
    manifests,
    order,
    outages,
    probe_answers,
    probe_kills,
    readiness,
    reboots,
    restarts,
    sandboxes,
    sidecar_updates,
    start_failures,
    termination,
    updates,
)
from tests.conformance.harness.command import main
from tests.conformance.harness.suite import suite

__all__ = ["suite"]

#: Each registers its scenarios when it is imported.
MODULES = (
    completion,
    endings,
    hooks,
    manifests,
    order,
    outages,
    probe_answers,
    probe_kills,
    readiness,
    reboots,
    restarts,
    sandboxes,
    sidecar_updates,
    start_failures,
    termination,
    updates,
)

if __name__ == "__main__":
    sys.exit(main(suite))

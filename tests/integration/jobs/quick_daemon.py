"""`minikubelet`, but Jobs wait 1 s instead of 10 s after the first failure: "B" of the test table of JOBS 17."""

from __future__ import annotations

import functools

from minikubelet import daemon
from minikubelet.cli import main
from minikubelet.jobs.backoff import Settings
from minikubelet.jobs.controller import JobController

if __name__ == "__main__":
    quick = functools.partial(JobController, settings=Settings(backoff_base=1.0))
    vars(daemon)["JobController"] = quick
    main()

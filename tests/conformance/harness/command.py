"""The command line of the suite, for any agent on this host."""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib

from tests.conformance.harness.agent import Agent, Trace
from tests.conformance.harness.suite import Scenario, Suite, conduct
from tests.conformance.harness.words import Json


def main(suite: Suite, argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="run the conformance scenarios against a node agent")
    parser.add_argument("--manifests", type=pathlib.Path, required=True, help="the folder that the agent watches")
    parser.add_argument("--url", default="http://127.0.0.1:10255", help="where the agent serves /pods")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("/tmp/conformance"))
    parser.add_argument("--stop", default="", help="shell command that stops the agent at once (kill -9)")
    parser.add_argument("--start", default="", help="shell command that starts the agent and returns")
    parser.add_argument("--stop-runtime", default="", help="shell command that stops containerd and leaves its shims")
    parser.add_argument("--start-runtime", default="", help="shell command that starts containerd and returns")
    parser.add_argument("--remove-record", default="", help="shell command that removes a container, as `crictl rm`")
    parser.add_argument("--jobs", type=int, default=8, help="scenarios at a time")
    parser.add_argument("--json", type=pathlib.Path, help="also write the results there")
    parser.add_argument("--trace", type=pathlib.Path, help="keep every status change of every pod in this folder")
    parser.add_argument("--without-beyond", action="store_true", help="only what a real kubelet does, too")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("only", nargs="*", help="names of scenarios, or parts of them")
    options = parser.parse_args(argv)
    chosen = [s for s in suite.scenarios if not options.only or any(o in s.name for o in options.only)]
    chosen = [s for s in chosen if not (options.without_beyond and s.beyond)]
    if options.list:
        for s in chosen:
            print(f"{s.name:42} {s.summary}" + (f" [beyond the kubelet: {s.beyond}]" if s.beyond else ""))  # noqa: T201
        return 0
    agent = Agent(
        options.manifests,
        options.url,
        options.work,
        stop=options.stop,
        start=options.start,
        stop_runtime=options.stop_runtime,
        start_runtime=options.start_runtime,
        remove_record=options.remove_record,
    )
    results: list[Json] = []

    def report(_: Scenario, result: Json) -> None:
        results.append(result)
        measures = " ".join(f"{k}={v:g}" for k, v in result["measures"].items())
        print(f"{result['verdict']:8}{result['scenario']:42}{result['seconds']:6.1f} s  {measures}", flush=True)  # noqa: T201
        if result["why"]:
            print("        " + result["why"][:1500].replace("\n", "\n        "), flush=True)  # noqa: T201

    with Trace(agent, options.trace) if options.trace else contextlib.nullcontext():
        skipped = conduct(agent, chosen, jobs=options.jobs, report=report)
    failed = sum(r["verdict"] != "passed" for r in results)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    print(f"{len(results) - failed} passed, {failed} failed, {len(skipped)} skipped")  # noqa: T201
    return 1 if failed or not results else 0

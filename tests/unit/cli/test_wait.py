"""`minikubelet wait` against a small server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from click.testing import CliRunner, Result

from minikubelet.cli import main


@pytest.fixture
def answers() -> list[list[str]]:
    """The true conditions that are answered, one request after the other; the last one for ever."""
    return [[]]


@pytest.fixture
def server(answers: list[list[str]]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path.startswith("/jobs/default/j?for=")
            conditions = [{"type": kind, "status": "True"} for kind in answers[0]] if found else []
            if len(answers) > 1:
                answers.pop(0)
            body = json.dumps({"metadata": {"name": "j"}, "status": {"conditions": conditions}}).encode()
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{http.server_port}"
    http.shutdown()
    thread.join()
    http.server_close()


def wait(server: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["wait", *arguments, "--server", server])


def test_it_ends_well_when_the_condition_is_met(server: str, answers: list[list[str]]) -> None:
    answers[:] = [[], ["SuccessCriteriaMet"], ["SuccessCriteriaMet", "Complete"]]
    found = wait(server, "job/j", "--for=condition=Complete", "--timeout=20s")
    assert (found.exit_code, found.stdout) == (0, "job.batch/j condition met\n")


def test_a_job_that_failed_is_not_waited_for(server: str, answers: list[list[str]]) -> None:
    answers[:] = [["FailureTarget", "Failed"]]
    found = wait(server, "job/j", "--for=condition=Complete", "--timeout=20s")
    assert found.exit_code == 1
    assert "job j failed" in found.stderr
    assert wait(server, "jobs/j", "--for=condition=Failed").exit_code == 0


def test_conditions_are_known_in_any_case_and_others_are_not(server: str, answers: list[list[str]]) -> None:
    answers[:] = [["Complete"]]
    assert wait(server, "JOB/j", "--for=condition=complete").exit_code == 0
    found = wait(server, "job/j", "--for=condition=Completed")
    assert found.exit_code == 2
    assert "'Completed' is no condition of a Job; there are: Complete, Failed" in found.stderr


def test_a_job_that_is_not_there_is_told_as_kubectl_does(server: str) -> None:
    found = wait(server, "job/nosuch", "--for=condition=Complete")
    assert (found.exit_code, found.stderr) == (
        1,
        'Error from server (NotFound): jobs.batch "nosuch" not found\n',
    )


def test_the_time_can_be_over(server: str) -> None:
    found = wait(server, "job/j", "--for=condition=Complete", "--timeout=0s")
    assert found.exit_code == 1
    assert "timed out waiting for the condition on jobs/j" in found.stderr


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("job/other", "--for=condition=Complete"), 1),
        (("pod/j", "--for=condition=Ready"), 2),
        (("job/", "--for=condition=Complete"), 2),
        (("job/j", "--for=delete"), 2),
        (("job/j", "--for=condition=Complete", "--timeout=soon"), 2),
        (("job/j",), 2),
    ],
)
def test_what_cannot_be_waited_for(server: str, arguments: tuple[str, ...], status: int) -> None:
    assert wait(server, *arguments).exit_code == status

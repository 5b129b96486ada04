"""The commands that act, as a user runs them, against a small server on a unix socket and without any."""

from __future__ import annotations

import json
import socket
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from minikubelet.cli import main
from minikubelet.cli.control import act

Line = dict[str, object]
SUCCESS: Line = {"kind": "Status", "status": "Success"}


def failure(reason: str, message: str) -> Line:
    return {"kind": "Status", "status": "Failure", "reason": reason, "message": message}


class Daemon:
    """Answers by what it is asked; `asked` is what it heard."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, list[Line]]] = {}
        self.asked: list[str] = []

    def will(self, request: str, *lines: Line, code: int = 200) -> None:
        self.answers[request] = (code, list(lines))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "minikubelet.sock"


@pytest.fixture
def daemon(path: Path) -> Iterator[Daemon]:
    it = Daemon()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            request = f"{self.command} {self.path}"
            it.asked.append(request)
            code, lines = it.answers.get(request, (404, [failure("NotFound", "there is nothing here")]))
            self.send_response(code)
            self.end_headers()
            for line in lines:
                self.wfile.write(json.dumps(line).encode() + b"\n")

        do_GET = do_POST = do_DELETE = answer  # noqa: N815  the names that http.server asks for

        def log_message(self, *_: object) -> None:
            pass

        def address_string(self) -> str:
            return ""

    with socketserver.ThreadingUnixStreamServer(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield it
        server.shutdown()
        thread.join()


def run(*arguments: str, path: Path) -> Result:
    return CliRunner().invoke(main, list(arguments), env={"MINIKUBELET_SOCKET": str(path)})


def test_steps_are_printed_as_they_come_and_success_is_silent(daemon: Daemon, path: Path) -> None:
    daemon.will("POST /jobs/default/j/restart?wait=true", {"message": "job.batch/j restarted"}, SUCCESS)
    found = run("job", "restart", "j", path=path)
    assert (found.exit_code, found.stdout, found.stderr) == (0, "job.batch/j restarted\n", "")


def test_a_refusal_goes_to_stderr_and_the_others_are_gone_on_with(daemon: Daemon, path: Path) -> None:
    daemon.will("POST /jobs/n/b/suspend", {"message": "job.batch/b suspended"}, SUCCESS)
    daemon.will("POST /jobs/n/a/suspend", failure("Conflict", "job a has ended"), code=409)
    found = run("job", "suspend", "a", "job/b", "-n", "n", path=path)
    assert found.exit_code == 1
    assert found.stdout == "job.batch/b suspended\n"
    assert found.stderr == "Error from server (Conflict): job a has ended\n"


def test_a_failure_on_the_way_is_one_after_what_was_done(daemon: Daemon, path: Path) -> None:
    daemon.will("DELETE /pods/default/p?wait=true", {"message": 'pod "p" deleted'}, failure("InternalError", "no"))
    found = run("delete", "pod/p", path=path)
    assert (found.exit_code, found.stdout) == (1, 'pod "p" deleted\n')
    assert found.stderr == "Error from server (InternalError): no\n"


def test_a_daemon_that_ends_meanwhile_is_told(daemon: Daemon, path: Path) -> None:
    daemon.will("DELETE /pods/default/p?wait=true", {"message": 'pod "p" deleted'})
    found = run("delete", "pod", "p", path=path)
    assert (found.exit_code, found.stdout) == (1, 'pod "p" deleted\n')
    assert "the daemon ended before it had told all" in found.stderr
    assert "what was told up to here has been done" in found.stderr


@pytest.mark.parametrize(
    ("arguments", "request_line"),
    [
        (["job", "run", "--from", "cronjob/c"], "POST /cronjobs/default/c/run"),
        (["job", "run", "--from=cj/c", "mine", "-n", "x"], "POST /cronjobs/x/c/run?name=mine"),
        (["job", "resume", "jobs/j"], "POST /jobs/default/j/resume"),
        (["job", "restart", "j", "--no-wait"], "POST /jobs/default/j/restart"),
        (["delete", "job", "j", "--no-wait"], "DELETE /jobs/default/j"),
        (["delete", "pod", "p", "--now"], "DELETE /pods/default/p?gracePeriodSeconds=1&wait=true"),
        (["delete", "po/p", "--grace-period=7", "--no-wait"], "DELETE /pods/default/p?gracePeriodSeconds=7"),
    ],
)
def test_each_command_asks_for_one_thing(daemon: Daemon, path: Path, arguments: list[str], request_line: str) -> None:
    daemon.will(request_line, {"message": "done", "object": "job.batch/x"}, SUCCESS)
    found = run(*arguments, path=path)
    assert (found.exit_code, found.stdout, daemon.asked) == (0, "done\n", [request_line])


def test_the_name_alone_is_for_scripts(daemon: Daemon, path: Path) -> None:
    step: Line = {"message": "job.batch/c-x7k2p created", "object": "job.batch/c-x7k2p"}
    daemon.will("POST /cronjobs/default/c/run", step, SUCCESS)
    assert run("job", "run", "--from", "cronjob/c", "-o", "name", path=path).stdout == "job.batch/c-x7k2p\n"


def test_what_is_not_there_may_be_fine(daemon: Daemon, path: Path) -> None:
    daemon.will("DELETE /pods/default/p?wait=true", failure("NotFound", 'pods "p" not found'), code=404)
    assert run("delete", "pod", "p", path=path).exit_code == 1
    found = run("delete", "pod", "p", "--ignore-not-found", path=path)
    assert (found.exit_code, found.output) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["job", "run", "--from", "job/x"], "there are: cronjob"),
        (["job", "run", "--from", "x"], "write cronjob/NAME"),
        (["job", "suspend", "pod/x"], "there are: job"),
        (["job", "suspend"], "Missing argument"),
        (["delete", "pod"], "say which: pod NAME"),
        (["delete", "pod", "a", "pod/b"], "a kind was named before"),
        (["delete", "pod/a", "b"], "write KIND/NAME"),
        (["delete", "cronjob", "c"], "there are: pod, job"),
        (["delete", "job", "j", "--now"], "are for pods"),
        (["delete", "pod", "p", "--now", "--grace-period=3"], "give one of the two"),
        (["delete", "pod", "p", "--grace-period=-1"], "is not in the range"),
    ],
)
def test_a_slip_is_told_before_anything_is_asked(daemon: Daemon, path: Path, arguments: list[str], text: str) -> None:
    found = run(*arguments, path=path)
    assert found.exit_code == 2
    assert text in found.stderr
    assert not daemon.asked


def test_what_only_looks_can_ask_the_socket_too(daemon: Daemon, path: Path) -> None:
    daemon.will("GET /pods", {"items": []})
    found = run("get", "pods", "-o", "json", "--server", f"unix://{path}", path=path)
    assert json.loads(found.stdout)["items"] == []
    found = run("get", "jobs", "--server", f"unix://{path}", path=path)
    assert (found.exit_code, "there is nothing here" in found.stderr) == (1, True)
    found = run("status", "--server", f"unix://{path}.none", path=path)
    assert f"there is no socket {path}.none" in found.stderr


def test_no_socket_is_told_with_what_to_do(tmp_path: Path) -> None:
    for path in (tmp_path / "none.sock", tmp_path / "no-folder" / "x.sock"):
        found = run("delete", "pod", "p", path=path)
        assert found.exit_code == 1
        assert f"there is no socket {path}" in found.stderr
        assert "Is minikubelet running (systemctl status minikubelet)?" in found.stderr
        assert "--socket" in found.stderr


def test_a_daemon_that_does_not_get_to_its_clients_is_told(tmp_path: Path) -> None:
    busy = tmp_path / "busy.sock"
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as first:
        listening.bind(str(busy))
        listening.listen(0)
        first.connect(str(busy))
        told = run("delete", "pod", "p", path=busy)
    assert told.exit_code == 1
    assert "too many wait already; nothing was done" in told.stderr


def test_a_socket_that_a_dead_daemon_left_is_told(daemon: Daemon, path: Path, tmp_path: Path) -> None:
    dead = tmp_path / "dead.sock"
    with socketserver.UnixStreamServer(str(dead), BaseHTTPRequestHandler):
        pass  # closed, its name stays
    assert "minikubelet is not running: nobody listens on" in run("delete", "pod", "p", path=dead).stderr


def test_another_user_is_told_to_be_root(monkeypatch: pytest.MonkeyPatch, daemon: Daemon, path: Path) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("socket.socket.connect", refuse)
    found = run("delete", "pod", "p", path=path)
    assert f"{path} may not be used by this user: run this as root" in found.stderr


def test_something_else_that_answers_is_told(daemon: Daemon, path: Path) -> None:
    daemon.will("POST /jobs/default/j/resume", {"kind": 1})
    assert "is it minikubelet?" in run("job", "resume", "j", path=path).stderr


def test_a_path_may_be_longer_than_an_address(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    assert f"there is no socket {deep}" in run("delete", "pod", "p", path=deep / "x.sock").stderr


def test_the_default_is_in_the_configured_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"apiVersion: minikubelet.config/v1\nkind: MinikubeletConfiguration\nrootDir: {tmp_path}/state\n")
    monkeypatch.setattr("minikubelet.cli.settings.DEFAULT_CONFIG", config)
    with pytest.raises(Exception, match=f"there is no socket {tmp_path}/state/minikubelet.sock"):
        list(act(None, "POST", "/x"))


@pytest.mark.parametrize("arguments", [("images", "import", "/x\udcff.tar"), ("images", "pull", "x\udcff")], ids=str)
def test_what_is_not_utf_8_is_told(path: Path, arguments: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, [*arguments, "--socket", str(path)])
    assert result.exit_code == 1
    assert "x\\xff" in result.output
    assert "is not UTF-8" in result.output

"""The commands as a user runs them, against a small server and without any."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result

from minikubelet.cli import main
from minikubelet.cli.client import default_server as server_url_default
from minikubelet.cli.status import lines
from minikubelet.server.parts import (
    ArchiveProblem,
    ImageArchivesStatus,
    ImportedArchive,
    ManifestProblem,
    ManifestsStatus,
    RuntimeStatus,
    Status,
)

GOOD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: m, image: busybox}]}\n"


def run(*arguments: str, stdin: str | None = None, server: str = "") -> Result:
    env = {"MINIKUBELET_SERVER": server} if server else {}
    return CliRunner().invoke(main, list(arguments), input=stdin, env=env)


def pod(name: str, namespace: str = "default") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "unheardOf": 1},
        "spec": {"containers": [{"name": "m"}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "m", "ready": True, "state": {"running": {}}}]},
    }


def event(name: str, at: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "web"},
        "type": "Normal",
        "reason": name,
        "message": "text",
        "lastTimestamp": at,
    }


STATUS = Status(
    version="0.1",
    node="box",
    started_at="2026-01-01T00:00:00Z",
    runtime=RuntimeStatus(endpoint="unix:///run/c.sock", connected=True, name="containerd", version="1.7"),
    manifests=ManifestsStatus(folder="/etc/m"),
    pods={"Running": 2, "Pending": 1},
)


@pytest.fixture
def answers() -> dict[str, bytes]:
    pods = {"items": [pod("web"), pod("db"), pod("web", "prod")]}
    events = {"items": [event("Later", "2026-01-01T00:01:00Z"), event("Sooner", "2026-01-01T00:00:00Z")]}
    return {
        "/pods": json.dumps(pods).encode(),
        "/events": json.dumps(events).encode(),
        "/status": msgspec.json.encode(STATUS),
    }


@pytest.fixture
def server(answers: dict[str, bytes]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path in answers
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(answers.get(self.path, b'{"message":"there is nothing here"}'))

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


# get


def test_get_pods_shows_those_of_the_default_namespace_by_name(server: str) -> None:
    found = run("get", "pods", server=server)
    assert found.exit_code == 0
    assert found.stdout.splitlines() == [
        "NAME   READY   STATUS    RESTARTS   AGE",
        "db     1/1     Running   0          <unknown>",
        "web    1/1     Running   0          <unknown>",
    ]


def test_kinds_and_names_are_written_as_for_kubectl(server: str, answers: dict[str, bytes]) -> None:
    job = {"metadata": {"name": "report", "namespace": "default"}, "status": {"startTime": None}}
    answers["/jobs"] = json.dumps({"items": [job]}).encode()
    assert run("get", "pods/web", "pod/db", "-o", "name", server=server).stdout == "pod/web\npod/db\n"
    assert run("get", "pod", "web", "db", "web", "-o", "name", server=server).stdout == "pod/web\npod/db\n"
    assert run("get", "pod/web", "job/report", "-o", "name", server=server).stdout == "pod/web\njob.batch/report\n"
    assert run("get", "job,po", server=server).stdout.splitlines() == [
        "NAME               STATUS    COMPLETIONS   DURATION   AGE",
        "job.batch/report   Running   0/1                      <unknown>",
        "",
        "NAME      READY   STATUS    RESTARTS   AGE",
        "pod/db    1/1     Running   0          <unknown>",
        "pod/web   1/1     Running   0          <unknown>",
    ]
    found = run("get", "job/none", "pod/web", "--no-headers", server=server)
    assert (found.exit_code, found.stdout.split()[0]) == (1, "pod/web")
    assert found.stderr == 'Error from server (NotFound): jobs.batch "none" not found\n'
    both = yaml.safe_load(run("get", "pod,job", "-o", "yaml", server=server).stdout)
    assert [it["kind"] for it in both["items"]] == ["Pod", "Pod", "Job"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("get", "pod", "pod/web"), "a kind was named before"),
        (("get", "pod/"), "write KIND/NAME"),
        (("describe", "web"), "'web' is no kind; write pod web or job web or cronjob web"),
        (("delete", "web"), "'web' is no kind; write pod web or job web"),
        (("delete", "cm", "web"), "'cm' is no kind; there are: pod, job"),
        (("delete", "pod"), "say which: pod NAME"),
    ],
)
def test_what_is_not_named_well_is_told_with_what_to_write(words: tuple[str, ...], said: str) -> None:
    found = run(*words)
    assert found.exit_code == 2
    assert said in found.stderr


@pytest.mark.parametrize(
    ("config", "url"),
    [
        ("readOnlyPort: 10999\n", "http://127.0.0.1:10999"),
        ('address: "::1"\n', "http://[::1]:10255"),
        ("readOnlyPort: 0\nrootDir: /nowhere/m\n", "/nowhere/m/minikubelet.sock"),
        ("readOnlyPort: {}\n", "http://127.0.0.1:10255"),
    ],
)
def test_where_the_daemon_answers_is_said_by_its_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str, url: str
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(config)
    monkeypatch.setattr("minikubelet.cli.settings.DEFAULT_CONFIG", file)
    assert server_url_default().endswith(url)


def test_a_port_that_is_off_is_said_plainly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"readOnlyPort: 0\nrootDir: {tmp_path}\n")
    monkeypatch.setattr("minikubelet.cli.settings.DEFAULT_CONFIG", file)
    found = run("get", "pods")
    assert found.exit_code == 1
    assert f"there is no socket {tmp_path}/minikubelet.sock" in found.stderr
    assert "readOnlyPort is 0" in found.stderr
    assert "--socket" not in found.stderr


def test_help_is_not_cut_off() -> None:
    for group in ((), ("images",), ("claims",), ("job",)):
        assert "..." not in run(*group, "--help").stdout.partition("Commands:")[2]


def test_the_version_is_also_an_option() -> None:
    assert run("--version").stdout == run("version").stdout


def test_get_pods_of_all_namespaces_names_them(server: str) -> None:
    assert run("get", "po", "-A", "--server", server).stdout.splitlines() == [
        "NAMESPACE   NAME   READY   STATUS    RESTARTS   AGE",
        "default     db     1/1     Running   0          <unknown>",
        "default     web    1/1     Running   0          <unknown>",
        "prod        web    1/1     Running   0          <unknown>",
    ]


def test_get_one_pod_of_another_namespace(server: str) -> None:
    found = run("get", "pod", "web", "-n", "prod", "-o", "json", server=server)
    assert json.loads(found.stdout)["metadata"]["namespace"] == "prod"


def test_get_wide_has_more_columns(server: str) -> None:
    header = run("get", "pods", "-o", "wide", server=server).stdout.splitlines()[0]
    assert header.split("   ")[-1].strip() == "READINESS GATES"


def test_get_names(server: str) -> None:
    assert run("get", "pods", "-o", "name", server=server).stdout == "pod/web\npod/db\n"


def test_get_as_yaml_is_a_list_of_whole_objects(server: str) -> None:
    found = yaml.safe_load(run("get", "pods", "-o", "yaml", server=server).stdout)
    assert (found["kind"], len(found["items"])) == ("List", 2)
    assert found["items"][0]["metadata"]["unheardOf"] == 1


def test_get_without_headers(server: str) -> None:
    assert run("get", "pods", "db", "--no-headers", server=server).stdout.startswith("db ")


def test_a_pod_that_is_not_there_is_an_error_beside_those_that_are(server: str) -> None:
    found = run("get", "pods", "web", "nope", server=server)
    assert found.exit_code == 1
    assert found.stdout.splitlines()[1].startswith("web")
    assert found.stderr == 'Error from server (NotFound): pods "nope" not found\n'


@pytest.mark.parametrize("output", ["json", "yaml", "name", "wide"])
def test_a_single_pod_that_is_not_there_prints_nothing_else(server: str, output: str) -> None:
    found = run("get", "pods", "nope", "-o", output, server=server)
    assert (found.exit_code, found.stdout) == (1, "")


def test_no_pods_at_all_is_no_error(server: str, answers: dict[str, bytes]) -> None:
    answers["/pods"] = b'{"items":null}'
    found = run("get", "pods", server=server)
    assert (found.exit_code, found.stdout, found.stderr) == (0, "", "No resources found in default namespace.\n")


def test_get_events_has_the_newest_last(server: str) -> None:
    shown = run("get", "events", server=server).stdout.splitlines()
    assert shown[0].split() == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert [line.split()[2] for line in shown[1:]] == ["Sooner", "Later"]


def test_an_unknown_resource_names_the_known_ones(server: str) -> None:
    found = run("get", "services", server=server)
    assert found.exit_code == 2
    assert "there are: pods, jobs, cronjobs, events" in found.stderr


# A server that does not answer.


@pytest.mark.parametrize("arguments", [("get", "pods"), ("get", "events"), ("status",)])
def test_a_daemon_that_does_not_answer_is_said_plainly(arguments: tuple[str, ...]) -> None:
    found = run(*arguments, server="http://127.0.0.1:1")
    assert found.exit_code == 1
    assert found.stderr.startswith("Error: minikubelet does not answer at http://127.0.0.1:1: Connection refused.")
    assert "Traceback" not in found.output


def test_an_error_of_the_server_is_shown_with_its_message(server: str, answers: dict[str, bytes]) -> None:
    del answers["/pods"]
    assert run("get", "pods", server=server).stderr == (
        f"Error from server (NotFound): {server}/pods: there is nothing here\n"
    )


def test_an_answer_of_something_else_is_told(server: str, answers: dict[str, bytes]) -> None:
    answers["/pods"] = b"<html>"
    assert "is not understood" in run("get", "pods", server=server).stderr


@pytest.mark.parametrize("address", ["ftp://x", "http://[::1", "127.0.0.1:1"])
def test_odd_addresses_do_not_end_in_a_traceback(address: str) -> None:
    found = run("get", "pods", server=address)
    assert found.exit_code == 1
    assert found.stderr.startswith("Error: ")


# status


def test_status_can_be_asked_whether_all_is_well(server: str, answers: dict[str, bytes]) -> None:
    assert run("status", "--check", server=server).exit_code == 0
    crashing = pod("db")
    crashing["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": "CrashLoopBackOff", "message": "wait"}}
    answers["/pods"] = json.dumps({"items": [pod("web"), crashing]}).encode()
    found = run("status", "--check", server=server)
    assert found.exit_code == 1
    assert found.stdout.endswith("\nPods that are not well:\n  default/db: CrashLoopBackOff: m: wait\n")
    assert run("status", server=server).exit_code == 0


def test_status_counts_objects_and_checks_manifests(server: str, answers: dict[str, bytes]) -> None:
    error = ManifestProblem(file="a.yaml", line=0, document=1, path="", message="cannot be read")
    manifests = msgspec.structs.replace(STATUS.manifests, errors=(error,), objects={"Pod": 2, "ConfigMap": 1})
    answers["/status"] = msgspec.json.encode(msgspec.structs.replace(STATUS, manifests=manifests))
    found = run("status", "--check", server=server)
    assert found.exit_code == 1
    assert "Objects:    1 ConfigMap, 2 Pods" in found.stdout
    assert "  a.yaml: cannot be read" in found.stdout


def test_status_of_a_daemon_that_is_well(server: str) -> None:
    shown = run("status", server=server).stdout.splitlines()
    assert shown[0].startswith("minikubelet 0.1 on node box, up ")
    assert shown[1:] == [
        "Ready:      yes",
        "Runtime:    containerd 1.7 at unix:///run/c.sock, connected",
        "Manifests:  /etc/m, no errors",
        "Pods:       3 (2 Running, 1 Pending)",
    ]


@pytest.mark.parametrize(
    ("archives", "expected"),
    [
        (ImageArchivesStatus(folder="/etc/i"), ["Images:     /etc/i, no archives"]),
        (
            ImageArchivesStatus(
                folder="/etc/i",
                archives=(ImportedArchive(file="a.tar", images=("x:1",)), ImportedArchive(file="b.tar")),
                errors=(ArchiveProblem(file="b.tar", message="ends too early"),),
                being_written=("c.tar",),
                importing=("d.tar",),
            ),
            [
                "Images:     /etc/i, 2 archives, 1 with ERRORS",
                "Errors in image archives:",
                "  b.tar: ends too early",
                "Waiting to be closed by whoever writes them:",
                "  c.tar",
                "Image archives being imported:",
                "  d.tar",
            ],
        ),
    ],
    ids=["none", "some"],
)
def test_status_tells_of_image_archives(archives: ImageArchivesStatus, expected: list[str]) -> None:
    now = datetime(2026, 1, 1, 1, tzinfo=UTC)
    without = lines(STATUS, now=now)
    shown = lines(msgspec.structs.replace(STATUS, image_archives=archives), now=now)
    assert [line for line in shown if line and line not in without] == expected


# images


def test_images_are_listed_with_what_keeps_them(server: str, answers: dict[str, bytes]) -> None:
    assert run("images", "list", server=server).exit_code == 1
    answers["/images"] = b"""{"kind": "ImageList", "items": [
        {"id": "sha256:0123456789abcdef", "names": ["x:1", "x:2", "x@sha256:1"], "size": 1572864, "inUse": true},
        {"id": "sha256:2", "names": ["y@sha256:2"], "size": 3, "protected": "archive"},
        {"id": "sha256:3", "size": 2048}]}"""
    assert [line.split() for line in run("images", "list", server=server).stdout.splitlines()] == [
        ["NAME", "ID", "SIZE", "IN", "USE", "PROTECTED"],
        ["x:1", "0123456789ab", "1.5MiB", "yes"],
        ["x:2", "0123456789ab", "1.5MiB", "yes"],
        ["y@sha256:2", "2", "3B", "no", "archive"],
        ["<none>", "3", "2.0KiB", "no"],
    ]
    answers["/images"] = b'{"items": []}'
    assert run("images", "list", server=server).stdout == "No images\n"


def test_status_shows_everything_that_is_wrong() -> None:
    problem = ManifestProblem(file="a.yaml", line=3, document=1, path="spec.x", message="Unknown field")
    whole = ManifestProblem(file="b.yaml", line=1, document=1, path="", message="not valid YAML")
    ill = msgspec.structs.replace(
        STATUS,
        runtime=RuntimeStatus(endpoint="unix:///run/c.sock", reason="connection refused"),
        manifests=ManifestsStatus(
            folder="/etc/m", errors=(problem, problem, whole), notes=(problem,), being_written=("c.yaml",)
        ),
        pods={},
        findings=("no CNI network",),
        not_ready={"containerd": "away for 3s"},
    )
    assert lines(ill, now=datetime(2026, 1, 1, 1, tzinfo=UTC)) == [
        "minikubelet 0.1 on node box, up 60m",
        "Ready:      NO",
        "Runtime:    container runtime at unix:///run/c.sock, NOT CONNECTED: connection refused",
        "Manifests:  /etc/m, 2 with ERRORS",
        "Pods:       0",
        "",
        "Not ready:",
        "  containerd: away for 3s",
        "",
        "Errors in manifests:",
        "  a.yaml:3: spec.x: Unknown field",
        "  a.yaml:3: spec.x: Unknown field",
        "  b.yaml:1: not valid YAML",
        "",
        "Waiting to be closed by whoever writes them:",
        "  c.yaml",
        "",
        "Remarks on manifests:",
        "  a.yaml:3: spec.x: Unknown field",
        "",
        "Findings on this host:",
        "  no CNI network",
    ]


# validate


def test_good_manifests_are_named_with_what_they_define(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(GOOD)
    found = run("validate", str(file))
    assert (found.exit_code, found.stdout) == (0, f"{file}: ok (Pod default/web)\n")


def test_every_error_of_every_file_is_shown(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(GOOD + "xx: 1\nzz: 2\n")
    (tmp_path / "b.yaml").write_text(GOOD.replace("web", "db"))
    (tmp_path / "c.json").write_text("{")
    (tmp_path / "d.txt").write_text("not looked at")
    found = run("validate", str(tmp_path))
    assert found.exit_code == 1
    assert found.stdout == f"{tmp_path}/b.yaml: ok (Pod default/db)\n"
    assert [line.removeprefix(f"{tmp_path}/").split(": ")[:2] for line in found.stderr.splitlines()] == [
        ["a.yaml:5", "xx"],
        ["a.yaml:6", "zz"],
        ["c.json:1", "not valid JSON"],
    ]


def test_standard_input_is_read_for_a_dash() -> None:
    assert run("validate", "-", stdin=GOOD).stdout == "-: ok (Pod default/web)\n"
    assert run("validate", "-", stdin="kind: [").exit_code == 1


def test_an_object_that_two_files_define_is_an_error(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(GOOD)
    found = run("validate", str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml"))
    assert found.exit_code == 1
    assert found.stderr.splitlines() == [
        f"{tmp_path}/{one}:3: metadata.name: {tmp_path}/{other} defines Pod default/web, too; "
        "rename or remove one of the two"
        for one, other in (("a.yaml", "b.yaml"), ("b.yaml", "a.yaml"))
    ]
    assert found.stdout == ""


def test_a_folder_that_may_not_be_entered_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Permissions mean nothing to root, so the refusal is made here."""

    def refuse(path: Path, *_: object, **__: object) -> object:
        raise PermissionError(13, "Permission denied", str(path))

    for look in ("is_dir", "stat", "read_bytes"):
        monkeypatch.setattr(Path, look, refuse)
    found = run("validate", str(tmp_path / "in" / "a.yaml"))
    assert (found.exit_code, found.stderr) == (1, f"{tmp_path}/in/a.yaml: cannot be read: Permission denied\n")
    monkeypatch.setattr(Path, "is_dir", lambda _: True)
    monkeypatch.setattr(Path, "iterdir", refuse)
    found = run("validate", str(tmp_path))
    assert (found.exit_code, found.stderr) == (1, f"{tmp_path}: cannot be read: Permission denied\n")


def test_an_empty_folder_gives_nothing_to_check(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("x")
    found = run("validate", str(tmp_path))
    assert (found.exit_code, found.stdout) == (
        0,
        f"{tmp_path}: there is nothing to check: no file in it ends with .yaml, .yml or .json\n",
    )


def test_the_empty_status_of_a_dry_run_deserves_no_remark() -> None:
    found = run("validate", "-", stdin=GOOD + "status: {}\n")
    assert (found.exit_code, found.stdout, found.stderr) == (0, "-: ok (Pod default/web)\n", "")


def test_a_missing_file_is_an_error_and_the_rest_is_checked(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(GOOD)
    found = run("validate", str(tmp_path / "none.yaml"), str(tmp_path / "a.yaml"))
    assert found.exit_code == 1
    assert "none.yaml: cannot be read: No such file" in found.stderr
    assert "a.yaml: ok" in found.stdout


def test_sidecars_can_be_refused_as_with_the_gate_off(tmp_path: Path) -> None:
    init = "initContainers: [{name: s, image: i, restartPolicy: Always}], containers"
    (tmp_path / "a.yaml").write_text(GOOD.replace("containers", init))
    assert run("validate", str(tmp_path)).exit_code == 0
    assert run("validate", "--no-sidecars", str(tmp_path)).exit_code == 1


# run, version, the command itself


def test_a_bad_configuration_is_told_whole_before_anything_starts(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("nope: 1\nmaxPods: x\n")
    found = run("run", "--config", str(file))
    assert found.exit_code == 78  # EX_CONFIG
    assert f"{file}:1: nope: unknown key" in found.stderr
    assert f"{file}:2: maxPods: Expected int, got str" in found.stderr


@pytest.mark.parametrize(
    ("listen", "message"),
    [
        ("10255", "is not HOST:PORT"),
        ("0.0.0.0:1", "can be reached from other hosts"),
        ("127.0.0.1:x", "is not HOST:PORT"),
    ],
)
def test_the_listen_flag_is_checked(tmp_path: Path, listen: str, message: str) -> None:
    empty = tmp_path / "config.yaml"
    empty.touch()
    assert message in run("run", "--config", str(empty), "--listen", listen).stderr


def test_the_command_is_installed_and_starts_without_the_daemons_libraries() -> None:
    code = "import sys; from minikubelet.cli import main; main(['get', '--help'], standalone_mode=False); "
    code += "sys.exit(any(name in sys.modules for name in ('grpc', 'aiohttp', 'asyncinotify')))"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    command = Path(sys.executable).with_name("minikubelet")
    shown = subprocess.run([command, "version"], check=True, capture_output=True, text=True)
    assert shown.stdout.startswith("minikubelet 0.")


def test_help_names_every_command() -> None:
    shown = run("--help").stdout
    assert all(name in shown for name in ("get", "run", "status", "validate", "version"))

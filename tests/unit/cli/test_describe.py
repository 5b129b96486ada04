"""`describe`: the layout that kubectl has, line by line."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from click.testing import CliRunner, Result

from minikubelet.cli import main
from minikubelet.cli.columns import aligned
from minikubelet.cli.describe_batch import cronjob_lines, job_lines
from minikubelet.cli.describe_containers import container_lines
from minikubelet.cli.describe_fields import notes
from minikubelet.cli.describe_pod import pod_lines
from minikubelet.cli.describe_volumes import volume_lines

AT = "2026-01-02T03:04:05Z"
SHOWN_AT = "Fri, 02 Jan 2026 03:04:05 +0000"
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "m", "image": "busybox"}]}}
TEMPLATE_SHOWN = """\
Pod Template:
  Labels:  a=b
  Containers:
   m:
    Image:         busybox
    Port:          <none>
    Host Port:     <none>
    Environment:   <none>
    Mounts:        <none>
  Volumes:         <none>
  Node-Selectors:  <none>
  Tolerations:     <none>"""


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        ([], []),
        (["no tab"], ["no tab"]),
        (["a:\t1", "longer:\t2"], ["a:       1", "longer:  2"]),
        (["a:\t1", "between", "longer:\t2"], ["a:  1", "between", "longer:  2"]),
        (["a\tbb\tc", "aaa\tb\tc", "x\ty"], ["a    bb  c", "aaa  b   c", "x    y"]),
        (["a:\t", "\tb"], ["a:  ", "    b"]),
    ],
)
def test_neighbours_share_their_columns(lines: list[str], shown: list[str]) -> None:
    assert aligned(lines) == shown


def test_a_job() -> None:
    job = {
        "metadata": {
            "name": "j",
            "namespace": "n",
            "labels": {"b": "2", "a": "1"},
            "ownerReferences": [{"kind": "CronJob", "name": "c", "controller": True}, {"kind": "X", "name": "y"}],
        },
        "spec": {
            "selector": {"matchLabels": {"uid": "u"}},
            "parallelism": 2,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "activeDeadlineSeconds": 60,
            "template": TEMPLATE,
        },
        "status": {
            "startTime": AT,
            "completionTime": "2026-01-02T03:05:35Z",
            "succeeded": 2,
            "failed": 1,
            "terminating": 1,
            "completedIndexes": "0-1",
            "failedIndexes": "2",
            "conditions": [{"type": "Complete", "status": "True", "reason": "R", "message": "all done"}],
        },
    }
    assert "\n".join(aligned(job_lines(job))) == (
        f"""\
Name:                     j
Namespace:                n
Selector:                 uid=u
Labels:                   a=1
                          b=2
Annotations:              <none>
Controlled By:            CronJob/c
Parallelism:              2
Completions:              <unset>
Completion Mode:          Indexed
Suspend:                  false
Backoff Limit:            0
Start Time:               {SHOWN_AT}
Completed At:             Fri, 02 Jan 2026 03:05:35 +0000
Duration:                 90s
Active Deadline Seconds:  60s
Pods Statuses:            0 Active (0 Ready) / 2 Succeeded / 1 Failed / 1 Terminating
Completed Indexes:        0-1
Failed Indexes:           2
Conditions:
  Type      Status  Reason  Message
  Complete  True    R       all done
{TEMPLATE_SHOWN}"""
    )


def test_a_cronjob() -> None:
    cron = {
        "metadata": {"name": "c", "namespace": "n"},
        "spec": {
            "schedule": "0 3 * * *",
            "timeZone": "Europe/Berlin",
            "startingDeadlineSeconds": 9,
            "concurrencyPolicy": "Forbid",
            "suspend": True,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 0,
            "jobTemplate": {"spec": {"parallelism": 1, "completions": 1, "template": TEMPLATE}},
        },
        "status": {"active": [{"name": "c-1"}, {"name": "c-2"}], "lastScheduleTime": AT},
    }
    lines = "\n".join(aligned(cronjob_lines(cron))).split("\n")
    assert lines[:4] == [
        "Name:                          c",
        "Namespace:                     n",
        "Labels:                        <none>",
        "Annotations:                   <none>",
    ]
    assert lines[4:14] == [
        "Schedule:                      0 3 * * *",
        "Time Zone:                     Europe/Berlin",
        "Concurrency Policy:            Forbid",
        "Suspend:                       True",
        "Successful Job History Limit:  3",
        "Failed Job History Limit:      0",
        "Starting Deadline Seconds:     9s",
        "Selector:                      <unset>",
        "Parallelism:                   1",
        "Completions:                   1",
    ]
    assert lines[-2:] == [f"Last Schedule Time:  {SHOWN_AT}", "Active Jobs:         c-1, c-2"]


def test_a_pod_that_is_ending() -> None:
    pod = {
        "metadata": {
            "name": "p",
            "namespace": "n",
            "deletionTimestamp": AT,
            "deletionGracePeriodSeconds": 30,
            "ownerReferences": [{"kind": "Job", "name": "j", "controller": True}],
        },
        "spec": {
            "nodeName": "box",
            "priorityClassName": "system-node-critical",
            "containers": [],
            "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
        },
        "status": {
            "phase": "Running",
            "hostIP": "10.0.0.1",
            "podIP": "10.87.0.2",
            "podIPs": [{"ip": "10.87.0.2"}],
            "qosClass": "BestEffort",
            "conditions": [{"type": "Ready", "status": "False", "reason": "Why"}, {"type": "X", "status": "True"}],
        },
    }
    assert "\n".join(aligned(pod_lines(pod))) == (
        f"""\
Name:                      p
Namespace:                 n
Priority Class Name:       system-node-critical
Node:                      box/10.0.0.1
Labels:                    <none>
Annotations:               <none>
Status:                    Terminating (until {SHOWN_AT})
Termination Grace Period:  30s
IP:                        10.87.0.2
IPs:
  IP:           10.87.0.2
Controlled By:  Job/j
Containers:
Conditions:
  Type           Status  Reason
  Ready          False   Why
  X              True
Volumes:         <none>
QoS Class:       BestEffort
Node-Selectors:  <none>
Tolerations:     :NoExecute op=Exists"""
    )


def test_a_pod_that_was_refused_says_why() -> None:
    status = {"phase": "Pending", "reason": "OutOfcpu", "message": "too little"}
    lines = pod_lines({"metadata": {"name": "p"}, "spec": {}, "status": status})
    assert [line for line in lines if line.startswith(("Status", "Reason", "Message", "IPs", "Node:"))] == [
        "Node:\t<none>",
        "Status:\tPending",
        "Reason:\tOutOfcpu",
        "Message:\ttoo little",
        "IPs:\t<none>",
    ]


CONTAINER = {
    "name": "m",
    "image": "busybox",
    "command": ["sh", "-c", "one\n\ttwo"],
    "args": ["x"],
    "restartPolicy": "Always",
    "ports": [{"containerPort": 80, "name": "http", "hostPort": 8080}, {"containerPort": 53, "protocol": "UDP"}],
    "resources": {"limits": {"memory": "1Gi", "cpu": "1"}, "requests": {"cpu": "10m"}},
    "livenessProbe": {"exec": {"command": ["a", "b"]}, "initialDelaySeconds": 4},
    "readinessProbe": {"httpGet": {"port": "http", "path": "/ok"}, "timeoutSeconds": 2},
    "startupProbe": {"grpc": {"port": 9}, "periodSeconds": 1, "failureThreshold": 30},
    "envFrom": [{"prefix": "P_", "secretRef": {"name": "s", "optional": True}}, {"configMapRef": {"name": "c"}}],
    "env": [
        {"name": "PLAIN", "value": "two\nlines"},
        {"name": "FIELD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "SIZE", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "MAP", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k", "optional": True}}},
    ],
    "volumeMounts": [
        {"name": "v", "mountPath": "/z", "readOnly": True, "subPath": "x"},
        {"name": "v", "mountPath": "/a"},
    ],
}


def test_a_container_with_everything() -> None:
    status = {
        "name": "m",
        "containerID": "containerd://1",
        "imageID": "sha256:2",
        "ready": True,
        "restartCount": 3,
        "state": {"running": {"startedAt": AT}},
        "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": "a\nb", "signal": 9}},
    }
    assert "\n".join(aligned(container_lines("Containers", [CONTAINER], [status]))) == (
        f"""\
Containers:
  m:
    Container ID:  containerd://1
    Image:         busybox
    Image ID:      sha256:2
    Ports:         80/TCP (http), 53/UDP
    Host Ports:    8080/TCP (http), 0/UDP
    Command:
      sh
      -c
      one
       two
    Args:
      x
    Restart Policy:  Always
    State:           Running
      Started:       {SHOWN_AT}
    Last State:      Terminated
      Reason:        Error
      Message:       a
                     b
      Exit Code:     1
      Signal:        9
      Started:       <unknown>
      Finished:      <unknown>
    Ready:           True
    Restart Count:   3
    Limits:
      cpu:     1
      memory:  1Gi
    Requests:
      cpu:      10m
    Liveness:   exec [a b] delay=4s timeout=1s period=10s #success=1 #failure=3
    Readiness:  http-get http://:http/ok delay=0s timeout=2s period=10s #success=1 #failure=3
    Startup:    grpc <pod>:9  delay=0s timeout=1s period=1s #success=1 #failure=30
    Environment Variables from:
      s  Secret with prefix 'P_'  Optional: true
      c  ConfigMap                Optional: false
    Environment:
      PLAIN:  two
              lines
      FIELD:   (v1:metadata.name)
      SIZE:    (limits.cpu)
      KEY:    <set to the key 'k' in secret 's'>      Optional: false
      MAP:    <set to the key 'k' of config map 'c'>  Optional: true
    Mounts:
      /a from v (rw)
      /z from v (ro,path="x")"""
    )


def test_a_container_without_a_status_waits_and_a_waiting_one_says_for_what() -> None:
    lines = container_lines(
        "Containers",
        [{"name": "m"}, {"name": "n"}],
        [{"name": "n", "state": {"waiting": {"reason": "R", "message": "M"}}}],
    )
    assert [line.strip() for line in lines if "State" in line or "Reason" in line or "Message" in line] == [
        "State:\tWaiting",
        "State:\tWaiting",
        "Reason:\tR",
        "Message:\tM",
    ]


@pytest.mark.parametrize(
    ("volume", "shown"),
    [
        ({}, ["Type:\tEmptyDir", "Medium:\t", "SizeLimit:\t<unset>"]),
        (
            {"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
            ["Type:\tEmptyDir", "Medium:\tMemory", "SizeLimit:\t1Mi"],
        ),
        ({"hostPath": {"path": "/x"}}, ["Type:\tHostPath", "Path:\t/x", "HostPathType:\t<none>"]),
        ({"configMap": {"name": "c"}}, ["Type:\tConfigMap", "Name:\tc", "Optional:\tfalse"]),
        ({"secret": {"secretName": "s", "optional": True}}, ["Type:\tSecret", "SecretName:\ts", "Optional:\ttrue"]),
        (
            {"persistentVolumeClaim": {"claimName": "c"}},
            ["Type:\tPersistentVolumeClaim", "ClaimName:\tc", "ReadOnly:\tfalse"],
        ),
        ({"image": {"reference": "r"}}, ["Type:\tImage", "Reference:\tr", "PullPolicy:\t"]),
        (
            {"downwardAPI": {"items": [{"path": "p", "resourceFieldRef": {"resource": "limits.cpu"}}]}},
            ["Type:\tDownwardAPI", "Items:", "  limits.cpu -> p"],
        ),
        (
            {"projected": {"sources": [{"configMap": {"name": "c"}}, {"secret": {"name": "s"}}, {"downwardAPI": {}}]}},
            [
                "Type:\tProjected",
                "ConfigMapName:\tc",
                "Optional:\tfalse",
                "SecretName:\ts",
                "Optional:\tfalse",
                "DownwardAPI:\ttrue",
            ],
        ),
    ],
)
def test_volumes(volume: dict[str, Any], shown: list[str]) -> None:
    assert volume_lines([{"name": "v", **volume}]) == ["Volumes:", "  v:", *(f"    {line}" for line in shown)]


def test_long_annotations_are_cut_and_those_of_several_lines_set_apart() -> None:
    found = notes("Annotations", {"long": "x" * 200, "lines": "a\nb\n", "short": "s"})
    assert found == [
        "Annotations:\tlines:",
        "\t  a",
        "\t  b",
        "\tlong:",
        f"\t  {'x' * 138}...",
        "\tshort: s",
    ]


# the command


EVENTS = [
    {
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web", "uid": uid},
        "type": "Normal",
        "reason": "Started",
        "message": message,
        "count": 2,
        "source": {"component": "minikubelet"},
        "firstTimestamp": "2020-01-01T00:00:00Z",
        "lastTimestamp": "2022-01-01T00:00:00Z",
    }
    for uid, message in (("u", "mine\n here"), ("earlier", "of another one"))
]


@pytest.fixture
def server() -> Iterator[str]:
    items = [{"metadata": {"name": name, "namespace": "default", "uid": "u"}} for name in ("web", "db")]
    answers = {"/pods": items, "/jobs": [], "/events": EVENTS}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"items": answers[self.path]}).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


def run(*arguments: str, server: str) -> Result:
    return CliRunner().invoke(main, ["describe", *arguments], env={"MINIKUBELET_SERVER": server})


def test_events_of_this_very_object_are_at_the_end(server: str) -> None:
    found = run("pod", "web", server=server)
    assert found.exit_code == 0
    head, _, events = found.stdout.partition("Events:\n")
    assert head.startswith("Name:")
    title, line, event = events.splitlines()
    assert title.split() == ["Type", "Reason", "Age", "From", "Message"]
    assert line.split() == ["----", "------", "----", "----", "-------"]
    assert "(x2 over " in event
    assert event.endswith("minikubelet  mine here")


def test_several_are_shown_one_after_the_other_and_what_is_missing_is_an_error(server: str) -> None:
    found = run("pod/web", "po/db", "job/none", server=server)
    assert found.exit_code == 1
    assert found.stderr == 'Error from server (NotFound): jobs.batch "none" not found\n'
    first, second = found.stdout.split("\n\n\n")
    assert first.startswith("Name:")
    assert second.endswith("Events:  <none>\n")


def test_only_what_can_be_described_is_taken(server: str) -> None:
    found = run("node", "box", server=server)
    assert found.exit_code == 2
    assert "there are: pod, job, cronjob" in found.stderr

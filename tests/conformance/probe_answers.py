"""What probes make of what they get, and what they tell of it (PH 6, 11.2 to 11.35).

One pod carries a whole table: each row is a container with a readiness probe of its own, and a web server beside them.
"""

from __future__ import annotations

import dataclasses
import functools
import re

from tests.conformance.harness.host import uptime
from tests.conformance.harness.run import Run
from tests.conformance.harness.suite import suite
from tests.conformance.harness.words import Json, container, exec_probe, script, sidecar

scenario, table = suite.scenario, suite.table


@dataclasses.dataclass(frozen=True)
class Answer:
    """`message` is a regular expression for what the events of a failing probe say; IP stands for the pod's."""

    probe: Json
    ready: bool = False
    reason: str = "Unhealthy"
    message: str = ""


def http(path: str = "/", port: int | str = 8080, **fields: object) -> Json:
    return {"httpGet": {"path": path, "port": port}, "periodSeconds": 1, "timeoutSeconds": 10, **fields}


FAILED = "Readiness probe failed: "
REFUSED = "dial tcp IP:81: connect: connection refused"

#: PH 11.
EXEC_ROWS = {
    "r02": Answer(exec_probe(["false"]), message=FAILED),
    "r15": Answer(
        exec_probe(["/nosuch"]), message=r"Readiness probe errored and resulted in unknown state: rpc error: code = .*"
    ),
    "r16": Answer(exec_probe(["sh", "-c", "nosuch"]), message=FAILED + "sh: nosuch: not found\n"),
    "r17": Answer(
        exec_probe(["sleep", "10"], timeoutSeconds=1),
        message=FAILED + re.escape('command timed out: "sleep 10" timed out after 1s'),
    ),
    "r18": Answer(
        exec_probe(["sh", "-c", "head -c 20000 /dev/zero | tr '\\0' x; exit 1"]), message=FAILED + "x{10240}"
    ),
    "r19": Answer(exec_probe(["sh", "-c", 'test "$0" = foo', "$(FOO)"]), ready=True),
    "r19-unknown": Answer(exec_probe(["sh", "-c", 'echo "$0"; exit 1', "$(NO)"]), message=FAILED + r"\$\(NO\)\n"),
    "r19-escaped": Answer(exec_probe(["sh", "-c", 'echo "$0"; exit 1', "$$(FOO)"]), message=FAILED + r"\$\(FOO\)\n"),
    "exit-output": Answer(exec_probe(["sh", "-c", "echo out; echo err >&2; exit 3"]), message=FAILED + "out\nerr\n"),
}

NETWORK_ROWS = {
    "r27": Answer(http("/missing"), message=FAILED + "HTTP probe failed with statuscode: 404"),
    "r27-500": Answer(http("/cgi-bin/broken"), message=FAILED + "HTTP probe failed with statuscode: 500"),
    "r28": Answer(http(port=81), message=FAILED + f'Get "http://IP:81/": {REFUSED}'),
    "r29": Answer(
        http("/cgi-bin/elsewhere"),
        ready=True,
        reason="ProbeWarning",
        message="Readiness probe warning: Probe terminated redirects, Response body: body",
    ),
    "r30": Answer(http("/cgi-bin/loop"), message=FAILED + 'Get "/cgi-bin/loop": stopped after 10 redirects'),
    "r30-followed": Answer(http("/cgi-bin/follow"), ready=True),
    "r31": Answer(
        http("/cgi-bin/stall", timeoutSeconds=1), message="Readiness probe errored and resulted in failure state: .*"
    ),
    "r32": Answer(
        http(port="web"),
        message=re.escape(
            'Readiness probe errored and resulted in unknown state: strconv.Atoi: parsing "web": invalid syntax'
        ),
    ),
    "slow": Answer(
        http("/cgi-bin/slow", timeoutSeconds=1),
        message=FAILED
        + 'Get "http://IP:8080/cgi-bin/slow": '
        + r"context deadline exceeded \(Client\.Timeout exceeded while awaiting headers\)",
    ),
    "https": Answer(
        {"httpGet": {"port": 8080, "scheme": "HTTPS"}, "periodSeconds": 1},
        message=FAILED + 'Get "https://IP:8080/": http: server gave HTTP response to HTTPS client',
    ),
    "r34": Answer({"tcpSocket": {"port": 81}, "periodSeconds": 1}, message=FAILED + REFUSED),
    "r34-open": Answer({"tcpSocket": {"port": 8080}, "periodSeconds": 1}, ready=True),
    "r35": Answer(
        {"grpc": {"port": 81}, "periodSeconds": 1},
        message=FAILED
        + re.escape('timeout: failed to connect service "')
        + "IP:81"
        + re.escape('" within 1s: context deadline exceeded'),
    ),
}

#: What the web server's scripts print; a complete head, as `httpd` passes it on.
CGI = {
    "broken": "printf 'HTTP/1.0 500 Broken\\r\\n\\r\\n'",
    "elsewhere": r"printf 'HTTP/1.0 302 Found\r\nLocation: http://other.example/x\r\nContent-Length: 4\r\n\r\nbody'",
    "loop": r"printf 'HTTP/1.0 302 Found\r\nLocation: /cgi-bin/loop\r\n\r\n'",
    "follow": r"printf 'HTTP/1.0 302 Found\r\nLocation: /cgi-bin/fine\r\n\r\n'",
    "fine": r"printf 'HTTP/1.0 200 OK\r\n\r\nfine'",
    "stall": r"printf 'HTTP/1.0 200 OK\r\nContent-Length: 50\r\n\r\nab'; sleep 4",
    "slow": "sleep 4",
}


def is_ready(r: Run, name: str, wanted: bool) -> bool:
    return r.cstatus(name)["ready"] is wanted


def web_server(r: Run) -> Json:
    """A sidecar with a startup probe, so that it serves before anything is asked."""
    scripts = r.dir / "www" / "cgi-bin"
    scripts.mkdir(parents=True)
    for name, what in CGI.items():
        (scripts / name).write_text(f"#!/bin/sh\n{what}\n")
        (scripts / name).chmod(0o755)
    probe = {"tcpSocket": {"port": 8080}, "periodSeconds": 1, "failureThreshold": 60}
    return sidecar("web", script("web", body="httpd -p 8080 -h /journal/www"), startupProbe=probe)


@table({"exec": EXEC_ROWS, "network": NETWORK_ROWS}, lasts=12)
def probe_says(r: Run, rows: dict[str, Answer]) -> None:
    """PH 11.2, 11.15 to 11.19, 11.27 to 11.35: what each answer makes of readiness, and the words it is told in."""
    idle = {"env": [{"name": "FOO", "value": "foo"}]}
    mains = [container(name, ["sleep", "3600"], readinessProbe=row.probe, **idle) for name, row in rows.items()]
    r.apply(r.pod(init=[web_server(r)], main=mains, terminationGracePeriodSeconds=2, restartPolicy="Always"))
    address = re.escape(r.until("podIP", lambda: (r.status() or {})["podIP"], 60))
    for name, row in rows.items():
        if row.message:
            pattern = re.compile(row.message.replace("IP", address), re.DOTALL)
            r.until_told(row.reason, pattern, who=name, within=60)
        r.until(f"{name} is ready: {row.ready}", functools.partial(is_ready, r, name, row.ready), 60)
    status = r.until_phase("Running")
    r.check(not any(r.restarts(name, status) for name in rows), "nothing was restarted")
    unready = [name for name, row in rows.items() if not row.ready]
    r.check(
        r.condition("Ready", status).get("message") == f"containers with unready status: [{' '.join(unready)}]",
        f"Ready names {unready}",
    )


@scenario()
def probe_request(r: Run) -> None:
    """PH 11.33: the request of an HTTP probe, with headers of the manifest's."""
    serve = "while :; do printf 'HTTP/1.0 200 OK\\r\\n\\r\\n' | nc -l -p 8080 >>/journal/request; done &"
    headers = [{"name": "Host", "value": "h.example"}, {"name": "x-a", "value": "1"}, {"name": "X-A", "value": "2"}]
    probe = {"httpGet": {"path": "/a?b=c#d", "port": 8080, "httpHeaders": headers}, "periodSeconds": 1}
    r.apply(
        r.pod(
            main=[container("main", script("main", body=serve), readinessProbe=probe)], terminationGracePeriodSeconds=2
        )
    )
    r.until_ready()
    r.until("the request is written down", lambda: b"\r\n\r\n" in (r.dir / "request").read_bytes())
    request = (r.dir / "request").read_bytes().decode().split("\r\n\r\n")[0].split("\r\n")
    r.check(request[0] == "GET /a?b=c HTTP/1.1", f"the first line is {request[0]}")
    for line in (
        "Host: h.example",
        "X-A: 1",
        "X-A: 2",
        "User-Agent: kube-probe/1.36",
        "Accept: */*",
        "Connection: close",
    ):
        r.check(line in request, f"{line!r} is in {request}")


@scenario()
def readiness_of_sidecar_counts(r: Run) -> None:
    """PH 11.25: the readiness of a sidecar is part of the pod's Ready condition."""
    r.apply(
        r.pod(
            restartPolicy="Always",
            init=[sidecar("side", script("side"), readinessProbe=exec_probe(["cat", "/journal/ready"]))],
            main=[container("main", script("main"))],
        )
    )
    r.until_event("main", "started", 40)
    status = r.until_phase("Running")
    r.check(r.condition("Ready", status)["status"] == "False", "not Ready while the sidecar is not")
    r.check("side" in r.condition("Ready", status).get("message", ""), "the message names the sidecar")
    (r.dir / "ready").touch()
    r.until("Ready", lambda: r.condition("Ready")["status"] == "True", 10)
    (r.dir / "ready").unlink()
    r.until("not Ready again", lambda: r.condition("Ready")["status"] == "False", 15)


@scenario()
def http_and_tcp_probes(r: Run) -> None:
    """httpGet and tcpSocket probes reach the container on the pod's address, by number and by port name."""
    serve = script("web", delay=2, body="mkdir -p /tmp/www; echo ok >/tmp/www/healthz; httpd -p 8080 -h /tmp/www")
    r.apply(
        r.pod(
            restartPolicy="Always",
            main=[
                container(
                    "web",
                    serve,
                    ports=[{"name": "http", "containerPort": 8080}],
                    startupProbe={"tcpSocket": {"port": 8080}, "periodSeconds": 1, "failureThreshold": 30},
                    readinessProbe={"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 1},
                )
            ],
        )
    )
    r.until("Ready", lambda: r.condition("Ready")["status"] == "True", 40)
    r.check(r.first("web", "started") <= uptime(), "ready only after it listened")

"""One image that stands in for all that the manifests name: what it does depends on which container of theirs it is.

A server listens where its container's ports say, and answers 200 to whatever a probe asks for; what is to end, an init
container or a Job's, ends with 0; every other program ends with 0 as well. Shells and their tools are busybox's own, so
that the scripts in the manifests really run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from minikubelet.api import image_name
from tests.integration.real_world.reading import NC, Manifest
from tests.support.images import BUSYBOX, Image, applets

_ENTRYPOINT = "/stand-in/entrypoint"
#: Images that people use for their shell.
_BARE = ("busybox",)
#: Programs that scripts of the manifests call.
_CALLED = (
    "curl", "filebeat", "forgejo-runner", "gitea", "java", "nginx", "pg_ctl", "pg_dump", "pg_isready", "php", "psql",
    "python3", "rabbitmqctl", "redis-cli", "restic", "vault",
)  # fmt: skip

#: A program of the image: itself, under its own name.
_STUB = b'#!/bin/sh\nexec /bin/sh /stand-in/run "${0##*/}" "$@"\n'
_NC = b"""#!/bin/sh
[ "$1" = -z ] || exec /bin/busybox nc "$@"
exec /bin/busybox nc -w 2 "$2" "$3" </dev/null
"""
#: A table's line: image, container, its program, what to do, ports. A container's name is in the path of a file that
#: every container has. Only the container's own process is a server, not what probes and hooks run in it besides.
_RUN = rb"""
program=$1
name=$(sed -n 's#^.*/containers/\([^/ ]*\)/[^/ ]* /dev/termination-log .*#\1#p' /proc/self/mountinfo)
while IFS='|' read -r image container main role ports; do
  [ "$image|$container|$main" = "$STAND_IN|$name|$program" ] || continue
  [ $role = serve ] && [ $$ = 1 ] || [ $role = serve-among-others ] || break
  servers=
  trap 'kill $servers; exit 0' TERM INT QUIT USR1
  for port in $ports; do
    httpd -f -p $port -h /stand-in/www & servers="$servers $!"
  done
  sleep 2147483647 & servers="$servers $!"
  echo "$name: $program serves at ports $ports"
  wait
  exit 1
done </stand-in/table
echo "$name: $*: done"
"""


def images_for(manifests: Iterable[Manifest]) -> list[Image]:
    """An image for each name, all of the same files."""
    known = [manifest for manifest in manifests if manifest.accepted]
    containers = [found for manifest in known for kind, spec in manifest.pods() for found in _containers(kind, spec)]
    lines: dict[tuple[str, str], str] = {}
    files: dict[str, bytes] = {_ENTRYPOINT: _STUB, "/stand-in/run": _RUN, NC: _NC}
    for role, container in containers:
        name = image_name.full_name(container["image"])
        program = _program(container)
        line = f"{name}|{container['name']}|{program.rpartition('/')[2]}|{role}|{' '.join(map(str, _ports(container)))}"
        known_line = lines.setdefault((name, container["name"]), line)
        assert known_line == line, f"give one of these another name: {known_line}, {line}"
        for path in (program, *_run_by_probes(container)):
            files |= _stubs(path)
    for program in _CALLED:
        files |= _stubs(program)
    files["/stand-in/table"] = "".join(f"{line}\n" for line in lines.values()).encode()
    files |= _pages(c for _, c in containers)
    return [_image(name, files) for name in sorted({name for name, _ in lines})]


def _image(name: str, files: dict[str, bytes]) -> Image:
    bare = name.removeprefix("docker.io/library/").partition(":")[0] in _BARE
    return Image(
        names=(name,),
        entrypoint=() if bare else (_ENTRYPOINT,),
        cmd=("sh",) if bare else (),
        env=(*BUSYBOX.env, f"STAND_IN={name}"),
        files=files,
    )


def _containers(kind: str, spec: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each container with what it has to do."""
    server = "serve-among-others" if spec.get("hostPID") else "serve"
    for container in spec.get("initContainers", []):
        yield server if container.get("restartPolicy") == "Always" else "end", container
    for container in spec["containers"]:
        yield server if (kind, spec.get("restartPolicy", "Always")) == ("Pod", "Always") else "end", container


def _program(container: dict[str, Any]) -> str:
    """What the container's process becomes: its command, or what a shell's script ends with by `exec`."""
    command = container.get("command", [_ENTRYPOINT])
    if command[0].rpartition("/")[2] not in ("sh", "bash"):
        return str(command[0])
    script = " ".join((*command[1:], *container.get("args", [])))
    called = re.findall(r"\bexec ([\w./-]+)", script)
    return called[-1] if called else "sh"


def _run_by_probes(container: dict[str, Any]) -> Iterator[str]:
    handlers = [container.get(f"{kind}Probe", {}) for kind in ("startup", "readiness", "liveness")]
    handlers += [container.get("lifecycle", {}).get(hook, {}) for hook in ("postStart", "preStop")]
    for handler in handlers:
        if "exec" in handler:
            yield handler["exec"]["command"][0]


def _ports(container: dict[str, Any]) -> list[int]:
    ports = [it for it in container.get("ports", []) if it.get("protocol", "TCP") == "TCP"]
    return sorted({it["containerPort"] for it in ports})


def _stubs(program: str) -> dict[str, bytes]:
    """The file that stands for a program, unless busybox is it. A bare name is one on PATH."""
    name = program.rpartition("/")[2]
    if name in applets():
        return {}
    if name == "bash":
        return {"/bin/bash": b'#!/bin/sh\nexec /bin/sh "$@"\n'}
    return {program if "/" in program else f"/usr/local/bin/{program}": _STUB}


def _pages(containers: Iterable[dict[str, Any]]) -> dict[str, bytes]:
    """A page for each path that a probe asks for."""
    found = {"/", "/_cluster/health"}
    for container in containers:
        for kind in ("startup", "readiness", "liveness"):
            get = container.get(f"{kind}Probe", {}).get("httpGet")
            if get:
                found.add(get.get("path", "/"))
    pages = {}
    for path in found:
        folder = any(other.startswith(f"{path.rstrip('/')}/") for other in found)
        place = Path(f"/stand-in/www{path}")
        pages[str(place / "index.html" if folder or path.endswith("/") else place)] = b"fine\n"
    return pages

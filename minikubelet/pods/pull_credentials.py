"""Where the credentials for pulling an image come from: the pod's Secrets, then docker's configuration on this node.

`images.py` asks before each pull, so what was changed counts at once. The files are looked for where the kubelet does
(IM-8). Nothing of what is found is ever logged, stored or shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import structlog

from minikubelet.api.configuration import secret_files
from minikubelet.api.docker_config import (
    SECRET_FORMS,
    DockerConfigError,
    Entry,
    Form,
    Login,
    names_helpers,
    read_docker_config,
)
from minikubelet.api.objects import NotFoundError
from minikubelet.api.pod import Pod
from minikubelet.lifecycle.actions import Event
from minikubelet.pods.credentials import logins_for
from minikubelet.pods.objects import ObjectStore
from minikubelet.runtime.regular_files import read_regular

log = structlog.get_logger(__name__)

#: Bytes of a file with credentials, at most.
_LONGEST = 10 * 1024 * 1024
_REASON = "FailedToRetrieveImagePullSecret"
_NO_HELPERS = "its credential helpers (credsStore, credHelpers) are not run; write user and password under auths"


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """`logins`: to be tried in this order; none: without. `events`: of secrets that could not be used."""

    logins: tuple[Login, ...] = ()
    events: tuple[Event, ...] = ()


class PullCredentials:
    def __init__(self, objects: ObjectStore, *, root: Path, home: Path | None = None) -> None:
        """`root`: the state folder. `home`: of whoever runs the daemon; None: has none."""
        self._objects = objects
        self._files = tuple(_node_files(root, home))
        self._told: tuple[str, ...] = ()

    async def find(self, repository: str, pod: Pod | None = None) -> Found:
        """What there is for a repository (`docker.io/library/busybox`). Without a pod: of the node only."""
        entries, events = self._of_secrets(pod) if pod is not None else ([], ())
        node, problems = await asyncio.to_thread(_read_node_files, self._files)
        for problem in problems:
            if problem not in self._told:
                log.warning("credentials for image registries cannot be read", problem=problem)
        self._told = problems
        return Found(logins=logins_for(repository, entries, node), events=events)

    def _of_secrets(self, pod: Pod) -> tuple[list[Entry], tuple[Event, ...]]:
        entries: list[Entry] = []
        missing: list[str] = []
        unfit: list[str] = []
        for name in (reference.name for reference in pod.spec.image_pull_secrets if reference.name):
            try:
                secret = self._objects.now.secret(pod.metadata.namespace, name)
            except NotFoundError:
                missing.append(name)
                continue
            key, form = SECRET_FORMS.get(secret.type, ("", "json"))
            if not key:
                unfit.append(f'Secret "{name}" is of type {secret.type}: for pulling images it has to be one of type '
                             f"{' or '.join(SECRET_FORMS)}")  # fmt: skip
                continue
            entries += read_docker_config(secret_files(secret)[key], form)  # (its manifest was checked for it)
        events = [Event(type="Warning", reason=_REASON, message=text) for text in unfit]
        if missing:
            text = (
                f"Unable to retrieve some image pull secrets ({', '.join(missing)}); "
                "attempting to pull the image may not succeed."
            )
            events.insert(0, Event(type="Warning", reason=_REASON, message=text))
        return entries, tuple(events)


def _node_files(root: Path, home: Path | None) -> Iterator[tuple[Path, Form]]:
    """In the order in which they are looked for; the first that can be used is the one."""
    here, top = Path(), Path("/")
    for folder in (root, here, *([home / ".docker"] if home else []), top / ".docker"):
        yield folder / "config.json", "json"
    for folder in (root, here, *([home] if home else []), top):
        yield folder / ".dockercfg", "cfg"


def _read_node_files(files: tuple[tuple[Path, Form], ...]) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    """The entries of the first file that can be used; and what is wrong with those before it."""
    problems: list[str] = []
    for path, form in files:
        try:
            data = read_regular(path, limit=_LONGEST)
            entries = read_docker_config(data, form)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            problems.append(f"{path.absolute()}: {error.strerror or error}; it is passed over")
        except DockerConfigError as error:
            problems.append(f"{path.absolute()}: {error}; it is passed over")
        else:
            if form == "json" and names_helpers(data):
                problems.append(f"{path.absolute()}: {_NO_HELPERS}")
            return entries, tuple(problems)
    return (), tuple(problems)

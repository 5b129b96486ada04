"""A manifest file's bytes to the objects it defines: text, types, defaults, identity, validation, all errors at once.

`sources/` calls `decode_file` for each file of the folder, and the command line for `validate`. It is pure, and
for a big file it takes time: call it off the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from minikubelet.api.base import Object
from minikubelet.api.batch import CronJob, Job
from minikubelet.api.batch_defaults import with_cronjob_defaults, with_job_defaults
from minikubelet.api.claims import PersistentVolumeClaim, with_claim_defaults
from minikubelet.api.configuration import ConfigMap, Secret, with_config_map_defaults, with_secret_defaults
from minikubelet.api.defaults import with_defaults
from minikubelet.api.documents import Document, Mapping, Scalar, read_documents
from minikubelet.api.elsewhere import advice_on, advice_on_no_kind
from minikubelet.api.identity import identified
from minikubelet.api.places import Unread, line_of
from minikubelet.api.pod import Pod
from minikubelet.api.problems import Problem, required
from minikubelet.api.scalars import describe, quoted
from minikubelet.api.schema import FAILED, Findings, read
from minikubelet.api.validation.claims import validate_claim
from minikubelet.api.validation.configuration import (
    config_map_update,
    secret_update,
    validate_config_map,
    validate_secret,
)
from minikubelet.api.validation.cronjobs import cronjob_warnings, validate_cronjob
from minikubelet.api.validation.jobs import job_warnings, validate_job
from minikubelet.api.validation.pods import pod_warnings, validate_pod


class ManifestError(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong with a manifest.

    `document` counts from 1; `line`, too, but 0 stands for the whole file; `path` is empty for the text itself.
    """

    file: str
    line: int
    document: int
    path: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: " + (f"{self.path}: " if self.path else "") + self.message


class ManifestNote(msgspec.Struct, frozen=True, kw_only=True):
    """A field that is accepted and has no effect here: to be named once in the log."""

    file: str
    line: int
    document: int
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.path} {self.message}"


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where an object's name stands in its file."""

    line: int
    document: int


class DecodedFile(msgspec.Struct, frozen=True, kw_only=True):
    """Documents without errors are in `objects`, in their order; `errors` are of the others."""

    objects: tuple[Any, ...]
    errors: tuple[ManifestError, ...]
    notes: tuple[ManifestNote, ...]
    #: One for each of `objects`.
    origins: tuple[Origin, ...] = ()


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What finishing an object needs to know besides its document."""

    file: str
    node_name: str
    sidecar_containers: bool


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of object that a manifest may hold: its type, and what turns a read object into a finished one."""

    type: type[Object]
    finish: Callable[[Any, Context], tuple[Any, list[Problem]]]
    #: What is accepted and deserves a word in the log; asked of valid objects only.
    warn: Callable[[Any], list[Problem]] = lambda _: []
    #: What a changed manifest must not change: asked with the object in force and the new one.
    update: Callable[[Any, Any], list[Problem]] = lambda _old, _new: []


def _finish_pod(pod: Pod, context: Context) -> tuple[Pod, list[Problem]]:
    finished = identified(with_defaults(pod), file=context.file, node_name=context.node_name)
    return finished, validate_pod(finished, sidecar_containers=context.sidecar_containers)


def _finish_job(job: Job, context: Context) -> tuple[Job, list[Problem]]:
    finished = with_job_defaults(job)
    return finished, validate_job(finished, sidecar_containers=context.sidecar_containers)


def _finish_cronjob(cron: CronJob, context: Context) -> tuple[CronJob, list[Problem]]:
    finished = with_cronjob_defaults(cron)
    return finished, validate_cronjob(finished, sidecar_containers=context.sidecar_containers)


def _finish_config_map(config_map: ConfigMap, _: Context) -> tuple[ConfigMap, list[Problem]]:
    finished = with_config_map_defaults(config_map)
    return finished, validate_config_map(finished)


def _finish_secret(secret: Secret, _: Context) -> tuple[Secret, list[Problem]]:
    finished = with_secret_defaults(secret)
    written = {f"data[{key}]": f"stringData[{key}]" for key in secret.string_data}
    problems = validate_secret(finished)
    return finished, [Problem(it.path, it.message, written.get(it.path, it.place)) for it in problems]


def _finish_claim(claim: PersistentVolumeClaim, _: Context) -> tuple[PersistentVolumeClaim, list[Problem]]:
    finished = with_claim_defaults(claim)
    return finished, validate_claim(finished)


#: What is understood, by apiVersion and kind.
KINDS: dict[tuple[str, str], Kind] = {
    ("v1", "Pod"): Kind(type=Pod, finish=_finish_pod, warn=pod_warnings),
    ("batch/v1", "Job"): Kind(type=Job, finish=_finish_job, warn=job_warnings),
    ("batch/v1", "CronJob"): Kind(type=CronJob, finish=_finish_cronjob, warn=cronjob_warnings),
    ("v1", "ConfigMap"): Kind(type=ConfigMap, finish=_finish_config_map, update=config_map_update),
    ("v1", "Secret"): Kind(type=Secret, finish=_finish_secret, update=secret_update),
    ("v1", "PersistentVolumeClaim"): Kind(type=PersistentVolumeClaim, finish=_finish_claim),
}


def update_problems(old: Any, new: Any) -> list[Problem]:
    """Why the manifest of an object in force must not be changed to that; two of one kind."""
    return next((kind.update(old, new) for kind in KINDS.values() if kind.type is type(new) is type(old)), [])


def decode_file(name: str, data: bytes, *, node_name: str, sidecar_containers: bool = True) -> DecodedFile:
    """What a manifest file says.

    `name` stands in the errors and is part of the pods' uids. It ends in `.json` for a JSON file; every other is YAML.
    `sidecar_containers` is the feature gate of that name. Never raises for any data.
    """
    context = Context(file=name, node_name=node_name, sidecar_containers=sidecar_containers)
    read_in = read_documents(data, is_json=name.endswith(".json"))
    objects: list[Any] = []
    origins: list[Origin] = []
    notes: list[ManifestNote] = []
    faulty = {error.document for error in read_in.errors}
    errors = [
        ManifestError(file=name, line=e.line, document=e.document, path=e.path, message=e.message)
        for e in read_in.errors
    ]
    for document in read_in.documents:
        decoded, document_errors, document_notes = _decode_document(document, context)
        errors += document_errors
        notes += document_notes
        if decoded is not None and document.number not in faulty:
            objects.append(decoded)
            origins.append(Origin(line=line_of(document.root, "metadata.name"), document=document.number))
    errors.sort(key=lambda error: error.document)
    return DecodedFile(objects=tuple(objects), errors=tuple(errors), notes=tuple(notes), origins=tuple(origins))


def _decode_document(document: Document, context: Context) -> tuple[Any, list[ManifestError], list[ManifestNote]]:
    root = document.root

    def error(line: int, path: str, message: str) -> ManifestError:
        return ManifestError(file=context.file, line=line, document=document.number, path=path, message=message)

    if not isinstance(root, Mapping):
        found = describe(root.value, root.text) if isinstance(root, Scalar) else "a list"
        return None, [error(root.line, "", f"expected an object with apiVersion and kind, found {found}")], []
    kind = _kind_of(root)
    if not isinstance(kind, Kind):
        return None, [error(line_of(root, each.path), each.path, each.message) for each in kind], []
    findings = Findings()
    value = read(kind.type, root, findings)
    errors = [error(each.line, each.path, each.message) for each in findings.problems]
    notes = [
        ManifestNote(file=context.file, line=n.line, document=document.number, path=n.path, message=n.message)
        for n in findings.notes
    ]
    if value is FAILED:
        return None, errors, notes
    finished, problems = kind.finish(value, context)
    unread = Unread(each.path for each in findings.problems)
    errors += [
        error(line_of(root, each.place or each.path), each.path, each.message)
        for each in problems
        if not unread.concerns(each.path)
    ]
    if errors:
        return None, errors, notes
    notes += [
        ManifestNote(
            file=context.file, line=line_of(root, w.path), document=document.number, path=w.path, message=w.message
        )
        for w in kind.warn(finished)
    ]
    return finished, errors, notes


def _kind_of(root: Mapping) -> Kind | list[Problem]:
    """The kind that a document says it is of, or what is wrong with what it says."""
    written = {}
    for field in ("apiVersion", "kind"):
        node = root.items.get(field)
        if isinstance(node, Scalar) and isinstance(node.value, str) and node.value:
            written[field] = node.value
    if missing := [field for field in ("apiVersion", "kind") if field not in written]:
        advice = advice_on_no_kind(root.items) if len(missing) == 2 else ""
        return [required(field, advice) for field in missing]
    api_version, kind = written["apiVersion"], written["kind"]
    if (api_version, kind) in KINDS:
        return KINDS[api_version, kind]
    versions = [version for version, known in KINDS if known == kind]
    if versions:
        return [Problem("apiVersion", f"Unsupported value: {quoted(api_version)}: {kind} is {versions[0]} here")]
    return [Problem("kind", f"Unsupported value: {quoted(kind)}: {advice_on(kind, KINDS)}")]

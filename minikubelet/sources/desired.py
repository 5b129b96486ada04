"""What the manifests ask for: per-file results folded into one desired set. Pure: no files, no clock, no asyncio.

`sources.folder` says what became of each file, `after` folds that into a `State`, and `desired` reads off it what the
daemon is to do: the objects in force, with the file each comes from, and what is wrong, by file.

The rules (README 1; LC 12.6 and 12.7 are the kubelet's, which differ):

- A file counts as a whole. One that cannot be used (invalid, unreadable, being written) leaves its earlier objects as
  they are; what is wrong with it is shown until it is mended or removed.
- A removed file takes its objects with it.
- Of several definitions of one object the one in force stays, and each other is refused with an error on its own
  file; the next in order of file name and document takes over when the holder goes. An edit of the holder's file does
  not lose it.
- What must not change of an object (an immutable ConfigMap's data) does not: such an edit is an error. Removing the
  object and putting it back is none.
- No two objects share a uid (users may set `metadata.uid`).

The kinds do not matter here: an object is anything with a kind and metadata.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from minikubelet.api.decode import DecodedFile, ManifestError, ManifestNote, Origin, update_problems
from minikubelet.api.meta import key_of
from minikubelet.api.pod import Pod
from minikubelet.sources.trouble import Trouble


class ObjectKey(NamedTuple):
    """The identity of an object among all of the folder."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class Sourced(msgspec.Struct, frozen=True, kw_only=True):
    """An object in force and the file that defines it."""

    object: Any
    file: str


class DesiredPod(NamedTuple):
    pod: Pod
    file: str


class Desired(msgspec.Struct, frozen=True, kw_only=True):
    """What the folder asks for at one moment. Files are named as in the folder; the folder's own error has its path."""

    objects: Mapping[ObjectKey, Sourced] = {}
    errors: Mapping[str, tuple[ManifestError, ...]] = {}
    #: What the decoder says of a file that is fine, such as fields that only mean something in a cluster.
    notes: Mapping[str, tuple[ManifestNote, ...]] = {}
    #: Files that somebody has open for writing: their new content waits until they are closed.
    being_written: frozenset[str] = frozenset()

    @property
    def pods(self) -> dict[str, DesiredPod]:
        """The pods among the objects, by `namespace/name`."""
        pods = (DesiredPod(it.object, it.file) for it in self.objects.values() if isinstance(it.object, Pod))
        return {key_of(it.pod.metadata): it for it in pods}


class Remembered(NamedTuple):
    """An object that was in force when the daemon ended, as the store kept it. `uid` as its manifest has it."""

    file: str
    uid: str
    object: Any


#: What became of a file: its new content, why it cannot be read, a `Trouble`, or None when it is as it was before a
#: trouble.
Outcome = DecodedFile | ManifestError | Trouble | None


class FileState(msgspec.Struct, frozen=True, kw_only=True):
    """`objects` are those of the file's last good content."""

    objects: tuple[Any, ...] = ()
    errors: tuple[ManifestError, ...] = ()
    notes: tuple[ManifestNote, ...] = ()
    #: One for each of `objects`; empty for remembered ones.
    origins: tuple[Origin, ...] = ()
    trouble: Trouble | None = None


class Holder(NamedTuple):
    file: str
    uid: str


class State(msgspec.Struct, frozen=True, kw_only=True):
    files: Mapping[str, FileState] = {}
    holders: Mapping[ObjectKey, Holder] = {}
    objects: Mapping[ObjectKey, Sourced] = {}
    #: Errors that come from how files stand to each other.
    clashes: Mapping[str, tuple[ManifestError, ...]] = {}


def object_key(obj: Any) -> ObjectKey:
    kind: str = obj.kind if hasattr(obj, "kind") else type(obj).__name__
    return ObjectKey(kind, obj.metadata.namespace, obj.metadata.name)


def initial(remembered: Iterable[Remembered]) -> State:
    """The state before the first read: every remembered pod is in force, and held by the file it came from."""
    files: dict[str, FileState] = {}
    holders: dict[ObjectKey, Holder] = {}
    for file, uid, pod in remembered:
        files[file] = FileState(objects=(*files.get(file, FileState()).objects, pod))
        holders[object_key(pod)] = Holder(file, uid)
    return _resolved(files, holders)


def after(state: State, changes: Mapping[str, Outcome], *, in_force: bool = True) -> State:
    """The state after `changes`, by file; a file that is not named is as it was.

    `in_force`: False where files are only looked at: of two that define one object none has a better right to it, and
    each is told of the other.
    """
    if not changes:
        return state
    files = dict(state.files)
    for file, outcome in changes.items():
        before = files.get(file, FileState())
        match outcome:
            case Trouble.GONE:
                files.pop(file, None)
            case Trouble() | None:
                files[file] = msgspec.structs.replace(before, trouble=outcome)
            case DecodedFile() if not outcome.errors and (refused := _refused_updates(file, before, outcome)):
                files[file] = msgspec.structs.replace(before, errors=refused, trouble=None)
            case DecodedFile() if not outcome.errors:
                files[file] = FileState(objects=outcome.objects, notes=outcome.notes, origins=outcome.origins)
            case DecodedFile():
                files[file] = msgspec.structs.replace(before, errors=outcome.errors, trouble=None)
            case _:
                files[file] = msgspec.structs.replace(before, errors=(outcome,), trouble=None)
    return _resolved(files, state.holders, in_force=in_force)


def _refused_updates(file: str, before: FileState, now: DecodedFile) -> tuple[ManifestError, ...]:
    """What the new content changes that must not change (an immutable ConfigMap's data) of the file's own objects."""
    known = {object_key(obj): obj for obj in before.objects}
    return tuple(
        ManifestError(file=file, line=origin.line, document=origin.document, path=it.path, message=it.message)
        for obj, origin in itertools.zip_longest(now.objects, now.origins, fillvalue=_FIRST)
        for it in update_problems(known.get(object_key(obj)), obj)
    )


def desired(state: State, *, folder_errors: Mapping[str, tuple[ManifestError, ...]]) -> Desired:
    errors = dict(folder_errors)
    for file in sorted(state.files):
        if found := state.files[file].errors + state.clashes.get(file, ()):
            errors[file] = found
    return Desired(
        objects=state.objects,
        errors=errors,
        notes={file: it.notes for file, it in sorted(state.files.items()) if it.notes},
        being_written=frozenset(f for f, it in state.files.items() if it.trouble is Trouble.BEING_WRITTEN),
    )


class _Claim(NamedTuple):
    object: Any
    file: str
    origin: Origin


def _resolved(files: Mapping[str, FileState], holders: Mapping[ObjectKey, Holder], *, in_force: bool = True) -> State:
    """Settle who holds each object, given who held it before."""
    claims: dict[ObjectKey, list[_Claim]] = {}
    for file, state in sorted(files.items()):
        for obj, origin in itertools.zip_longest(state.objects, state.origins, fillvalue=_FIRST):
            claims.setdefault(object_key(obj), []).append(_Claim(obj, file, origin))

    def precedence(claim: _Claim) -> tuple[bool, bool, bool]:
        """Smallest first: a file that is still there, then the holder's file, then the very object in force."""
        held = holders.get(object_key(claim.object), Holder("", ""))
        vanished = files[claim.file].trouble is Trouble.VANISHED
        return (vanished, claim.file != held.file, claim.object.metadata.uid != held.uid)

    winners: list[_Claim] = []
    clashes: dict[str, tuple[ManifestError, ...]] = {}

    def refuse(claim: _Claim, path: str, message: str) -> None:
        if files[claim.file].trouble is not Trouble.VANISHED:  # what is nearly gone is not told that it lost
            line, document = claim.origin.line, claim.origin.document
            error = ManifestError(file=claim.file, line=line, document=document, path=path, message=message)
            clashes[claim.file] = (*clashes.get(claim.file, ()), error)

    for key, claimants in claims.items():
        winner, *losers = sorted(claimants, key=precedence)
        winners.append(winner)
        for loser in losers:
            if in_force:
                text = f"{_place(winner, loser)} defines {key} already and stays in force; rename this one, or remove "
                refuse(loser, "metadata.name", f"{text}one of the two")
                continue
            for one, another in ((winner, loser), (loser, winner)):
                text = f"{_place(another, one)} defines {key}, too; rename or remove one of the two"
                refuse(one, "metadata.name", text)

    objects: dict[ObjectKey, Sourced] = {}
    by_uid: dict[str, Sourced] = {}
    for claim in sorted(winners, key=precedence):
        key, uid = object_key(claim.object), claim.object.metadata.uid
        if uid and (other := by_uid.get(uid)) is not None:
            text = f"{uid} is the uid of {object_key(other.object)} in {other.file} already; change it or leave it out"
            refuse(claim, "metadata.uid", text)
        else:
            by_uid[uid] = objects[key] = Sourced(object=claim.object, file=claim.file)
    return State(
        files=files,
        holders={key: Holder(it.file, it.object.metadata.uid) for key, it in objects.items()},
        objects={key: objects[key] for key in sorted(objects)},
        clashes=clashes,
    )


def _place(claim: _Claim, beside: _Claim) -> str:
    """Where it is, for somebody who looks at the other one."""
    return claim.file + (f", document {claim.origin.document}," if claim.file == beside.file else "")


_FIRST = Origin(line=1, document=1)

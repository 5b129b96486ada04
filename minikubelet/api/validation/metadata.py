"""Checks of object metadata, the same for every kind. Called by `pods` (and by the checks of other kinds)."""

from __future__ import annotations

from minikubelet.api.meta import ObjectMeta
from minikubelet.api.problems import Problems, invalid, required, too_long
from minikubelet.api.validation import names

MOST_ANNOTATION_BYTES = 256 * 1024
#: Of a name at all, of a file's name, and of the uid that a pod gets if it brings none.
_LONGEST_NAME, _LONGEST_FILE_NAME, _UID_LENGTH = 253, 255, 32


def validate_log_folder(metadata: ObjectMeta) -> Problems:
    """The folder of a pod's logs is named by its namespace, name and uid (SB-4), all in one file name."""
    most = _LONGEST_FILE_NAME - len(f"{metadata.namespace}__") - (len(metadata.uid) or _UID_LENGTH)
    if most < len(metadata.name) <= _LONGEST_NAME:
        detail = (
            f"must be no more than {most} characters: with the namespace and the uid it names the folder of the logs"
        )
        yield invalid("metadata.name", metadata.name, detail)


def validate_metadata(metadata: ObjectMeta, *, kind: str) -> Problems:
    """`kind` stands in the message about a missing name (IN-4)."""
    if not metadata.name:
        yield required("metadata.name", f"name is needed for the {kind}")
    else:
        for detail in names.dns_subdomain(metadata.name):
            yield invalid("metadata.name", metadata.name, detail)
    for detail in names.dns_label(metadata.namespace):
        yield invalid("metadata.namespace", metadata.namespace, detail)
    if metadata.uid:
        for detail in names.pod_uid(metadata.uid):
            yield invalid("metadata.uid", metadata.uid, detail)
    for key, value in metadata.labels.items():
        for detail in names.qualified_name(key):
            yield invalid("metadata.labels", key, detail, place=f"metadata.labels[{key}]")
        for detail in names.label_value(value):
            yield invalid("metadata.labels", value, detail, place=f"metadata.labels[{key}]")
    for key in metadata.annotations:
        for detail in names.qualified_name(key.lower()):
            yield invalid("metadata.annotations", key, detail, place=f"metadata.annotations[{key}]")
    size = sum(len(key.encode()) + len(value.encode()) for key, value in metadata.annotations.items())
    if size > MOST_ANNOTATION_BYTES:
        yield too_long("metadata.annotations", MOST_ANNOTATION_BYTES)

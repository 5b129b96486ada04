"""Checks of environment variables and of what they refer to (VA-1). Called by `containers` and by `volumes`."""

from __future__ import annotations

from minikubelet.api import downward, quantity
from minikubelet.api.environment import (
    ConfigMapKeySelector,
    EnvFromSource,
    EnvVar,
    ObjectFieldSelector,
    ResourceFieldSelector,
    SecretKeySelector,
)
from minikubelet.api.problems import Problems, invalid, required, unsupported
from minikubelet.api.validation import names

_SIZES = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
#: By resource: what a divisor may be, and what the reference calls the resource.
_DIVISORS = {
    "cpu": (("1m", "1"), "cpu", "1m and 1"),
    "memory": (_SIZES, "memory", ", ".join(_SIZES)),
    "ephemeral-storage": (_SIZES, "local ephemeral storage", ", ".join(_SIZES)),
}
_HUGE_PAGES = (_SIZES, "hugepages", ", ".join(_SIZES))


def validate_env(variables: tuple[EnvVar, ...], path: str) -> Problems:
    for index, variable in enumerate(variables):
        place = f"{path}[{index}]"
        if not variable.name:
            yield required(f"{place}.name")
        for detail in names.env_name(variable.name):
            yield invalid(f"{place}.name", variable.name, detail)
        yield from _value_from(variable, f"{place}.valueFrom")


def validate_env_from(sources: tuple[EnvFromSource, ...], path: str) -> Problems:
    for index, source in enumerate(sources):
        place = f"{path}[{index}]"
        for detail in names.env_name(source.prefix):
            yield invalid(f"{place}.prefix", source.prefix, detail)
        given = {"configMapRef": source.config_map_ref, "secretRef": source.secret_ref}
        chosen = {name: reference for name, reference in given.items() if reference is not None}
        for name, reference in chosen.items():
            if not reference.name:
                yield required(f"{place}.{name}.name")
        if not chosen:
            yield invalid(path, "", "must specify one of: `configMapRef` or `secretRef`", place=place)
        elif len(chosen) > 1:
            yield invalid(path, "", "may not have more than one field specified at a time", place=place)


def validate_field_ref(selector: ObjectFieldSelector, path: str, *, supported: tuple[str, ...]) -> Problems:
    """`supported`: the fields that may be named in this place, without subscripts."""
    place, field = f"{path}.fieldPath", selector.field_path
    if not selector.api_version:
        yield required(f"{path}.apiVersion")
        return
    if not field:
        yield required(place)
        return
    head, key = downward.split_subscript(field)
    known = {*downward.ENV_FIELDS, *downward.FILE_FIELDS, *downward.OTHER_FIELDS}
    problem = ""
    if selector.api_version != "v1":
        problem = f"unsupported pod version: {selector.api_version}"
    elif key is not None and head not in downward.SUBSCRIPTED:
        problem = f"field label does not support subscript: {field}"
    elif key is None and field not in known:
        problem = f"field label not supported: {field}"
    if problem:
        yield invalid(place, field, f"error converting fieldPath: {problem}")
    elif key is not None:
        for detail in names.qualified_name(key.lower() if head == "metadata.annotations" else key):
            yield invalid(path, key, detail)
    elif field not in supported:
        yield unsupported(place, field, supported)


def validate_resource_ref(selector: ResourceFieldSelector, path: str, *, of_file: bool) -> Problems:
    """`of_file`: in a volume the container has to be named."""
    resource = selector.resource
    if of_file and not selector.container_name:
        yield required(f"{path}.containerName")
    elif not resource:
        yield required(f"{path}.resource")
    elif resource not in downward.RESOURCES and not resource.startswith(downward.RESOURCE_PREFIXES):
        yield unsupported(f"{path}.resource", resource, downward.RESOURCES)
    if not quantity.parse(selector.divisor or "0"):
        return
    kind = resource.partition(".")[2]
    allowed = _HUGE_PAGES if resource.startswith(downward.RESOURCE_PREFIXES) else _DIVISORS.get(kind)
    if allowed is not None:
        divisors, called, listed = allowed
        if quantity.canonical(selector.divisor) not in divisors:
            detail = f"only divisor's values {listed} are supported with the {called} resource"
            yield invalid(f"{path}.divisor", resource, detail)


def _value_from(variable: EnvVar, path: str) -> Problems:
    source = variable.value_from
    if source is None:
        return
    count = 0
    if source.field_ref is not None:
        count += 1
        yield from validate_field_ref(source.field_ref, f"{path}.fieldRef", supported=downward.ENV_FIELDS)
    if source.resource_field_ref is not None:
        count += 1
        yield from validate_resource_ref(source.resource_field_ref, f"{path}.resourceFieldRef", of_file=False)
    if source.config_map_key_ref is not None:
        count += 1
        yield from _key_ref(source.config_map_key_ref, f"{path}.configMapKeyRef")
    if source.secret_key_ref is not None:
        count += 1
        yield from _key_ref(source.secret_key_ref, f"{path}.secretKeyRef")
    if not count:
        choice = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        yield invalid(path, "", f"must specify one of: {choice}")
    if count and variable.value:
        yield invalid(path, "", "may not be specified when `value` is not empty")
    elif count > 1:
        yield invalid(path, "", "may not have more than one field specified at a time")


def _key_ref(selector: ConfigMapKeySelector | SecretKeySelector, path: str) -> Problems:
    if not selector.name:
        yield required(f"{path}.name")
    if not selector.key:
        yield required(f"{path}.key")
    else:
        for detail in names.config_key(selector.key):
            yield invalid(f"{path}.key", selector.key, detail)

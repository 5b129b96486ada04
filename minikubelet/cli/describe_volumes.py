"""Volumes as `describe` shows them: lines with tab stops. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from minikubelet.cli.describe_fields import NONE, UNSET, yes_no


def volume_lines(volumes: Iterable[Any], *, indent: str = "") -> list[str]:
    lines = []
    for volume in volumes:
        lines += [f"{indent}  {volume['name']}:", *(f"{indent}    {line}" for line in _source(volume))]
    return [f"{indent}Volumes:", *lines] if lines else [f"{indent}Volumes:\t{NONE}"]


def _source(volume: Any) -> list[str]:
    if (it := volume.get("hostPath")) is not None:
        return ["Type:\tHostPath", f"Path:\t{it['path']}", f"HostPathType:\t{it.get('type') or NONE}"]
    if (it := volume.get("configMap")) is not None:
        return ["Type:\tConfigMap", f"Name:\t{it.get('name', '')}", f"Optional:\t{_lower(it)}"]
    if (it := volume.get("secret")) is not None:
        return ["Type:\tSecret", f"SecretName:\t{it.get('secretName', '')}", f"Optional:\t{_lower(it)}"]
    if (it := volume.get("persistentVolumeClaim")) is not None:
        return [
            "Type:\tPersistentVolumeClaim",
            f"ClaimName:\t{it.get('claimName', '')}",
            f"ReadOnly:\t{yes_no(it.get('readOnly')).lower()}",
        ]
    if (it := volume.get("image")) is not None:
        return ["Type:\tImage", f"Reference:\t{it.get('reference', '')}", f"PullPolicy:\t{it.get('pullPolicy', '')}"]
    if (it := volume.get("downwardAPI")) is not None:
        return ["Type:\tDownwardAPI", *_items(it)]
    if (it := volume.get("projected")) is not None:
        return ["Type:\tProjected", *(line for source in it.get("sources", ()) for line in _projection(source))]
    it = volume.get("emptyDir") or {}
    return ["Type:\tEmptyDir", f"Medium:\t{it.get('medium', '')}", f"SizeLimit:\t{it.get('sizeLimit') or UNSET}"]


def _projection(source: Any) -> list[str]:
    if (it := source.get("configMap")) is not None:
        return [f"ConfigMapName:\t{it.get('name', '')}", f"Optional:\t{_lower(it)}"]
    if (it := source.get("secret")) is not None:
        return [f"SecretName:\t{it.get('name', '')}", f"Optional:\t{_lower(it)}"]
    return ["DownwardAPI:\ttrue", *_items(source.get("downwardAPI") or {})]


def _items(source: Any) -> list[str]:
    rows = []
    for item in source.get("items", ()):
        field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
        what = field["fieldPath"] if field else (resource or {}).get("resource", "")
        rows.append(f"  {what} -> {item['path']}")
    return ["Items:", *rows] if rows else []


def _lower(source: Any) -> str:
    return yes_no(source.get("optional")).lower()

"""A pod, and a pod template, as `describe` shows them: lines with tab stops, in kubectl's order. Pure."""

from __future__ import annotations

from typing import Any

from minikubelet.cli.describe_containers import container_lines
from minikubelet.cli.describe_fields import NONE, controlled_by, head, moment, notes, pairs
from minikubelet.cli.describe_volumes import volume_lines


def pod_lines(pod: Any) -> list[str]:
    metadata, spec, status = pod["metadata"], pod.get("spec", {}), pod.get("status") or {}
    lines = head(pod)
    if spec.get("priority") is not None:
        lines.append(f"Priority:\t{spec['priority']}")
    lines += _optional("Priority Class Name", spec.get("priorityClassName"))
    lines += _optional("Runtime Class Name", spec.get("runtimeClassName"))
    where = "/".join(filter(None, (spec.get("nodeName"), status.get("hostIP"))))
    lines.append(f"Node:\t{where or NONE}")
    if status.get("startTime"):
        lines.append(f"Start Time:\t{moment(status['startTime'])}")
    lines += pairs("Labels", metadata.get("labels"))
    lines += notes("Annotations", metadata.get("annotations"))
    phase = status.get("phase", "")
    if metadata.get("deletionTimestamp") and phase not in ("Succeeded", "Failed"):
        lines.append(f"Status:\tTerminating (until {moment(metadata['deletionTimestamp'])})")
        lines.append(f"Termination Grace Period:\t{metadata.get('deletionGracePeriodSeconds', 0)}s")
    else:
        lines.append(f"Status:\t{phase}")
    lines += _optional("Reason", status.get("reason"))
    lines += _optional("Message", status.get("message"))
    lines.append(f"IP:\t{status.get('podIP', '')}")
    ips = [f"  IP:\t{each['ip']}" for each in status.get("podIPs", ())]
    lines += ["IPs:", *ips] if ips else [f"IPs:\t{NONE}"]
    lines += controlled_by(pod)
    if spec.get("initContainers"):
        lines += container_lines("Init Containers", spec["initContainers"], status.get("initContainerStatuses", ()))
    lines += container_lines("Containers", spec.get("containers", ()), status.get("containerStatuses", ()))
    if conditions := status.get("conditions"):
        rows = [_condition(each) for each in conditions]
        told = any("\t" in row.removeprefix("  ").partition("\t")[2] for row in rows)
        lines += ["Conditions:", "  Type\tStatus" + ("\tReason" if told else ""), *rows]
    lines += volume_lines(spec.get("volumes", ()))
    lines += _optional("QoS Class", status.get("qosClass"))
    lines += pairs("Node-Selectors", spec.get("nodeSelector"))
    return [*lines, *_tolerations(spec, "")]


def template_lines(template: Any) -> list[str]:
    metadata, spec = template.get("metadata", {}), template.get("spec", {})
    lines = ["Pod Template:", *pairs("  Labels", metadata.get("labels"))]
    if metadata.get("annotations"):
        lines += notes("  Annotations", metadata["annotations"])
    if spec.get("initContainers"):
        lines += container_lines("  Init Containers", spec["initContainers"], None)
    lines += container_lines("  Containers", spec.get("containers", ()), None)
    lines += volume_lines(spec.get("volumes", ()), indent="  ")
    lines += _optional("  Priority Class Name", spec.get("priorityClassName"))
    lines += pairs("  Node-Selectors", spec.get("nodeSelector"))
    return [*lines, *_tolerations(spec, "  ")]


def _optional(label: str, value: object) -> list[str]:
    return [f"{label}:\t{value}"] if value else []


def _condition(condition: Any) -> str:
    text = f"  {condition['type']}\t{condition['status']}"
    return f"{text}\t{condition['reason']}" if condition.get("reason") else text


def _tolerations(spec: Any, indent: str) -> list[str]:
    texts = []
    for it in spec.get("tolerations", ()):
        text = it.get("key", "")
        if it.get("value"):
            text += f"={it['value']}"
        if it.get("effect"):
            text += f":{it['effect']}"
        if it.get("operator") == "Exists" and not it.get("value"):
            text += " op=Exists"
        if it.get("tolerationSeconds") is not None:
            text += f" for {it['tolerationSeconds']}s"
        texts.append(text)
    first, *rest = sorted(texts) or [NONE]
    return [f"{indent}Tolerations:\t{first}", *(f"\t{text}" for text in rest)]

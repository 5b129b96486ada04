"""Containers as `describe` shows them: what they are to be, and how they are. Lines with tab stops. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from minikubelet.cli.describe_fields import NONE, moment, yes_no


def container_lines(label: str, containers: Iterable[Any], statuses: Iterable[Any] | None) -> list[str]:
    """`statuses`: None for a template, which has none."""
    of = {status["name"]: status for status in statuses or ()}
    indent = "   " if label.startswith(" ") else "  "
    lines = [f"{label}:"]
    for container in containers:
        lines.append(f"{indent}{container['name']}:")
        body = _container(container, None if statuses is None else of.get(container["name"], {}))
        lines += [f"    {line}" for line in body]
    return lines


def _container(container: Any, status: Any) -> list[str]:
    lines = [] if status is None else [f"Container ID:\t{status.get('containerID', '')}"]
    lines.append(f"Image:\t{container.get('image', '')}")
    if status is not None:
        lines.append(f"Image ID:\t{status.get('imageID', '')}")
    lines += _ports(container.get("ports", ()))
    for label, key in (("Command", "command"), ("Args", "args")):
        if words := container.get(key):
            lines += [f"{label}:", *(f"  {line}" for word in words for line in _plain(word).split("\n"))]
    if container.get("restartPolicy"):
        lines.append(f"Restart Policy:\t{container['restartPolicy']}")
    if status is not None:
        lines += _state("State", status.get("state", {}))
        if status.get("lastState"):
            lines += _state("Last State", status["lastState"])
        lines.append(f"Ready:\t{yes_no(status.get('ready'))}")
        lines.append(f"Restart Count:\t{status.get('restartCount', 0)}")
    resources = container.get("resources", {})
    for label, amounts in (("Limits", resources.get("limits")), ("Requests", resources.get("requests"))):
        if amounts:
            lines += [f"{label}:", *(f"  {name}:\t{amount}" for name, amount in sorted(amounts.items()))]
    for label in ("Liveness", "Readiness", "Startup"):
        if probe := container.get(f"{label.lower()}Probe"):
            lines.append(f"{label}:\t{_probe(probe)}")
    lines += _environment(container)
    mounts = [_mount(each) for each in sorted(container.get("volumeMounts", ()), key=lambda it: str(it["mountPath"]))]
    return [*lines, *(["Mounts:", *mounts] if mounts else [f"Mounts:\t{NONE}"])]


def _ports(ports: Any) -> list[str]:
    many = "s" if len(ports) > 1 else ""
    inside = [f"{it['containerPort']}/{it.get('protocol', 'TCP')}" + _in_brackets(it.get("name")) for it in ports]
    outside = [f"{it.get('hostPort', 0)}/{it.get('protocol', 'TCP')}" + _in_brackets(it.get("name")) for it in ports]
    return [f"Port{many}:\t{', '.join(inside) or NONE}", f"Host Port{many}:\t{', '.join(outside) or NONE}"]


def _in_brackets(text: str | None) -> str:
    return f" ({text})" if text else ""


def _state(label: str, state: Any) -> list[str]:
    if (running := state.get("running")) is not None:
        return [f"{label}:\tRunning", f"  Started:\t{moment(running.get('startedAt'))}"]
    if (ended := state.get("terminated")) is not None:
        return [
            f"{label}:\tTerminated",
            *_told(ended),
            f"  Exit Code:\t{ended.get('exitCode', 0)}",
            *([f"  Signal:\t{ended['signal']}"] if ended.get("signal") else ()),
            f"  Started:\t{moment(ended.get('startedAt'))}",
            f"  Finished:\t{moment(ended.get('finishedAt'))}",
        ]
    return [f"{label}:\tWaiting", *_told(state.get("waiting") or {})]


def _told(state: Any) -> list[str]:
    lines = [f"  Reason:\t{state['reason']}"] if state.get("reason") else []
    if message := _plain(state.get("message", "")).strip():
        first, *rest = message.split("\n")
        lines += [f"  Message:\t{first}", *(f"  \t{line}" for line in rest)]
    return lines


def _probe(probe: Any) -> str:
    times = (
        f"delay={probe.get('initialDelaySeconds', 0)}s timeout={probe.get('timeoutSeconds', 1)}s "
        f"period={probe.get('periodSeconds', 10)}s #success={probe.get('successThreshold', 1)} "
        f"#failure={probe.get('failureThreshold', 3)}"
    )
    if (it := probe.get("exec")) is not None:
        what = f"exec [{' '.join(_plain(word) for word in it.get('command', ()))}]"
    elif (it := probe.get("httpGet")) is not None:
        scheme, path = it.get("scheme", "HTTP").lower(), it.get("path", "/")
        what = f"http-get {scheme}://{it.get('host', '')}:{it['port']}{path}"
    elif (it := probe.get("tcpSocket")) is not None:
        what = f"tcp-socket {it.get('host', '')}:{it['port']}"
    elif (it := probe.get("grpc")) is not None:
        what = f"grpc <pod>:{it['port']} {it.get('service', '')}"
    else:
        what = "unknown"
    return f"{what} {times}"


def _environment(container: Any) -> list[str]:
    lines = []
    if sources := container.get("envFrom"):
        lines.append("Environment Variables from:")
        for source in sources:
            kind, ref = ("ConfigMap", source["configMapRef"]) if "configMapRef" in source else (
                "Secret", source.get("secretRef", {})
            )  # fmt: skip
            prefix = f" with prefix '{source['prefix']}'" if source.get("prefix") else ""
            lines.append(f"  {ref.get('name', '')}\t{kind}{prefix}\tOptional: {_optional(ref)}")
    variables = [f"  {line}" for each in container.get("env", ()) for line in _variable(each)]
    return [*lines, *(["Environment:", *variables] if variables else [f"Environment:\t{NONE}"])]


def _variable(variable: Any) -> list[str]:
    name, source = variable["name"], variable.get("valueFrom") or {}
    if (it := source.get("fieldRef")) is not None:
        return [f"{name}:\t ({it.get('apiVersion', 'v1')}:{it['fieldPath']})"]
    if (it := source.get("resourceFieldRef")) is not None:
        return [f"{name}:\t ({it['resource']})"]
    if (it := source.get("secretKeyRef")) is not None:
        return [f"{name}:\t<set to the key '{it['key']}' in secret '{it['name']}'>\tOptional: {_optional(it)}"]
    if (it := source.get("configMapKeyRef")) is not None:
        return [f"{name}:\t<set to the key '{it['key']}' of config map '{it['name']}'>\tOptional: {_optional(it)}"]
    first, *rest = _plain(variable.get("value", "")).split("\n")
    return [f"{name}:\t{first}", *(f"\t{line}" for line in rest)]


def _optional(reference: Any) -> str:
    return "true" if reference.get("optional") else "false"


def _mount(mount: Any) -> str:
    how = "ro" if mount.get("readOnly") else "rw"
    if mount.get("subPath"):
        how += f',path="{mount["subPath"]}"'
    return f"  {mount['mountPath']} from {mount['name']} ({how})"


def _plain(text: str) -> str:
    """Tabs are tab stops here."""
    return text.replace("\t", " ")

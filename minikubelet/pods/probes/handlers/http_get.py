"""The httpGet probe: which responses mean what (PH 6.3)."""

from __future__ import annotations

from minikubelet.api.pod import HTTPGetAction
from minikubelet.pods.probes.handlers.base import (
    SUCCESS,
    Attempt,
    Outcome,
    PortError,
    Target,
    error,
    failure,
    resolve_port,
)
from minikubelet.pods.probes.handlers.http_client import HttpClient, TransportError, request_for

USER_AGENT = "kube-probe/1.36"


async def probe(client: HttpClient, action: HTTPGetAction, target: Target, *, timeout: float) -> Attempt:  # noqa: ASYNC109
    """One GET within `timeout` seconds. 2xx is success, a redirect to elsewhere a warning, no answer a failure."""
    try:
        port = resolve_port(action.port, target.container)
    except PortError as problem:
        return error(str(problem))
    request = request_for(action, host=action.host or target.address, port=port, user_agent=USER_AGENT)
    try:
        response = await client.get(request, timeout=timeout)
    except TransportError as problem:
        return failure(str(problem))
    if response.body_error:
        return error(response.body_error, state="failure")
    if 200 <= response.status < 300:
        return SUCCESS
    if 300 <= response.status < 400:
        body = response.body.decode(errors="replace")
        return Attempt(outcome=Outcome.WARNING, output=f"Probe terminated redirects, Response body: {body}")
    return failure(f"HTTP probe failed with statuscode: {response.status}")

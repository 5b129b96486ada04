"""A pod's resolver settings, from its policy, its own wishes and the host's resolv.conf (DNS-1 to DNS-5)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from minikubelet.api.pod import Pod
from minikubelet.runtime.mapping.node import NodeContext
from minikubelet.runtime.pb import cri_pb2

_MAX_SERVERS, _MAX_SEARCHES, _MAX_SEARCH, _MAX_LINE = 3, 32, 255 - 2, 2048


class DNSError(ValueError):
    """The host's resolv.conf cannot be used; no sandbox is made."""


class DNS(msgspec.Struct, frozen=True, kw_only=True):
    servers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


class Warned(msgspec.Struct, frozen=True, kw_only=True):
    """An event of type Warning that the sandbox's making gives rise to."""

    reason: str
    message: str


def dns_config(pod: Pod, node: NodeContext, *, resolv_conf: str | None) -> tuple[cri_pb2.DNSConfig, list[Warned]]:
    """`resolv_conf` is the content of the configured file; None: none is configured (DNS-3). Raises DNSError."""
    host = _without_file(node) if resolv_conf is None else parse(resolv_conf)
    warned: list[Warned] = []
    dns = _by_policy(pod, node, host, warned)
    if own := pod.spec.dns_config:
        options = [f"{option.name}:{option.value}" if option.value else option.name for option in own.options]
        dns = DNS(
            servers=_distinct((*dns.servers, *own.nameservers)),
            searches=_distinct((*dns.searches, *own.searches)),
            options=_merged((*dns.options, *options)),
        )
    dns = _limited(dns, warned)
    return cri_pb2.DNSConfig(servers=dns.servers, searches=dns.searches, options=dns.options), warned


def parse(text: str) -> DNS:
    """A resolv.conf (DNS-1). Raises DNSError for a nameserver line without an address."""
    servers: list[str] = []
    searches: tuple[str, ...] = ()
    options: list[str] = []
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        keyword, *values = line.split() or [""]
        if keyword == "nameserver":
            if not values:
                raise DNSError("Encountered error while parsing resolv conf file. Error: nameserver list is empty ")
            servers.append(values[0])
        elif keyword == "search":
            searches = tuple(value.removesuffix(".") for value in values if value != ".")
        elif keyword == "options":
            options += values
    return DNS(servers=tuple(servers), searches=searches, options=_merged(options))


def _without_file(node: NodeContext) -> DNS:
    return DNS(servers=("::1" if ":" in node.node_ip else "127.0.0.1",), searches=(".",))


def _by_policy(pod: Pod, node: NodeContext, host: DNS, warned: list[Warned]) -> DNS:
    """DNS-2."""
    policy = pod.spec.dns_policy
    if policy == "None":
        return DNS()
    if policy == "Default" or (policy == "ClusterFirst" and pod.spec.host_network):
        return host
    if not node.cluster_dns:
        meta = pod.metadata
        shown = f"{meta.name}_{meta.namespace}({meta.uid})"
        message = (
            f'pod: "{shown}". kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst"'
            ' policy. Falling back to "Default" policy.'
        )
        warned.append(Warned(reason="MissingClusterDNS", message=message))
        return host
    searches = host.searches
    if domain := node.cluster_domain:
        searches = (f"{pod.metadata.namespace}.svc.{domain}", f"svc.{domain}", domain, *searches)
    return DNS(servers=node.cluster_dns, searches=_distinct(searches), options=("ndots:5",))


def _limited(dns: DNS, warned: list[Warned]) -> DNS:
    """DNS-5: what the resolver could not use is left out, with a warning."""
    servers = dns.servers[:_MAX_SERVERS]
    if servers != dns.servers:
        warned.append(_omitted("Nameserver limits", "nameservers", "nameserver", servers))
    searches = [search for search in dns.searches[:_MAX_SEARCHES] if len(search) <= _MAX_SEARCH]
    while len(" ".join(searches)) > _MAX_LINE:
        searches.pop()
    if tuple(searches) != dns.searches:
        warned.append(_omitted("Search Line limits", "search paths", "search", searches))
    return DNS(servers=servers, searches=tuple(searches), options=dns.options)


def _omitted(limits: str, things: str, line: str, applied: Iterable[str]) -> Warned:
    message = (
        f"{limits} were exceeded, some {things} have been omitted, the applied {line} line is: {' '.join(applied)}"
    )
    return Warned(reason="DNSConfigForming", message=message)


def _distinct(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _merged(options: Iterable[str]) -> tuple[str, ...]:
    """One of each name; the later value wins at the earlier place (D-2)."""
    return tuple({option.partition(":")[0]: option for option in options}.values())

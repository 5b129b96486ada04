"""Names and addresses of a pod: its resolver and its hosts file (DNS-2, DNS-4, MT-5)."""

from __future__ import annotations

from minikubelet.api.base import Object


class PodDNSConfigOption(Object):
    name: str = ""
    value: str | None = None


class PodDNSConfig(Object):
    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[PodDNSConfigOption, ...] = ()


class HostAlias(Object):
    ip: str
    hostnames: tuple[str, ...] = ()

"""Checks of what a pod says about host ports, its resolver and its hosts file (VA-1). Called by `pods`."""

from __future__ import annotations

from minikubelet.api.network import HostAlias, PodDNSConfig
from minikubelet.api.pod import PodSpec
from minikubelet.api.problems import Problems, forbidden, invalid, required
from minikubelet.api.validation import names

LONGEST_HOSTNAME = 64
MOST_NAMESERVERS = 3
MOST_SEARCHES = 32
MOST_SEARCH_CHARACTERS = 2048


def validate_host_network_ports(spec: PodSpec) -> Problems:
    """On the host's network there is no mapping: both ports are the same one."""
    if not spec.host_network:
        return
    for index, container in enumerate(spec.containers):
        for number, port in enumerate(container.ports):
            if port.host_port != port.container_port:
                place = f"spec.containers[{index}].ports[{number}].hostPort"
                yield invalid(place, port.host_port, "must match `containerPort` when `hostNetwork` is true")


def validate_hostname_override(spec: PodSpec) -> Problems:
    override, path = spec.hostname_override, "spec.hostnameOverride"
    if override is None:
        return
    for detail in names.dns_subdomain(override):
        yield invalid(path, override, detail)
    if len(override) > LONGEST_HOSTNAME:
        yield invalid(path, override, f"must be no more than {LONGEST_HOSTNAME} characters")
    if spec.set_hostname_as_fqdn:
        yield forbidden(path, "may not be specified when `setHostnameAsFQDN` is true")
    if spec.host_network:
        yield forbidden(path, "may not be specified when `hostNetwork` is true")


def validate_dns_config(config: PodDNSConfig | None, *, policy: str) -> Problems:
    path = "spec.dnsConfig"
    if policy == "None" and config is None:
        yield required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
    if config is None:
        return
    if policy == "None" and not config.nameservers:
        detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        yield required(f"{path}.nameservers", detail)
    if len(config.nameservers) > MOST_NAMESERVERS:
        detail = f"must not have more than {MOST_NAMESERVERS} nameservers"
        yield invalid(f"{path}.nameservers", config.nameservers, detail)
    for index, server in enumerate(config.nameservers):
        for detail in names.ip_address(server):
            yield invalid(f"{path}.nameservers[{index}]", server, detail)
    if len(config.searches) > MOST_SEARCHES:
        yield invalid(f"{path}.searches", config.searches, f"must not have more than {MOST_SEARCHES} search paths")
    if len(" ".join(config.searches)) > MOST_SEARCH_CHARACTERS:
        detail = f"must not have more than {MOST_SEARCH_CHARACTERS} characters (including spaces) in the search list"
        yield invalid(f"{path}.searches", config.searches, detail)
    for index, search in enumerate(config.searches):
        for detail in names.search_domain(search):
            yield invalid(f"{path}.searches[{index}]", search, detail)
    for index, option in enumerate(config.options):
        if not option.name:
            yield required(f"{path}.options[{index}]", "must not be empty")


def validate_host_aliases(aliases: tuple[HostAlias, ...]) -> Problems:
    for index, alias in enumerate(aliases):
        place = f"spec.hostAliases[{index}]"
        for detail in names.ip_address(alias.ip):
            yield invalid(f"{place}.ip", alias.ip, detail)
        for number, hostname in enumerate(alias.hostnames):
            for detail in names.dns_subdomain(hostname):
                yield invalid(f"{place}.hostnames[{number}]", hostname, detail)

"""The base of every Kubernetes object: strict, typed, frozen, with Kubernetes' JSON names.

Every struct of `api/` derives from `Object`. Attribute names are Kubernetes' field names in snake case;
`kubernetes_name` gives the JSON name back (`host_ip` -> `hostIP`), so the two can never drift apart.
"""

from __future__ import annotations

import msgspec

#: Field-name parts that Kubernetes writes in capitals (when they are not the first part).
_CAPITALS = {
    "ip": "IP", "ips": "IPs", "id": "ID", "pid": "PID", "ipc": "IPC", "fqdn": "FQDN", "api": "API", "dns": "DNS",
    "tcp": "TCP", "wwn": "WWN", "fs": "FS", "iqn": "IQN", "uri": "URI", "url": "URL", "cidr": "CIDR", "grpc": "GRPC",
}  # fmt: skip
#: Names that follow no rule.
_IRREGULAR = {
    "cluster_ip": "clusterIP", "wwns": "wwids", "scale_io": "scaleIO", "tcp_socket": "tcpSocket", "fs_type": "fsType",
    "fs_group": "fsGroup", "fs_group_change_policy": "fsGroupChangePolicy", "dns_policy": "dnsPolicy",
    "dns_config": "dnsConfig", "api_version": "apiVersion", "restart_policy_rules": "restartPolicyRules",
    "pod_ip": "podIP", "pod_ips": "podIPs", "http_get": "httpGet", "csi": "csi",
}  # fmt: skip


def kubernetes_name(attribute: str) -> str:
    """The JSON name of a field, e.g. `set_hostname_as_fqdn` -> `setHostnameAsFQDN`."""
    if attribute in _IRREGULAR:
        return _IRREGULAR[attribute]
    first, *rest = attribute.rstrip("_").split("_")
    return first + "".join(_CAPITALS.get(part, part.capitalize()) for part in rest)


class Object(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, rename=kubernetes_name):
    """A Kubernetes object or part of one. Unset fields are None (or an empty tuple or dict) and are not encoded."""

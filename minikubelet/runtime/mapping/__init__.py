"""What of a Pod goes where in CRI: pure functions from the Pod and this node's facts to CRI messages.

`pods/executor.py` calls `sandbox_config` and `container_config`; the rest of the daemon needs the paths and the hash.
Nothing here does I/O: `node.py` says what must be found out beforehand.
"""

from minikubelet.runtime.mapping.cgroup import cgroup_parent
from minikubelet.runtime.mapping.container import (
    ContainerInputs,
    ImageFacts,
    container_config,
)
from minikubelet.runtime.mapping.dns import DNSError, dns_config
from minikubelet.runtime.mapping.environment import Environment, EnvironmentSourceError, container_environment
from minikubelet.runtime.mapping.hostname import HostnameError, hostname_and_domain
from minikubelet.runtime.mapping.hosts_file import hosts_file
from minikubelet.runtime.mapping.mounts import MountError, MountSources
from minikubelet.runtime.mapping.node import NodeContext, RuntimeClassError, SwapControl
from minikubelet.runtime.mapping.paths import (
    container_log_directory,
    container_log_path,
    log_directory,
    pod_directory,
)
from minikubelet.runtime.mapping.sandbox import sandbox_config
from minikubelet.runtime.mapping.users import NonRootError, UserNamespaceError

__all__ = [
    "ContainerInputs",
    "DNSError",
    "Environment",
    "EnvironmentSourceError",
    "HostnameError",
    "ImageFacts",
    "MountError",
    "MountSources",
    "NodeContext",
    "NonRootError",
    "RuntimeClassError",
    "SwapControl",
    "UserNamespaceError",
    "cgroup_parent",
    "container_config",
    "container_environment",
    "container_log_directory",
    "container_log_path",
    "dns_config",
    "hostname_and_domain",
    "hosts_file",
    "log_directory",
    "pod_directory",
    "sandbox_config",
]

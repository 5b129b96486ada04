"""What a container finds in its environment, from every source a manifest may name (EV-1 to EV-9).

Pure: `pods/starter.py` gives the objects that there are and the pod's addresses at the moment of the start. Later
changes of an object never reach a container that runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from minikubelet.api.configuration import concealed, secret_files
from minikubelet.api.downward import Addresses, field_text, resource_text
from minikubelet.api.environment import (
    ConfigMapKeySelector,
    EnvFromSource,
    EnvVarSource,
    ResourceFieldSelector,
    SecretKeySelector,
)
from minikubelet.api.expansion import expand
from minikubelet.api.objects import NotFoundError, Objects
from minikubelet.api.pod import Container, Pod
from minikubelet.runtime.mapping.node import NodeContext


class EnvironmentSourceError(Exception):
    """A variable has no value, and is not optional. The text is for CreateContainerConfigError; no value is in it."""


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """`variables` in the order in which they are sent (EV-9). `secrets`: those of their values that nobody may see."""

    variables: Mapping[str, str] = {}
    secrets: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"Environment({', '.join(self.variables)})"

    def conceal(self, text: str) -> str:
        """The text without the secrets: the runtime may repeat a command in which `$(NAME)` stood for one."""
        return concealed(text, self.secrets)


def container_environment(
    pod: Pod, container: Container, node: NodeContext, *, objects: Objects, pod_ips: Sequence[str] = ()
) -> Environment:
    """The variables of a container that is to be made now. `pod_ips`: of its sandbox.

    Raises EnvironmentSourceError.
    """
    sources = _Sources(pod, container, node, objects, pod_ips)
    variables: dict[str, str] = {}
    try:
        for source in container.env_from:
            variables.update(sources.all_of(source))
        for entry in container.env:
            if entry.value or entry.value_from is None:
                variables[entry.name] = expand(entry.value, variables)
            elif (value := sources.value_of(entry.value_from)) is not None:
                variables[entry.name] = value
    except NotFoundError as error:
        raise EnvironmentSourceError(str(error)) from error
    for name, value in variables.items():
        if "\0" in value:
            raise EnvironmentSourceError(f"the value of environment variable {name} has a NUL character in it")
    return Environment(variables=variables, secrets=frozenset(sources.secrets))


class _Sources:
    def __init__(
        self, pod: Pod, container: Container, node: NodeContext, objects: Objects, pod_ips: Sequence[str]
    ) -> None:
        self._pod = pod
        self._container = container
        self._node = node
        self._objects = objects
        host_ips = (node.node_ip,) if node.node_ip else ()
        self._addresses = Addresses(pod_ips=host_ips if pod.spec.host_network else pod_ips, host_ips=host_ips)
        self.secrets: set[str] = set()

    def all_of(self, source: EnvFromSource) -> Iterator[tuple[str, str]]:
        """EV-1; keys sorted within their source."""
        found: Mapping[str, str | bytes] | None = None
        name = ""
        if source.config_map_ref is not None:
            name = source.config_map_ref.name
            found = self._config_map(name, optional=source.config_map_ref.optional)
        elif source.secret_ref is not None:
            name = source.secret_ref.name
            found = self._secret(name, optional=source.secret_ref.optional)
        for key in sorted(found or ()):
            yield f"{source.prefix}{key}", self._text(found or {}, key, name)

    def value_of(self, source: EnvVarSource) -> str | None:
        """None: what is optional is not there, and the variable is not set at all (EV-3)."""
        if source.field_ref is not None:
            return field_text(self._pod, source.field_ref.field_path, self._addresses)
        if source.resource_field_ref is not None:
            return self._resource(source.resource_field_ref)
        if (selector := source.config_map_key_ref) is not None:
            return self._key(selector, self._config_map(selector.name, optional=selector.optional), "ConfigMap")
        if (chosen := source.secret_key_ref) is not None:
            return self._key(chosen, self._secret(chosen.name, optional=chosen.optional), "Secret")
        return ""

    def _config_map(self, name: str, *, optional: bool | None) -> Mapping[str, str | bytes] | None:
        """Its text by key, its binary data left out; None if it is optional and not there."""
        try:
            return dict(self._objects.config_map(self._pod.metadata.namespace, name).data)
        except NotFoundError:
            if optional:
                return None
            raise

    def _secret(self, name: str, *, optional: bool | None) -> Mapping[str, str | bytes] | None:
        """Its content by key; None if it is optional and not there."""
        try:
            return dict(secret_files(self._objects.secret(self._pod.metadata.namespace, name)))
        except NotFoundError:
            if optional:
                return None
            raise

    def _key(
        self,
        selector: ConfigMapKeySelector | SecretKeySelector,
        found: Mapping[str, str | bytes] | None,
        kind: str,
    ) -> str | None:
        if found is not None and selector.key in found:
            return self._text(found, selector.key, selector.name)
        if found is None or selector.optional:
            return None
        where = f"{self._pod.metadata.namespace}/{selector.name}"
        raise EnvironmentSourceError(f"couldn't find key {selector.key} in {kind} {where}")

    def _text(self, found: Mapping[str, str | bytes], key: str, name: str) -> str:
        value = found[key]
        if isinstance(value, str):
            return value
        try:
            text = value.decode()
        except UnicodeDecodeError:
            raise EnvironmentSourceError(
                f"key {key} in Secret {self._pod.metadata.namespace}/{name} is not UTF-8 text, as an environment "
                "variable has to be; mount the secret as a volume instead"
            ) from None
        self.secrets.add(text)
        return text

    def _resource(self, selector: ResourceFieldSelector) -> str:
        """The node's size stands in for a limit of the own container, and of a regular one, never of another (EV-6)."""
        name, spec = selector.container_name, self._pod.spec
        if not name:
            return resource_text(self._container, selector, allocatable=self._node.allocatable)
        for container in spec.containers:
            if container.name == name:
                return resource_text(container, selector, allocatable=self._node.allocatable)
        for container in spec.init_containers:
            if container.name == name:
                return resource_text(container, selector, allocatable=None)
        raise EnvironmentSourceError(f"container {name} not found")

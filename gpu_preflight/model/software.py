"""Software of a cluster: DaemonSets, add-ons, and autoscalers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from gpu_facts.kubernetes import KUBE_SYSTEM
from gpu_facts.labels import OPERATOR_CONFIG
from gpu_facts.light import dataclass
from gpu_preflight.model.label_values import Labels, LabelValues
from gpu_preflight.model.pod import Pod
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.objects import Origin
from gpu_preflight.reading.unknown import Unknown

AutoscalerKind = Literal["cluster-autoscaler", "karpenter", "auto-mode"]


@dataclass(frozen=True, slots=True)
class MissingConfig:
    """A configuration that a node label selects and the device plugin lacks. The pod fails before the plugin starts.

    Source: NVIDIA/k8s-device-plugin v0.20.0 cmd/config-manager/main.go, updateConfigName (2026-11)

    Attributes:
        name: Name of the configuration.
    """

    name: str


@dataclass(frozen=True, slots=True)
class DaemonSet:
    """A DaemonSet, which runs a pod on every matching node.

    Attributes:
        name: Its name.
        pod: Its pod.
        origin: The place of the DaemonSet, its chart or its add-on in the input.
        advertises: Extended resources that it registers.
        exact: Whether its figures are for exactly the installed version.
        config: Configuration of a device plugin, if it is known; ``Unknown`` if it exists but isn't known.
        configs: Configurations that the node label `OPERATOR_CONFIG` selects. Then ``config`` is for nodes without the
            label. ``None`` if no label selects one.
    """

    name: str
    pod: Pod
    origin: Origin
    advertises: tuple[str, ...] = ()
    exact: bool = True
    config: Any = None
    configs: Mapping[str, Any] | None = None

    def select_config(self, labels: Labels) -> Any:
        """Return the configuration of a device plugin on a node with such labels."""
        if self.configs is None or OPERATOR_CONFIG not in labels:
            return self.config
        value = labels[OPERATOR_CONFIG]
        if not isinstance(value, LabelValues) or value.only is None or value.may_be_absent or value.unsure:
            return Unknown("${configuration of the device plugin}")
        return self.configs.get(value.only, MissingConfig(value.only))


@dataclass(frozen=True, slots=True)
class Addon:
    """An EKS add-on.

    Attributes:
        name: Its name.
        version: Its version; ``None`` for the default version at deployment.
        configuration: Its configuration values.
        resource: The resource.
    """

    name: str
    version: str | None
    configuration: Mapping[str, Any]
    resource: Resource

    @property
    def origin(self) -> Origin:
        """Its place in the input."""
        return self.resource.origin


@dataclass(frozen=True, slots=True)
class Autoscaler:
    """An autoscaler, which launches nodes for pending pods.

    Attributes:
        kind: Which autoscaler.
        origin: Its place in the input.
        flags: Command line of Cluster Autoscaler, or values of Karpenter's ``settings``.
        version: Its version; ``None`` if it isn't known.
        pod: Its pod; empty for Auto Mode.
        service_account: Namespace and name of its service account.
    """

    kind: AutoscalerKind
    origin: Origin
    flags: Mapping[str, Any] = field(default_factory=dict)
    version: str | None = None
    pod: Pod = field(default_factory=Pod)
    service_account: tuple[str, str] = (KUBE_SYSTEM, "")

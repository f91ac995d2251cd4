"""Software of a cluster: what runs on each node, add-ons, and what makes nodes."""

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
    """A configuration that a node selects and the device plugin doesn't have: its pod fails before the plugin starts.

    Source: NVIDIA/k8s-device-plugin v0.20.0 cmd/config-manager/main.go, updateConfigName (2026-11)

    Attributes:
        name: Name of the configuration.
    """

    name: str


@dataclass(frozen=True, slots=True)
class DaemonSet:
    """A pod that every matching node runs.

    Attributes:
        name: Its name.
        pod: Its pod.
        origin: Where it, its chart or its add-on stands.
        advertises: Extended resources that it registers.
        exact: Whether its figures were read for the very version installed.
        config: Configuration of a device plugin, where it is known; ``Unknown`` where there is one that is not.
        configs: Configurations that a node selects by its label `OPERATOR_CONFIG`; ``config`` is then for nodes
            without the label. ``None`` where no label selects one.
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
        version: Its version, ``None`` for the default of the day.
        configuration: Its configuration values.
        resource: The resource.
    """

    name: str
    version: str | None
    configuration: Mapping[str, Any]
    resource: Resource

    @property
    def origin(self) -> Origin:
        """Where it stands."""
        return self.resource.origin


@dataclass(frozen=True, slots=True)
class Autoscaler:
    """Something that makes nodes for pending pods.

    Attributes:
        kind: Which one.
        origin: Where it stands.
        flags: Command line of cluster autoscaler, or values of Karpenter's ``settings``.
        version: Its version, ``None`` where it is not known.
        pod: Its pod, empty for Auto Mode.
        service_account: Namespace and name of its service account.
    """

    kind: AutoscalerKind
    origin: Origin
    flags: Mapping[str, Any] = field(default_factory=dict)
    version: str | None = None
    pod: Pod = field(default_factory=Pod)
    service_account: tuple[str, str] = (KUBE_SYSTEM, "")

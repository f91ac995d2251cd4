"""Software of a cluster: what runs on each node, add-ons, and what makes nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gpu_constructs.facts.kubernetes import KUBE_SYSTEM
from gpu_constructs.preflight.model.pod import Pod
from gpu_constructs.preflight.reading.cloudformation import Resource
from gpu_constructs.preflight.reading.objects import Origin

AutoscalerKind = Literal["cluster-autoscaler", "karpenter", "auto-mode"]


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
    """

    name: str
    pod: Pod
    origin: Origin
    advertises: tuple[str, ...] = ()
    exact: bool = True
    config: Any = None


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

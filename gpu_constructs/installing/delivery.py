"""Manifests and charts as resources of a cluster, and the sources of charts.

Constructs pass the objects that should exist in Kubernetes. This module chooses how they are applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import aws_cdk as cdk
import constructs
import jsii
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from gpu_constructs.installing import registry
from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.installing.context import CHART_DEFINITIONS, CHART_MIRROR, refuse_wrong_context
from gpu_constructs.installing.eks_resources import set_logical_id
from gpu_constructs.installing.gitops import ChartFile, ManifestFile, delivery_method
from gpu_constructs.installing.lambda_functions import apply_definitions, kubernetes_objects
from gpu_constructs.installing.registry import Applied, PathOf
from gpu_facts.charts import NVIDIA_CHARTS, NVIDIA_REGISTRY, is_public
from gpu_facts.merging import merged
from gpu_facts.resources import NVIDIA
from gpu_facts.versions import Chart

if TYPE_CHECKING:
    import cdk8s

# The kubectl handler's Lambda stops after 15 minutes. If helm waits that long, its release stays locked in
# "pending-upgrade" (aws/aws-cdk#22257).
_HELM_TIMEOUT_MINUTES = 12
_SERVICES = ("Deployment", "StatefulSet")


def _require_images_within_reach(
    applied: Construct, cluster: ClusterRef, manifests: Sequence[Mapping[str, Any]]
) -> None:
    """Reject at synth public images of GPU pods and DaemonSets in a cluster without a way to the internet.

    Args:
        applied: Construct that applies the objects.
        cluster: Its cluster. A VPC that was imported, or that has a route, isn't checked.
        manifests: The objects.
    """
    if cluster.is_isolated:
        images = sorted({image for each in manifests for image in images_on_gpu_nodes(each) if is_public(image)})
        applied.node.add_validation(_WithinReach(applied, cluster, [f"image {each!r}" for each in images]))


def _require_chart_within_reach(
    release: Construct, cluster: ClusterRef, chart: Chart, values: Mapping[str, Any], *, mirrored: bool
) -> None:
    """Reject at synth a chart, or its images on nvcr.io, in a cluster without a way to the internet.

    Args:
        release: Construct that installs the chart.
        cluster: Its cluster. A VPC that was imported, or that has a route, isn't checked.
        chart: The chart.
        values: Its values.
        mirrored: Whether it is fetched from a mirror.
    """
    if not cluster.is_isolated:
        return
    section, name = NVIDIA_CHARTS.get(chart.name, ("", ""))
    images = bool(section) and (values.get(section) or {}).get(name) is None
    release.node.add_validation(
        _WithinReach(
            release,
            cluster,
            [f"the images of chart {chart.name!r} on {NVIDIA_REGISTRY}"] if images else [],
            charts=[] if mirrored else [f"chart {chart.name!r} from {chart.repository}"],
        )
    )


def images_on_gpu_nodes(value: Any, kind: str = "") -> Iterator[str]:
    """Yield the images of DaemonSets, and of pods that request or claim GPUs."""
    if isinstance(value, Mapping):
        kind = value.get("kind") or kind
        containers = [each for key in ("initContainers", "containers") for each in value.get(key) or ()]
        claims = bool(value.get("resourceClaims"))
        if containers and (kind == "DaemonSet" or claims or any(_requests_gpus(each) for each in containers)):
            yield from (image for each in containers if isinstance(image := each.get("image"), str))
        else:
            for each in value.values():
                yield from images_on_gpu_nodes(each, kind)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from images_on_gpu_nodes(each, kind)


def _requests_gpus(container: Mapping[str, Any]) -> bool:
    limits = (container.get("resources") or {}).get("limits") or {}
    return any(str(each).startswith(NVIDIA) for each in limits)


@jsii.implements(constructs.IValidation)
class _WithinReach:
    """Reports images and charts that nodes or the helm function can't pull.

    Args:
        applied: Construct that applies or installs them.
        cluster: Its cluster.
        images: Images that nodes pull, if no pool has mirrors.
        charts: Charts that the helm function fetches.
    """

    def __init__(
        self, applied: Construct, cluster: ClusterRef, images: Sequence[str], charts: Sequence[str] = ()
    ) -> None:
        self._applied, self._cluster, self._images, self._charts = applied, cluster, images, charts

    def validate(self) -> list[str]:
        """Return an error for each image and chart that can't be pulled."""
        images = self._images if self._cluster.lacks_mirrors else ()
        if not (images or self._charts) or not self._cluster.has_no_way_out:
            return []
        who = self._applied.node.path.removesuffix("/Resource")
        tail = f"as the VPC of {self._cluster.path} has no route out of it"
        mirror = "Host(registry_mirrors=...) on the pools, or use an image in ECR"
        return [f"{who}: {each} can't be pulled, {tail}; set {mirror} [GPU076]" for each in images] + [
            f"{who}: {each} can't be fetched, {tail}; copy it as gpu-constructs images lists it, and set the context "
            f"key {CHART_MIRROR} [GPU455]"
            for each in self._charts
        ]


def apply_manifests(
    scope: Construct,
    id: str,
    *,
    cluster: ClusterRef,
    manifests: Sequence[Mapping[str, Any]],
    removal_policy: cdk.RemovalPolicy | None = None,
) -> Construct:
    """Apply objects in the given order, and return a construct that contains all of them.

    Objects in the namespace of a `Team` of this app are applied after the team.

    Args:
        cluster: Cluster to apply them to.
        manifests: The objects.
        removal_policy: Action for an object that leaves the app. Default: it is deleted. Argo CD and Flux use their own
            settings.

    Raises:
        ValueError: Another construct applies an object of the same kind, namespace and name.
    """
    cluster.objects.take(PathOf(scope), manifests)
    cluster.software.services.extend(each for each in manifests if each["kind"] in _SERVICES)
    applied: Construct
    if delivery_method(scope) != "kubectl":
        applied = ManifestFile(scope, id, manifests)
    else:
        applied = kubernetes_objects(scope, id, cluster=cluster, manifests=manifests, removal_policy=removal_policy)
    _require_images_within_reach(applied, cluster, manifests)
    for namespace in dict.fromkeys(each["metadata"].get("namespace") for each in manifests):
        if namespace is not None:
            cluster.namespace(namespace).ask(Applied(applied, manifests))
    return applied


def apply_before(needed: Construct) -> Callable[[Construct], None]:
    """Return a function that applies a construct after ``needed``, if both are in the same stack."""

    def order_after(construct: Construct) -> None:
        if cdk.Stack.of(construct) is cdk.Stack.of(needed):
            construct.node.add_dependency(needed)

    return order_after


def apply_after_controller(applied: Construct, *, cluster: ClusterRef, chart: str, kind: str) -> None:
    """Apply an object after its controller, and delete it before. Report at synth if the app lacks the controller.

    Args:
        applied: The object.
        cluster: Its cluster. An imported cluster may already have the controller.
        chart: Chart of the controller.
        kind: Construct that installs it.
    """
    cluster.controller(chart).ask(applied)
    if cluster.auto_mode is not None:
        applied.node.add_validation(_ControllerNeeded(applied, cluster, kind, (release_claim(chart),)))


def apply_after_dra_driver(applied: Construct, *, cluster: ClusterRef) -> None:
    """Apply an object that claims GPUs after the DRA driver, and delete it before.

    A cluster of this app needs a driver at synth. An imported cluster may have one that another app installs.

    Args:
        applied: The object.
        cluster: Its cluster.
    """
    cluster.claimants.ask(applied)
    if cluster.auto_mode is not None:
        drivers = (registry.DRA_DRIVER, registry.DRA_DRIVER_OF_OPERATOR)
        applied.node.add_validation(_ControllerNeeded(applied, cluster, "DraDriver", drivers, rule=" [GPU132]"))


@jsii.implements(constructs.IValidation)
class _ControllerNeeded:
    """Reports an object whose controller isn't installed.

    Args:
        applied: The object.
        cluster: Its cluster.
        kind: Construct that installs the controller.
        holders: Claims of the cluster. Each of them shows that the controller is installed.
        rule: Suffix of the message: the checker's rule for the same fault.
    """

    def __init__(
        self, applied: Construct, cluster: ClusterRef, kind: str, holders: Sequence[str], rule: str = ""
    ) -> None:
        self._applied, self._cluster, self._kind, self._holders, self._rule = applied, cluster, kind, holders, rule

    def validate(self) -> list[str]:
        """Return an error if the controller is missing."""
        if any(self._cluster.holder(each) is not None for each in self._holders):
            return []
        path = self._applied.node.path.removesuffix("/Resource")
        fix = f"create {self._kind}(stack, ..., cluster=...)"
        return [f"{path}: cluster must have a {self._kind}, got none; {fix}{self._rule}"]


def release_claim(chart: str) -> str:
    """Return the key under which a cluster registers the only release of a chart."""
    return f"helm release {chart!r}"


def apply_chart(scope: Construct, id: str, *, cluster: ClusterRef, chart: cdk8s.Chart) -> Construct:
    """Apply the objects of a cdk8s chart."""
    return apply_manifests(scope, id, cluster=cluster, manifests=chart.to_json())


def late_values(values: Mapping[str, Any]) -> Any:
    """Return chart values that are complete only when all constructs are defined. Empty values are left out."""
    return cdk.Lazy.any(_LateValues(values))


@jsii.implements(cdk.IStableAnyProducer)
class _LateValues:
    """Values that CDK requests once for each template."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def produce(self) -> Any:
        """Return the values."""
        return dict(sorted(self._values.items())) or None


def refuse_unless_chart_values(who: object, values: object) -> None:
    """Reject values that can't override a chart's values.

    Raises:
        TypeError: ``values`` isn't a mapping.
    """
    if values is not None and not isinstance(values, Mapping):
        raise TypeError(f"{who}: values must be a mapping, got {values!r}; write {{'key': value}}")


def find_value(values: object, *path: str) -> object:
    """Return a value of a chart, or ``None``."""
    for key in path:
        values = values.get(key) if isinstance(values, Mapping) else None
    return values


def _repository(scope: Construct, chart: Chart) -> str:
    mirror = scope.node.try_get_context(CHART_MIRROR)
    if mirror is None:
        return chart.repository
    refuse_wrong_context({CHART_MIRROR: mirror})
    return f"{mirror.rstrip('/')}/{chart.name}"


def _applies_definitions(scope: Construct) -> bool:
    said = scope.node.try_get_context(CHART_DEFINITIONS)
    refuse_wrong_context({CHART_DEFINITIONS: True if said is None else said})
    return said not in (False, "false")


def install_helm_chart(
    scope: Construct,
    id: str,
    *,
    cluster: ClusterRef,
    chart: Chart,
    namespace: str,
    values: Mapping[str, Any] | None = None,
    user_values: Mapping[str, Any] | None = None,
    create_namespace: bool = False,
    own_definitions: bool = True,
    until_ready: bool = True,
) -> Construct:
    """Install a chart as a release with its own name, after the foundation of the cluster, and wait until it runs.

    The release has a fixed name. Its logical id depends only on cluster, namespace and name. So another construct can
    take over the installation, and the deployment doesn't uninstall it at its end.

    Before the release, the deployment applies CRDs inside the chart that Helm wouldn't upgrade. Without
    ``own_definitions`` another chart installs them. Helm 4 still applies the CRDs of the chart at its first
    installation, because aws-cdk-lib 2.275 doesn't pass on the option to skip them.

    ``user_values`` override ``values``. With ``until_ready``, helm also waits for custom resources that have a
    condition Ready (Helm 4). Without it, helm waits only for the chart's hooks.

    Raises:
        TypeError: ``user_values`` isn't a mapping.
        ValueError: The mirror in the app's context isn't an OCI registry. Or the chart doesn't upgrade its CRDs, and
            the cluster was imported without the attributes that a function needs to connect to it.
    """
    refuse_unless_chart_values(PathOf(scope), user_values)
    if user_values is not None:
        values = merged(values or {}, user_values)
    cluster.software.charts[chart.name] = (chart.version, values or {})
    repository = _repository(scope, chart)
    release: Construct
    if delivery_method(scope) != "kubectl":
        release = ChartFile(
            scope,
            id,
            chart=chart,
            repository=repository,
            namespace=namespace,
            values=values,
            own_definitions=own_definitions,
            until_ready=until_ready,
        )
    else:
        release = eks.HelmChart(
            scope,
            id,
            cluster=cluster.cluster,
            chart=chart.name,
            release=chart.name,
            repository=repository,
            version=chart.version,
            namespace=namespace,
            create_namespace=create_namespace,
            values=values,
            wait=until_ready,
            timeout=cdk.Duration.minutes(_HELM_TIMEOUT_MINUTES),
        )
        resource = release.node.find_child("Resource").node.default_child
        set_logical_id(resource, cluster, "Release", chart.name, namespace)
        if chart.leaves_definitions and own_definitions and _applies_definitions(scope):
            definitions = apply_definitions(
                scope, f"{id}Definitions", cluster=cluster, chart=chart, repository=repository, who=PathOf(scope)
            )
            release.node.add_dependency(definitions)
        mirrored = repository != chart.repository
        _require_chart_within_reach(release, cluster, chart, values or {}, mirrored=mirrored)
        if not mirrored and cluster.is_isolated:
            _warn_of_public_chart(scope, chart)
    cluster.wait_for_foundation(release)
    return release


def _warn_of_public_chart(scope: Construct, chart: Chart) -> None:
    """Warn about a chart that the helm function can't fetch from the isolated subnets of its cluster."""
    cdk.Annotations.of(scope).add_warning_v2(
        "gpu-constructs:chartOutOfReach",
        f"{scope.node.path}: the subnets of the cluster are isolated, and the helm function fetches chart "
        f"{chart.name!r} from {chart.repository}; copy it as gpu-constructs images lists it, and set the context key "
        f"{CHART_MIRROR} "
        "[GPU455]",
    )

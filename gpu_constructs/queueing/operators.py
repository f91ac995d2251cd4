"""Controllers of jobs with many pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from constructs import Construct

from gpu_constructs.cluster_ref import AnyCluster, PathOf, cluster_ref
from gpu_constructs.delivery import install_helm_chart
from gpu_constructs.versions import DYNAMO, JOBSET, KUBERAY, LEADER_WORKER_SET, Chart


class JobSets(Construct):
    """The controller of JobSet: several Jobs that start and fail together, as distributed training does.

    Args:
        cluster: Cluster to install into; needs a kubectl provider.
        values: Values of the chart.

    Raises:
        TypeError: ``cluster`` is no cluster of ``aws_eks_v2``.
        ValueError: The cluster has no kubectl provider, or has the controller from this library.

    Attributes:
        chart: The release.
    """

    def __init__(
        self, scope: Construct, id: str, *, cluster: AnyCluster, values: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(scope, id)
        self.chart = _install(self, cluster, JOBSET, "jobset-system", values)


class LeaderWorkerSets(Construct):
    """The controller of LeaderWorkerSet: groups of pods that serve one model over several nodes.

    Args:
        cluster: Cluster to install into; needs a kubectl provider.
        values: Values of the chart.

    Raises:
        TypeError: ``cluster`` is no cluster of ``aws_eks_v2``.
        ValueError: The cluster has no kubectl provider, or has the controller from this library.

    Attributes:
        chart: The release.
    """

    def __init__(
        self, scope: Construct, id: str, *, cluster: AnyCluster, values: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(scope, id)
        self.chart = _install(self, cluster, LEADER_WORKER_SET, "lws-system", values)


class KubeRay(Construct):
    """The operator of Ray: clusters, jobs and services.

    Args:
        cluster: Cluster to install into; needs a kubectl provider.
        values: Values of the chart.

    Raises:
        TypeError: ``cluster`` is no cluster of ``aws_eks_v2``.
        ValueError: The cluster has no kubectl provider, or has the operator from this library.

    Attributes:
        chart: The release.
    """

    def __init__(
        self, scope: Construct, id: str, *, cluster: AnyCluster, values: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(scope, id)
        self.chart = _install(self, cluster, KUBERAY, "kuberay-system", values)


class Dynamo(Construct):
    """NVIDIA's Dynamo platform: the operator that serves one model over many GPUs.

    Its graphs (``DynamoGraphDeployment``) are yours to apply; their shape still changes between releases.

    Args:
        cluster: Cluster to install into; needs a kubectl provider.
        values: Values of the chart.

    Raises:
        TypeError: ``cluster`` is no cluster of ``aws_eks_v2``.
        ValueError: The cluster has no kubectl provider, or has the platform from this library.

    Attributes:
        chart: The release.
    """

    def __init__(
        self, scope: Construct, id: str, *, cluster: AnyCluster, values: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(scope, id)
        self.chart = _install(self, cluster, DYNAMO, "dynamo-system", values)


def _install(
    scope: Construct, cluster: AnyCluster, chart: Chart, namespace: str, values: Mapping[str, Any] | None
) -> Construct:
    who = PathOf(scope)
    ref = cluster_ref(who, cluster, kubectl=True)
    ref.claim(who, f"helm release {chart.name!r}", why="a release has one owner")
    made = install_helm_chart(
        scope, "Resource", cluster=ref, chart=chart, namespace=namespace, create_namespace=True, values=values
    )
    for needed in ref.foundation:
        made.node.add_dependency(needed)
    return made

"""Controllers of jobs with many pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from constructs import Construct

from gpu_constructs.facts.versions import DYNAMO, JOBSET, KUBERAY, LEADER_WORKER_SET, Chart
from gpu_constructs.installing.cluster_ref import AnyCluster, PathOf, cluster_ref
from gpu_constructs.installing.delivery import install_helm_chart
from gpu_constructs.named_arguments import named_arguments


@named_arguments
class _Operator(Construct):
    """A controller that is its chart."""

    _release: ClassVar[Chart]
    _namespace: ClassVar[str]

    def __init__(
        self, scope: Construct, id: str, *, cluster: AnyCluster, values: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        ref.claim(who, f"helm release {self._release.name!r}", why="a release has one owner")
        self.chart = install_helm_chart(
            self,
            "Resource",
            cluster=ref,
            chart=self._release,
            namespace=self._namespace,
            create_namespace=True,
            user_values=values,
        )


class JobSets(_Operator):
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

    _release = JOBSET
    _namespace = "jobset-system"


class LeaderWorkerSets(_Operator):
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

    _release = LEADER_WORKER_SET
    _namespace = "lws-system"


class KubeRay(_Operator):
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

    _release = KUBERAY
    _namespace = "kuberay-system"


class Dynamo(_Operator):
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

    _release = DYNAMO
    _namespace = "dynamo-system"

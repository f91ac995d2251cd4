"""Controllers of jobs with many pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from constructs import Construct

from gpu_constructs.installing.claims import PathOf
from gpu_constructs.installing.cluster_ref import AnyCluster, cluster_ref
from gpu_constructs.installing.delivery import apply_before, install_helm_chart, release_of, value_at
from gpu_facts.charts import NAMESPACES
from gpu_facts.named_arguments import named_arguments
from gpu_facts.versions import DYNAMO, JOBSET, KUBERAY, LEADER_WORKER_SET, Chart

# The chart's own default since 1.4, where requests go by TCP and events by ZMQ; before it was True.
# Source: https://github.com/ai-dynamo/dynamo/pull/11951
DYNAMO_VALUES: Mapping[str, Any] = {"global": {"nats": {"install": False}}}
_NATS_CLASS = "nats.config.jetstream.fileStore.pvc.storageClassName"


@named_arguments
class _Operator(Construct):
    """A controller that is its chart."""

    _release: ClassVar[Chart]
    _values: ClassVar[Mapping[str, Any] | None] = None

    def __init__(
        self, scope: Construct, id: str, *, cluster: AnyCluster, values: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        self._refuse_values(who, values)
        ref.claim(who, release_of(self._release.name), why="a release has one owner")
        self.chart = install_helm_chart(
            self,
            "Resource",
            cluster=ref,
            chart=self._release,
            namespace=NAMESPACES[self._release.name],
            create_namespace=True,
            values=self._values,
            user_values=values,
        )
        ref.controller(self._release.name).serve(apply_before(self.chart))

    @staticmethod
    def _refuse_values(who: object, values: object) -> None:
        """Refuse values of the chart with which it could not start."""


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


class Dynamo(_Operator):
    """NVIDIA's Dynamo platform: the operator that serves one model over many GPUs.

    Its graphs (``DynamoGraphDeployment``) are yours to apply; their shape still changes between releases. It comes
    without NATS, which graphs need no longer; to have it, its volume takes a storage class.

    Args:
        cluster: Cluster to install into; needs a kubectl provider.
        values: Values of the chart, laid over ours.

    Raises:
        TypeError: ``cluster`` is no cluster of ``aws_eks_v2``.
        ValueError: The cluster has no kubectl provider, or has the platform from this library, or ``values`` install
            NATS on a volume that nobody makes.

    Attributes:
        chart: The release.
    """

    _release = DYNAMO
    _values: ClassVar[Mapping[str, Any] | None] = DYNAMO_VALUES

    @staticmethod
    def _refuse_values(who: object, values: object) -> None:
        volume = value_at(values, "nats", "config", "jetstream", "fileStore", "pvc")
        claimed = value_at(volume, "enabled") is not False and not value_at(volume, "storageClassName")
        if value_at(values, "global", "nats", "install") is True and claimed:
            raise ValueError(
                f"{who}: values must name {_NATS_CLASS} with global.nats.install=True, got none; EKS makes no default "
                "class, and NATS would stay Pending"
            )

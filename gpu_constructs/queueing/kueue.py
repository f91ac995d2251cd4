"""Kueue, and the operators of jobs that it queues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from constructs import Construct

from gpu_constructs.installing.cluster_ref import AnyCluster, cluster_ref
from gpu_constructs.installing.delivery import apply_before, find_value, install_helm_chart, release_claim
from gpu_constructs.installing.registry import PathOf
from gpu_constructs.installing.yaml_text import to_yaml
from gpu_facts.charts import NAMESPACES
from gpu_facts.kubernetes import KUBE_SYSTEM, refuse_unless_object_name
from gpu_facts.labels import NAMESPACE_NAME
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import INT32, refuse_unless_bool, refuse_unless_whole_number, words
from gpu_facts.versions import DYNAMO, JOBSET, KUBERAY, KUEUE, LEADER_WORKER_SET, Chart

_NAMESPACE = NAMESPACES[KUEUE.name]
# The chart's default, without the integrations of plain pods, Deployments and StatefulSets.
_FRAMEWORKS = (
    "batch/job",
    "jobset.x-k8s.io/jobset",
    "kubeflow.org/mpijob",
    "leaderworkerset.x-k8s.io/leaderworkerset",
    "ray.io/raycluster",
    "ray.io/rayjob",
    "ray.io/rayservice",
    "trainer.kubeflow.org/trainjob",
    "workload.codeflare.dev/appwrapper",
)
# The chart's default. Without it the controller processes one object of each kind at a time.
_CONCURRENCY = {
    "Job.batch": 5,
    "Pod": 5,
    "Workload.kueue.x-k8s.io": 10,
    "LocalQueue.kueue.x-k8s.io": 5,
    "ClusterQueue.kueue.x-k8s.io": 5,
    "ResourceFlavor.kueue.x-k8s.io": 1,
}
# The chart's default since 1.4, in which requests use TCP and events ZMQ. It was True before.
# Source: https://github.com/ai-dynamo/dynamo/pull/11951
DYNAMO_VALUES: Mapping[str, Any] = {"global": {"nats": {"install": False}}}
_NATS_CLASS = "nats.config.jetstream.fileStore.pvc.storageClassName"


@named_arguments
class Kueue(Construct):
    """Kueue's controller. A job waits, without pods, until its queue has the quota for all of them at once.

    While the controller's webhook doesn't answer, the API server rejects every job, with or without a queue. So Kueue
    ignores jobs in the namespaces of this library's charts, which run jobs during their installation. Jobs of the same
    stack are applied after Kueue.

    Source: https://kueue.sigs.k8s.io/docs/

    Args:
        cluster: Cluster to install into. It needs a kubectl provider.
        ready_minutes: Max time until all pods of an admitted job run, including the launch of nodes. After that the job
            returns to its queue, so that two jobs with half of their pods never wait for each other.
        fair_sharing: Whether teams that have borrowed less come first.
        unmanaged_namespaces: Additional namespaces in which Kueue ignores jobs, for example of your own charts that run
            jobs during their installation.
        values: Values of the chart that override the library's values, e.g. for an image of your own registry.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster has no kubectl provider, or already has Kueue from this library.

    Attributes:
        chart: The Helm release. Queues depend on it.
        unmanaged: Namespaces in which Kueue ignores jobs.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        ready_minutes: int = 45,
        fair_sharing: bool = True,
        unmanaged_namespaces: Sequence[str] = (),
        values: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        refuse_unless_whole_number(who, "ready_minutes", ready_minutes, least=1, most=INT32 // 60)
        refuse_unless_bool(who, "fair_sharing", fair_sharing)
        others = words(who, "unmanaged_namespaces", unmanaged_namespaces)
        for each in others:
            refuse_unless_object_name(who, "unmanaged_namespaces", each)
        ref.claim(who, "queueing system", why="both decide when a job may start")
        self.unmanaged = frozenset((KUBE_SYSTEM, *NAMESPACES.values(), *others))
        self.chart = install_helm_chart(
            self,
            "Resource",
            cluster=ref,
            chart=KUEUE,
            namespace=_NAMESPACE,
            create_namespace=True,
            values=kueue_values(ready_minutes=ready_minutes, fair_sharing=fair_sharing, unmanaged=self.unmanaged),
            user_values=values,
        )
        ref.jobs.serve(apply_before(self.chart))


def kueue_values(*, ready_minutes: int, fair_sharing: bool, unmanaged: Iterable[str]) -> Mapping[str, Any]:
    """Return the values of the chart, in which the controller's configuration is one string.

    Source: kubernetes-sigs/kueue v0.19.2 charts/kueue/values.yaml
    """
    config: dict[str, Any] = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": ":8081"},
        "metrics": {"bindAddress": ":8443"},
        "webhook": {"port": 9443},
        "leaderElection": {"leaderElect": True, "resourceName": "c1f6bfd2.kueue.x-k8s.io"},
        "controller": {"groupKindConcurrency": _CONCURRENCY},
        "managedJobsNamespaceSelector": {
            "matchExpressions": [{"key": NAMESPACE_NAME, "operator": "NotIn", "values": sorted(unmanaged)}]
        },
        "waitForPodsReady": {"timeout": f"{ready_minutes}m", "blockAdmission": False},
        "integrations": {"frameworks": list(_FRAMEWORKS)},
    }
    if fair_sharing:
        config["fairSharing"] = {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]}
    return {"managerConfig": {"controllerManagerConfigYaml": to_yaml(config, width=80)}}


@named_arguments
class _Operator(Construct):
    """A controller that consists of its chart."""

    _release: ClassVar[Chart]
    _values: ClassVar[Mapping[str, Any] | None] = None

    def __init__(
        self, scope: Construct, id: str, *, cluster: AnyCluster, values: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        self._refuse_values(who, values)
        ref.claim(who, release_claim(self._release.name), why="a release has one owner")
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
        """Reject values of the chart with which the controller couldn't start."""


class JobSets(_Operator):
    """The controller of JobSet: several Jobs that start and fail together, as distributed training does.

    Args:
        cluster: Cluster to install into. It needs a kubectl provider.
        values: Values of the chart.

    Raises:
        TypeError: ``cluster`` isn't a cluster of ``aws_eks_v2``.
        ValueError: The cluster has no kubectl provider, or already has the controller from this library.

    Attributes:
        chart: The release.
    """

    _release = JOBSET


class LeaderWorkerSets(_Operator):
    """The controller of LeaderWorkerSet: groups of pods that serve one model over several nodes.

    Args:
        cluster: Cluster to install into. It needs a kubectl provider.
        values: Values of the chart.

    Raises:
        TypeError: ``cluster`` isn't a cluster of ``aws_eks_v2``.
        ValueError: The cluster has no kubectl provider, or already has the controller from this library.

    Attributes:
        chart: The release.
    """

    _release = LEADER_WORKER_SET


class KubeRay(_Operator):
    """The operator of Ray: clusters, jobs and services.

    Args:
        cluster: Cluster to install into. It needs a kubectl provider.
        values: Values of the chart.

    Raises:
        TypeError: ``cluster`` isn't a cluster of ``aws_eks_v2``.
        ValueError: The cluster has no kubectl provider, or already has the operator from this library.

    Attributes:
        chart: The release.
    """

    _release = KUBERAY


class Dynamo(_Operator):
    """NVIDIA's Dynamo platform: the operator that serves one model over many GPUs.

    You apply its graphs (``DynamoGraphDeployment``) yourself, because their schema still changes between releases. It
    is installed without NATS, which graphs no longer need. To install NATS, set a storage class for its volume.

    Args:
        cluster: Cluster to install into. It needs a kubectl provider.
        values: Values of the chart that override the library's values.

    Raises:
        TypeError: ``cluster`` isn't a cluster of ``aws_eks_v2``.
        ValueError: The cluster has no kubectl provider, or already has the platform from this library, or ``values``
            install NATS without a storage class for its volume.

    Attributes:
        chart: The release.
    """

    _release = DYNAMO
    _values: ClassVar[Mapping[str, Any] | None] = DYNAMO_VALUES

    @staticmethod
    def _refuse_values(who: object, values: object) -> None:
        volume = find_value(values, "nats", "config", "jetstream", "fileStore", "pvc")
        claimed = find_value(volume, "enabled") is not False and not find_value(volume, "storageClassName")
        if find_value(values, "global", "nats", "install") is True and claimed:
            raise ValueError(
                f"{who}: values must name {_NATS_CLASS} with global.nats.install=True, got none; set it, because EKS "
                "sets no default class and NATS would stay Pending"
            )

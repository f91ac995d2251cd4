"""Signals for the scaling of GPU pods, and their servers: metrics-server and the Prometheus adapter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from constructs import Construct

from gpu_constructs.installing import eks_resources
from gpu_constructs.installing.cluster_ref import AnyCluster, ClusterRef, cluster_ref
from gpu_constructs.installing.delivery import install_helm_chart
from gpu_constructs.installing.eks_resources import set_logical_id
from gpu_constructs.installing.registry import PathOf
from gpu_constructs.metrics.dcgm_exporter import (
    FB_FREE,
    FB_USED,
    GPU_UTIL,
    MEMORY_RECORD,
    SM_ACTIVE,
    SM_RECORD,
    UTILIZATION_RECORD,
)
from gpu_constructs.metrics.prometheus_stack import NAMESPACE, PrometheusStack
from gpu_facts.charts import METRICS_SERVER
from gpu_facts.hardware.regions import refuse_unless_region
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import is_token, refuse_unless_whole_number
from gpu_facts.versions import PROMETHEUS_ADAPTER

_METRICS_SERVER = "metrics server"
_QUEUE_URL = re.compile(r"https://sqs\.[\w.-]+/\d{12}/[\w.-]+", re.ASCII)
_MAX_PERCENT = 100


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class GpuUtilization:
    """The mean use of each pod's GPUs, in percent of time in which at least one kernel ran.

    It shows that a GPU is in use, not that it is fully used. Prefer `Demand` if you have such a metric, or
    `SmActivity`.

    Attributes:
        percent: Use above which pods are added, 1 to 100.

    Raises:
        TypeError: ``percent`` isn't an integer.
        ValueError: It isn't a percentage.
    """

    percent: int = 70

    # DCGM fields that measure it, and the name of Prometheus' record of it.
    fields: ClassVar[tuple[str, ...]] = (GPU_UTIL,)
    record: ClassVar[str] = UTILIZATION_RECORD

    def __post_init__(self) -> None:
        _refuse_unless_percent("gpu utilization", self.percent)

    def query(self, pods: str) -> str:
        """Return the sum over pods. Each pod counts once, for any number of GPUs."""
        return f"sum(avg by (exported_namespace, exported_pod) ({GPU_UTIL}{{{pods}}}))"


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class SmActivity:
    """The mean activity of the multiprocessors of each pod's GPUs, in percent of time in which one had a warp.

    At 80 a kernel may use the whole GPU. Below 50 none does. The exporter must report ``DCGM_FI_PROF_SM_ACTIVE``, as it
    does by default.

    Source: https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/feature-overview.html#metrics

    Attributes:
        percent: Activity above which pods are added, 1 to 100.

    Raises:
        TypeError: ``percent`` isn't an integer.
        ValueError: It isn't a percentage.
    """

    percent: int = 70

    # DCGM fields that measure it, and the name of Prometheus' record of it.
    fields: ClassVar[tuple[str, ...]] = (SM_ACTIVE,)
    record: ClassVar[str] = SM_RECORD

    def __post_init__(self) -> None:
        _refuse_unless_percent("sm activity", self.percent)

    def query(self, pods: str) -> str:
        """Return the sum over pods. Each pod counts once, for any number of GPUs."""
        return f"sum(100 * avg by (exported_namespace, exported_pod) ({SM_ACTIVE}{{{pods}}}))"


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class GpuMemory:
    """The memory in use on the fullest GPU of each pod, in percent.

    Servers such as vLLM allocate nearly all memory at start, so with this signal they would only scale up.

    Attributes:
        percent: Use above which pods are added, 1 to 100.

    Raises:
        TypeError: ``percent`` isn't an integer.
        ValueError: It isn't a percentage.
    """

    percent: int = 85

    # DCGM fields that measure it, and the name of Prometheus' record of it.
    fields: ClassVar[tuple[str, ...]] = (FB_USED, FB_FREE)
    record: ClassVar[str] = MEMORY_RECORD

    def __post_init__(self) -> None:
        _refuse_unless_percent("gpu memory", self.percent)

    def query(self, pods: str) -> str:
        """Return the sum over pods. Each pod counts by its fullest GPU."""
        used, free = f"{FB_USED}{{{pods}}}", f"{FB_FREE}{{{pods}}}"
        return f"sum(max by (exported_namespace, exported_pod) (100 * {used} / ({used} + {free})))"


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class CpuUtilization:
    """The mean use of CPU, in percent of the pods' requests.

    It needs neither DCGM nor Prometheus, but doesn't show the use of a GPU: a server that waits for its GPU uses no
    CPU.

    Attributes:
        percent: Use above which pods are added. It may be above 100 if pods may use more than they request.

    Raises:
        TypeError: ``percent`` isn't an integer.
        ValueError: It is below 1.
    """

    percent: int = 70

    def __post_init__(self) -> None:
        refuse_unless_whole_number("cpu utilization", "percent", self.percent, least=1, fix="write 70 for 70 percent")


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Demand:
    """Pending work, measured by Prometheus: requests in a queue, sessions, tokens to produce.

    Attributes:
        query: PromQL that returns one number for all pods together, e.g.
            ``sum(vllm:num_requests_waiting{namespace="chat"})``.
        per_pod: Amount for one pod.
        wakes_at: Amount that starts the first pod if there is none.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: ``query`` is empty, or a number is below 1.
    """

    query: str
    per_pod: int
    wakes_at: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.query, str):
            raise TypeError(f"demand: query must be PromQL, got {self.query!r}; write it as a string")
        if not self.query.strip():
            raise ValueError(f"demand: query must be PromQL, got {self.query!r}; write a query that returns one number")
        refuse_unless_whole_number("demand", "per_pod", self.per_pod, least=1)
        refuse_unless_whole_number("demand", "wakes_at", self.wakes_at, least=1)


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class SqsQueue:
    """Messages in an SQS queue. KEDA needs access to read it: ``Keda(sqs_queue_arns=...)``.

    Attributes:
        url: URL of the queue.
        region: Its region.
        per_pod: Number of messages for one pod.
        wakes_at: Number of messages that starts the first pod if there is none.

    Raises:
        TypeError: A number isn't an integer.
        ValueError: ``url`` isn't the URL of a queue, ``region`` isn't a region, or a number is below 1.
    """

    url: str
    region: str
    per_pod: int
    wakes_at: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.url, str) or not (is_token(self.url) or _QUEUE_URL.fullmatch(self.url)):
            raise ValueError(f"sqs queue: url must be the URL of a queue, got {self.url!r}; write 'https://sqs...'")
        refuse_unless_region("sqs queue", "region", self.region)
        refuse_unless_whole_number("sqs queue", "per_pod", self.per_pod, least=1)
        refuse_unless_whole_number("sqs queue", "wakes_at", self.wakes_at, least=1)


# Signals that are measured on the GPUs of a pod.
GpuUse = GpuUtilization | GpuMemory | SmActivity
Signal = GpuUse | CpuUtilization | Demand | SqsQueue


def _refuse_unless_percent(who: str, percent: object) -> None:
    refuse_unless_whole_number(who, "percent", percent, least=1, fix="write a percentage, 70 and not 0.7")
    if isinstance(percent, int) and percent > _MAX_PERCENT:
        raise ValueError(f"{who}: percent must be at most {_MAX_PERCENT}, got {percent}; lower it")


@named_arguments
class MetricsServer(Construct):
    """The EKS add-on ``metrics-server``.

    A cluster of this app gets it with the first `VerticalPodAutoscaler` or `CpuUtilization`. Create it before them to
    set its version, or for an imported cluster without it. Two would conflict over one API.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/community-addons.html

    Args:
        cluster: Cluster to install into.
        version: Version of the add-on, e.g. ``v0.8.0-eksbuild.2``. Default: the default of EKS.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster already has it from this library.

    Attributes:
        resource: The add-on.
    """

    def __init__(self, scope: Construct, id: str, *, cluster: AnyCluster, version: str | None = None) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster)
        if version is not None and (not isinstance(version, str) or not version):
            raise TypeError(f"{who}: version must be a string, got {version!r}; write one such as 'v0.8.0-eksbuild.2'")
        ref.claim(who, _METRICS_SERVER, why="both provide the API of resource metrics")
        self.resource = eks_resources.CfnAddon(
            self,
            "Resource",
            addon_name=METRICS_SERVER,
            addon_version=version,
            cluster_name=ref.name_token,
            # The template takes precedence over manual changes in the cluster.
            resolve_conflicts="OVERWRITE",
        )
        ref.software.addons[METRICS_SERVER] = {}
        # Its pods need nodes.
        set_logical_id(self.resource, ref, "Addon", METRICS_SERVER)
        ref.wait_for_foundation(cast("Construct", self.resource))


def install_metrics_server(cluster: ClusterRef) -> None:
    """Install it once into a cluster of this app. An imported one may have its own, which the app can't detect."""
    made_here = cluster.auto_mode is not None
    if made_here and cluster.holder(_METRICS_SERVER) is None:
        MetricsServer(cluster.shared(cluster.stack), "MetricsServer", cluster=cluster.cluster)


@named_arguments
class PrometheusAdapter(Construct):
    """The adapter with the two records of GPUs. It is the only provider of the API of custom metrics.

    Args:
        cluster: Cluster to install into. It needs a kubectl provider.
        prometheus: Prometheus of this app, with the rules of a `DcgmExporter`.
        values: Values of the chart that override the library's values, e.g. for an image of your own registry.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster has no kubectl provider, or already has the adapter from this library.

    Attributes:
        chart: The release.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        prometheus: PrometheusStack,
        values: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        if not isinstance(prometheus, PrometheusStack):
            raise TypeError(
                f"{who}: prometheus must be a PrometheusStack, got {prometheus!r}; create PrometheusStack(stack, ...)"
            )
        ref.claim(who, PROMETHEUS_ADAPTER.name, why="both provide the API of custom metrics")
        self.chart = install_helm_chart(
            self,
            "Resource",
            cluster=ref,
            chart=PROMETHEUS_ADAPTER,
            namespace=NAMESPACE,
            values=adapter_values(prometheus.url),
            user_values=values,
        )
        self.chart.node.add_dependency(prometheus.chart)


def adapter_values(url: str) -> Mapping[str, Any]:
    """Return the values of the chart, without external metrics, which KEDA provides.

    Source: prometheus-community/helm-charts prometheus-adapter 5.3.0 values.yaml
    """
    address, _, port = url.rpartition(":")
    rules = [_rule(record) for record in (UTILIZATION_RECORD, MEMORY_RECORD, SM_RECORD)]
    return {
        "prometheus": {"url": address, "port": int(port)},
        "rules": {"default": False, "custom": rules},
        # As the chart suggests. It sets none, and the kubelet evicts pods without requests first.
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
    }


def _rule(record: str) -> dict[str, Any]:
    overrides = {name: {"resource": name} for name in ("namespace", "pod")}
    return {
        "seriesQuery": f'{record}{{namespace!="",pod!=""}}',
        "resources": {"overrides": overrides},
        "name": {"as": record},
        "metricsQuery": "avg(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)",
    }

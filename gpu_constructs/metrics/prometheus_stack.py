"""Prometheus, Alertmanager and Grafana in the cluster, or Amazon Managed Prometheus."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aws_cdk as cdk
from constructs import Construct

from gpu_constructs.installing.cluster_ref import AnyCluster, cluster_ref
from gpu_constructs.installing.delivery import apply_manifests, find_value, install_helm_chart
from gpu_constructs.installing.pod_identity import PodIdentity, policy_document
from gpu_constructs.installing.registry import PathOf
from gpu_constructs.workloads.deployments import GpuDeployment
from gpu_facts.charts import KUBE_STATE_METRICS, NAMESPACES
from gpu_facts.hardware.regions import refuse_unless_region
from gpu_facts.kubernetes import refuse_unless_object_name
from gpu_facts.labels import APP_NAME
from gpu_facts.named_arguments import named_arguments, named_call
from gpu_facts.refusals import is_token, refuse_unless_whole_number
from gpu_facts.versions import KUBE_PROMETHEUS_STACK

NAMESPACE = NAMESPACES[KUBE_PROMETHEUS_STACK.name]
# Set explicitly, because a role refers to it.
_SERVICE_ACCOUNT = "prometheus"
_TAKEN_UP = ("serviceMonitor", "podMonitor", "probe", "scrapeConfig", "rule")
_WORKSPACE = re.compile(r"arn:[\w-]+:aps:[\w-]+:\d{12}:workspace/ws-[\w-]+", re.ASCII)
_URL = re.compile(r"https://aps-workspaces\.[\w-]+\.amazonaws\.com/workspaces/ws-[\w-]+/?", re.ASCII)


@named_arguments
class PrometheusStack(Construct):
    """The chart kube-prometheus-stack, which scrapes targets and evaluates rules that objects in the cluster define.

    Args:
        cluster: Cluster to install into. It needs a kubectl provider.
        storage_gib: Size of Prometheus' volume, in GiB, or 0 for a volume that is deleted with its pod.
        storage_class: Storage class of that volume. EKS sets no default class, and without a class the volume stays
            Pending.
        retention_days: Time for which metrics are kept, in days.
        workspace_arn: Workspace of Amazon Managed Service for Prometheus to which it also sends all metrics. Default:
            none.
        values: Values of the chart that override the library's values, e.g. for an image of your own registry.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster has no kubectl provider, or already has Prometheus from this library.

    Attributes:
        url: URL of Prometheus inside the cluster.
        chart: The Helm release. Constructs that create Prometheus' objects depend on it.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        storage_gib: int = 0,
        storage_class: str | None = None,
        retention_days: int = 15,
        workspace_arn: str | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        refuse_unless_whole_number(who, "storage_gib", storage_gib, least=0)
        refuse_unless_whole_number(who, "retention_days", retention_days, least=1)
        if storage_gib and storage_class is None:
            raise ValueError(
                f"{who}: storage_class must be given with storage_gib={storage_gib}, got None; pass one, because EKS "
                "sets no default class and Prometheus would stay Pending"
            )
        if storage_class is not None:
            refuse_unless_object_name(who, "storage_class", storage_class)
        sends = None if workspace_arn is None else RemoteWrite.to(self, who, workspace_arn)
        ref.claim(who, "Prometheus", why="both are the helm release 'kube-prometheus-stack'")

        self._cluster = ref
        # The chart's service has the release's name.
        self.url = f"http://{KUBE_PROMETHEUS_STACK.name}-prometheus.{NAMESPACE}.svc:9090"
        self.chart = install_helm_chart(
            self,
            "Resource",
            cluster=ref,
            chart=KUBE_PROMETHEUS_STACK,
            namespace=NAMESPACE,
            create_namespace=True,
            values=stack_values(
                storage_gib=storage_gib, storage_class=storage_class, retention_days=retention_days, sends=sends
            ),
            user_values=values,
            own_definitions=find_value(values, "crds", "enabled") is not False,
        )
        if sends is not None:
            identity = PodIdentity(
                self,
                "Identity",
                cluster=ref,
                namespace=NAMESPACE,
                service_account=_SERVICE_ACCOUNT,
                policies={"Send": policy_document([sends.statement()])},
            )
            self.chart.node.add_dependency(identity)

    @named_call
    def scrape(self, deployment: GpuDeployment, *, path: str = "/metrics") -> None:
        """Scrape the metrics that the pods of a deployment serve on its port, such as vLLM's waiting requests.

        Args:
            deployment: The deployment.
            path: HTTP path of the metrics.

        Raises:
            TypeError: ``deployment`` isn't a `GpuDeployment`.
            ValueError: ``path`` is invalid.
        """
        who = PathOf(self)
        if not isinstance(deployment, GpuDeployment):
            raise TypeError(f"{who}: deployment must be a GpuDeployment, got {deployment!r}; pass the construct")
        if not isinstance(path, str) or not path.startswith("/"):
            raise ValueError(f"{who}: path must begin with '/', got {path!r}; write '/metrics'")
        monitor = {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "ServiceMonitor",
            "metadata": {"name": deployment.name, "namespace": deployment.namespace},
            "spec": {
                "selector": {"matchLabels": {APP_NAME: deployment.name}},
                "endpoints": [{"port": "http", "path": path}],
            },
        }
        applied = apply_manifests(deployment, "ServiceMonitor", cluster=self._cluster, manifests=[monitor])
        applied.node.add_dependency(self.chart)


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class RemoteWrite:
    """Workspace to which Prometheus sends its metrics.

    Source: https://docs.aws.amazon.com/prometheus/latest/userguide/AMP-onboard-ingest-metrics-new-Prometheus.html

    Attributes:
        arn: ARN of the workspace.
        region: Its region.
        workspace: Its id.
    """

    arn: str
    region: str
    workspace: str

    @staticmethod
    def to(scope: Construct, who: object, arn: object) -> RemoteWrite:
        """Return the parts of an ARN, which may be known only at deployment.

        Raises:
            ValueError: ``arn`` isn't the ARN of a workspace.
        """
        if not isinstance(arn, str) or not (is_token(arn) or _WORKSPACE.fullmatch(arn)):
            raise ValueError(
                f"{who}: workspace_arn must be the ARN of a workspace, got {arn!r}; write "
                "'arn:aws:aps:<region>:<account>:workspace/ws-...'"
            )
        parts = cdk.Stack.of(scope).split_arn(arn, cdk.ArnFormat.SLASH_RESOURCE_NAME)
        return RemoteWrite(arn=arn, region=str(parts.region), workspace=str(parts.resource_name))

    def statement(self) -> dict[str, Any]:
        """Return the permission to send."""
        return {"Sid": "Send", "Effect": "Allow", "Action": "aps:RemoteWrite", "Resource": self.arn}

    def values(self) -> dict[str, Any]:
        """Return the chart values for remote write."""
        address = f"https://aps-workspaces.{self.region}.amazonaws.com/workspaces/{self.workspace}/api/v1/remote_write"
        return {"remoteWrite": [{"url": address, "sigv4": {"region": self.region}}]}


def stack_values(
    *, storage_gib: int, storage_class: str | None, retention_days: int, sends: RemoteWrite | None = None
) -> Mapping[str, Any]:
    """Return the values of the chart.

    Source: prometheus-community/helm-charts kube-prometheus-stack 88.5.3 values.yaml
    """
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": f"{storage_gib}Gi"}}}
    named = claim | ({"storageClassName": storage_class} if storage_class is not None else {})
    storage = {"storageSpec": {"volumeClaimTemplate": {"spec": named}}} if storage_gib else {}
    return {
        "prometheus": {
            "prometheusSpec": {
                # By default it reads only objects with its release label.
                **{f"{what}SelectorNilUsesHelmValues": False for what in _TAKEN_UP},
                "retention": f"{retention_days}d",
                "resources": _asks(memory="400Mi"),
                **storage,
                **(sends.values() if sends is not None else {}),
            },
            **({"serviceAccount": {"name": _SERVICE_ACCOUNT}} if sends is not None else {}),
        },
        "prometheusOperator": {"resources": _asks(cpu="100m", memory="100Mi")},
        KUBE_STATE_METRICS: {"resources": _asks(cpu="10m", memory="32Mi")},
        "grafana": {
            "resources": _asks(cpu="100m", memory="128Mi"),
            # Dashboards are read from every namespace.
            "sidecar": {"dashboards": {"enabled": True, "searchNamespace": "ALL"}},
        },
        # EKS doesn't expose these parts of the control plane.
        **{part: {"enabled": False} for part in ("kubeControllerManager", "kubeEtcd", "kubeScheduler")},
    }


def _asks(**requests: str) -> dict[str, Any]:
    """Return the requests that charts suggest. They set none, and the kubelet evicts pods without requests first."""
    return {"requests": requests}


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class ManagedPrometheus:
    """Workspace from which KEDA reads metrics. KEDA needs access: ``Keda(prometheus_workspace_arns=[...])``.

    Source: https://keda.sh/docs/2.20/scalers/prometheus/

    Attributes:
        url: Endpoint of the workspace, ``https://aps-workspaces.<region>.amazonaws.com/workspaces/ws-...``.
        region: Its region.

    Raises:
        ValueError: ``url`` isn't the endpoint of a workspace, or ``region`` isn't a region.
    """

    url: str
    region: str

    def __post_init__(self) -> None:
        if not isinstance(self.url, str) or not (is_token(self.url) or _URL.fullmatch(self.url)):
            raise ValueError(
                f"managed prometheus: url must be the endpoint of a workspace, got {self.url!r}; write "
                "'https://aps-workspaces.us-east-1.amazonaws.com/workspaces/ws-...'"
            )
        refuse_unless_region("managed prometheus", "region", self.region)

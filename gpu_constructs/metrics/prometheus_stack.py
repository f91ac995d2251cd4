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
from gpu_constructs.workloads.gpu_deployment import GpuDeployment
from gpu_facts.charts import KUBE_STATE_METRICS, NAMESPACES
from gpu_facts.hardware.regions import refuse_unless_region
from gpu_facts.kubernetes import refuse_unless_object_name
from gpu_facts.labels import APP_NAME
from gpu_facts.named_arguments import named_arguments, named_call
from gpu_facts.refusals import is_token, refuse_unless_whole_number
from gpu_facts.versions import KUBE_PROMETHEUS_STACK

NAMESPACE = NAMESPACES[KUBE_PROMETHEUS_STACK.name]
# Named here where a role belongs to it.
_SERVICE_ACCOUNT = "prometheus"
_TAKEN_UP = ("serviceMonitor", "podMonitor", "probe", "scrapeConfig", "rule")
_WORKSPACE = re.compile(r"arn:[\w-]+:aps:[\w-]+:\d{12}:workspace/ws-[\w-]+", re.ASCII)
_URL = re.compile(r"https://aps-workspaces\.[\w-]+\.amazonaws\.com/workspaces/ws-[\w-]+/?", re.ASCII)


@named_arguments
class PrometheusStack(Construct):
    """The chart kube-prometheus-stack, which scrapes and evaluates whatever the cluster's objects ask for.

    Args:
        cluster: Cluster to install into; needs a kubectl provider.
        storage_gib: Volume of Prometheus, in GiB; 0 for one that is lost with its pod.
        storage_class: Storage class of that volume. EKS makes no default one, and a volume without waits for ever.
        retention_days: How long metrics stay.
        workspace_arn: Workspace of Amazon Managed Service for Prometheus to which it sends all of them too.
            Default: none.
        values: Values of the chart, laid over ours, e.g. for an image of your own registry.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster has no kubectl provider, or has Prometheus from this library.

    Attributes:
        url: Where Prometheus answers inside the cluster.
        chart: The release; what uses Prometheus' objects depends on it.
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
                f"{who}: storage_class must be given with storage_gib={storage_gib}, got None; EKS makes no default "
                "class, and Prometheus would stay Pending"
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
        """Read the metrics that the pods of a deployment offer on its port, such as vLLM's waiting requests.

        Args:
            deployment: The deployment.
            path: HTTP path of the metrics.

        Raises:
            TypeError: ``deployment`` is no `GpuDeployment`.
            ValueError: ``path`` is none.
        """
        who = PathOf(self)
        if not isinstance(deployment, GpuDeployment):
            raise TypeError(f"{who}: deployment must be a GpuDeployment, got {deployment!r}")
        if not isinstance(path, str) or not path.startswith("/"):
            raise ValueError(f"{who}: path must begin with '/', got {path!r}")
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
    """Where Prometheus sends its metrics.

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
        """Return what an ARN says; it may be known at deployment only.

        Raises:
            ValueError: ``arn`` is none of a workspace.
        """
        if not isinstance(arn, str) or not (is_token(arn) or _WORKSPACE.fullmatch(arn)):
            raise ValueError(
                f"{who}: workspace_arn must be one of a workspace, 'arn:aws:aps:<region>:<account>:workspace/ws-...', "
                f"got {arn!r}"
            )
        parts = cdk.Stack.of(scope).split_arn(arn, cdk.ArnFormat.SLASH_RESOURCE_NAME)
        return RemoteWrite(arn=arn, region=str(parts.region), workspace=str(parts.resource_name))

    def statement(self) -> dict[str, Any]:
        """Return the permission to send."""
        return {"Sid": "Send", "Effect": "Allow", "Action": "aps:RemoteWrite", "Resource": self.arn}

    def values(self) -> dict[str, Any]:
        """Return what Prometheus must be told."""
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
                # Otherwise it takes up only objects with the label of its own release.
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
            # Dashboards are taken from every namespace.
            "sidecar": {"dashboards": {"enabled": True, "searchNamespace": "ALL"}},
        },
        # Of the control plane EKS shows none of these.
        **{part: {"enabled": False} for part in ("kubeControllerManager", "kubeEtcd", "kubeScheduler")},
    }


def _asks(**requests: str) -> dict[str, Any]:
    """Return requests as the charts suggest them; they set none, and the kubelet evicts pods without first."""
    return {"requests": requests}


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class ManagedPrometheus:
    """Where KEDA measures signals, which must be allowed to: ``Keda(prometheus_workspace_arns=[...])``.

    Source: https://keda.sh/docs/2.20/scalers/prometheus/

    Attributes:
        url: Endpoint of the workspace, ``https://aps-workspaces.<region>.amazonaws.com/workspaces/ws-...``.
        region: Its region.

    Raises:
        ValueError: ``url`` is no endpoint of a workspace, or ``region`` no region.
    """

    url: str
    region: str

    def __post_init__(self) -> None:
        if not isinstance(self.url, str) or not (is_token(self.url) or _URL.fullmatch(self.url)):
            raise ValueError(
                "managed prometheus: url must be one such as "
                f"'https://aps-workspaces.us-east-1.amazonaws.com/workspaces/ws-...', got {self.url!r}"
            )
        refuse_unless_region("managed prometheus", "region", self.region)

"""KEDA: scales pods by what waits, down to none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from constructs import Construct

from gpu_constructs.installing.cluster_ref import AnyCluster, cluster_ref
from gpu_constructs.installing.delivery import install_helm_chart
from gpu_constructs.installing.pod_identity import PodIdentity, policy_document
from gpu_constructs.installing.registry import PathOf
from gpu_facts.charts import KEDA_OPERATOR, NAMESPACES
from gpu_facts.labels import OUR_DOMAIN
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import words
from gpu_facts.versions import KEDA

NAMESPACE = NAMESPACES[KEDA.name]
# EKS sets the variables of a role in containers when it creates a pod. So pods that run get the role only if another
# annotation replaces them.
# Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_CreatePodIdentityAssociation.html (2026-11)
_WITH_ROLE = {f"{OUR_DOMAIN}/role": "true"}


@named_arguments
class Keda(Construct):
    """KEDA with the permissions to read the queues and workspaces that pods are scaled by.

    It takes over the API of external metrics, of which a cluster has one provider.

    Source: https://keda.sh/docs/2.20/

    Args:
        cluster: Cluster to install into; needs a kubectl provider.
        sqs_queue_arns: SQS queues whose length it may read.
        prometheus_workspace_arns: Workspaces of Amazon Managed Prometheus that it may query.
        values: Values of the chart, laid over ours, e.g. for an image of your own registry.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster has no kubectl provider, or has KEDA from this library.

    Attributes:
        chart: The release; what uses KEDA's objects depends on it.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        sqs_queue_arns: Sequence[str] = (),
        prometheus_workspace_arns: Sequence[str] = (),
        values: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        queues = words(who, "sqs_queue_arns", sqs_queue_arns)
        workspaces = words(who, "prometheus_workspace_arns", prometheus_workspace_arns)
        ref.claim(who, "KEDA", why="both provide the API of external metrics")

        statements = _statements(queues, workspaces)
        self.chart = install_helm_chart(
            self,
            "Resource",
            cluster=ref,
            chart=KEDA,
            namespace=NAMESPACE,
            create_namespace=True,
            values=keda_values(has_role=bool(statements)),
            user_values=values,
        )
        if statements:
            identity = PodIdentity(
                self,
                "Identity",
                cluster=ref,
                namespace=NAMESPACE,
                service_account=KEDA_OPERATOR,
                policies={"ReadSignals": policy_document(statements)},
            )
            self.chart.node.add_dependency(identity)


def keda_values(*, has_role: bool = False) -> Mapping[str, Any]:
    """Return the values of the chart.

    Source: kedacore/charts keda 2.20.2 values.yaml
    """
    values: dict[str, Any] = {"serviceAccount": {"operator": {"name": KEDA_OPERATOR}}}
    return values | ({"podAnnotations": {KEDA.name: _WITH_ROLE}} if has_role else {})


def _statements(queues: Sequence[str], workspaces: Sequence[str]) -> list[dict[str, Any]]:
    read_queues = {"Sid": "Queues", "Effect": "Allow", "Action": "sqs:GetQueueAttributes", "Resource": list(queues)}
    query = ["aps:GetLabels", "aps:GetMetricMetadata", "aps:GetSeries", "aps:QueryMetrics"]
    read_metrics = {"Sid": "Metrics", "Effect": "Allow", "Action": query, "Resource": list(workspaces)}
    return [statement for statement in (read_queues, read_metrics) if statement["Resource"]]

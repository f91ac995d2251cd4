"""Drains self-managed nodes before EC2 or Auto Scaling takes them away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aws_cdk as cdk
from constructs import Construct

from gpu_constructs.installing.claims import PathOf
from gpu_constructs.installing.cluster_ref import AnyCluster, cluster_ref
from gpu_constructs.installing.delivery import install_helm_chart, refuse_unless_chart_values
from gpu_constructs.installing.pod_identity import PodIdentity, policy_document, string_equals
from gpu_constructs.nodes.interruption_queue import InterruptionQueue, event
from gpu_facts.kubernetes import KUBE_SYSTEM
from gpu_facts.labels import CLUSTER_TAG, POOL
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_whole_number
from gpu_facts.versions import NODE_TERMINATION_HANDLER

NAMESPACE = KUBE_SYSTEM
SERVICE_ACCOUNT = NODE_TERMINATION_HANDLER.name
# On every instance that it may drain.
MANAGED_TAG = f"{NODE_TERMINATION_HANDLER.name}/managed"
# How long Auto Scaling holds an instance for a handler that is not of this app.
DRAIN_SECONDS = 300
_RESERVE_SECONDS = 30
# Source: https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_PutLifecycleHook.html (HeartbeatTimeout)
_MOST_MINUTES = 120

# No rebalance recommendations: each would end a run that EC2 perhaps never interrupts. Auto Scaling replaces such an
# instance itself, and its termination comes here.
# Source: aws/aws-node-termination-handler v1.25.6 README.md
_RULES = {
    "Terminating": event("aws.autoscaling", "EC2 Instance-terminate Lifecycle Action"),
    "SpotInterruption": event("aws.ec2", "EC2 Spot Instance Interruption Warning"),
    "InstanceStateChange": event("aws.ec2", "EC2 Instance State-change Notification"),
    "ScheduledChange": event("aws.health", "AWS Health Event", service=["EC2"], eventTypeCategory=["scheduledChange"]),
}


@named_arguments
class NodeTerminationHandler(Construct):
    """aws-node-termination-handler, which drains the nodes of every `SelfManagedNodeGroup` of the cluster.

    It learns from a queue that an instance is about to be scaled in, interrupted or retired, drains its node and then
    lets it go. Managed node groups and Karpenter do so by themselves and need none. The cluster needs the add-on
    ``eks-pod-identity-agent``.

    Source: https://github.com/aws/aws-node-termination-handler/tree/v1.25.6

    Args:
        cluster: Cluster to install into; needs a kubectl provider.
        drain_minutes: How long a node may take to drain, for example while its pods write a checkpoint. Spot gives two
            minutes whatever is said here.
        values: Values of the chart, laid over ours, e.g. for an image of your own registry.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster has no kubectl provider, or has one already.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        drain_minutes: int = 5,
        values: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        refuse_unless_whole_number(who, "drain_minutes", drain_minutes, least=1, most=_MOST_MINUTES)
        refuse_unless_chart_values(who, values)
        self.drain_seconds = drain_minutes * 60
        ref.claim(who, "node termination handler", why="both are the helm release 'aws-node-termination-handler'")
        queue = InterruptionQueue(self, "Events", rules=_RULES, target_id="NodeTerminationHandlerQueue")
        stack = cdk.Stack.of(self)
        owned = string_equals(self, "OwnedGroups", {f"aws:ResourceTag/{CLUSTER_TAG}{ref.name}": "owned"})
        identity = PodIdentity(
            self,
            "Identity",
            cluster=ref,
            namespace=NAMESPACE,
            service_account=SERVICE_ACCOUNT,
            policies={
                "Drain": policy_document(
                    _statements(
                        queue_arn=queue.arn,
                        groups=f"arn:{stack.partition}:autoscaling:{stack.region}:{stack.account}:autoScalingGroup:*",
                        owned=owned,
                    )
                )
            },
        )
        self.chart = install_helm_chart(
            self,
            "Resource",
            cluster=ref,
            chart=NODE_TERMINATION_HANDLER,
            namespace=NAMESPACE,
            values=handler_values(queue_url=queue.url, region=stack.region, drain_seconds=self.drain_seconds),
            user_values=values,
        )
        for needed in (identity, queue):
            self.chart.node.add_dependency(needed)


def handler_values(*, queue_url: str, region: str, drain_seconds: int) -> Mapping[str, Any]:
    """Return the values of the chart.

    Source: aws/aws-node-termination-handler v1.25.6 config/helm/aws-node-termination-handler/values.yaml
    """
    not_on_gpu_nodes = {"matchExpressions": [{"key": POOL, "operator": "DoesNotExist"}]}
    return {
        "enableSqsTerminationDraining": True,
        "queueURL": queue_url,
        "awsRegion": region,
        "managedTag": MANAGED_TAG,
        # Before Auto Scaling loses patience.
        "nodeTerminationGracePeriod": drain_seconds - _RESERVE_SECONDS,
        "serviceAccount": {"name": SERVICE_ACCOUNT},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [not_on_gpu_nodes]}
            }
        },
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "128Mi"}},
    }


def _statements(*, queue_arn: str, groups: str, owned: object) -> list[dict[str, Any]]:
    return [
        {
            "Sid": "LetGo",
            "Effect": "Allow",
            # The second with `heartbeatInterval` among the values.
            "Action": ["autoscaling:CompleteLifecycleAction", "autoscaling:RecordLifecycleActionHeartbeat"],
            "Resource": f"{groups}:autoScalingGroupName/*",
            "Condition": {"StringEquals": owned},
        },
        {"Sid": "Find", "Effect": "Allow", "Action": "ec2:DescribeInstances", "Resource": "*"},
        {
            "Sid": "Listen",
            "Effect": "Allow",
            "Action": ["sqs:DeleteMessage", "sqs:ReceiveMessage"],
            "Resource": queue_arn,
        },
    ]

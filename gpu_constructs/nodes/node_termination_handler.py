"""The node termination handler of self-managed nodes, and the interruption queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from gpu_constructs.installing.cluster_ref import AnyCluster, cluster_ref
from gpu_constructs.installing.delivery import install_helm_chart, refuse_unless_chart_values
from gpu_constructs.installing.pod_identity import PodIdentity, policy_document, string_equals
from gpu_constructs.installing.registry import PathOf
from gpu_facts.kubernetes import KUBE_SYSTEM
from gpu_facts.labels import CLUSTER_TAG, POOL
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_whole_number
from gpu_facts.versions import NODE_TERMINATION_HANDLER

_RETENTION_SECONDS = 300
_NAMESPACE = KUBE_SYSTEM
_SERVICE_ACCOUNT = NODE_TERMINATION_HANDLER.name
# Tag of every instance that it may drain.
MANAGED_TAG = f"{NODE_TERMINATION_HANDLER.name}/managed"
# Time for which Auto Scaling holds an instance for a handler that isn't part of this app.
DRAIN_SECONDS = 300
_RESERVE_SECONDS = 30
# Source: https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_PutLifecycleHook.html (HeartbeatTimeout)
_MOST_MINUTES = 120


@named_arguments
class InterruptionQueue(Construct):
    """An encrypted queue that accepts messages only over TLS, and the rules that send messages to it.

    Args:
        rules: Event patterns, by construct id of their rule.
        target_id: Name of the queue among a rule's targets.
    """

    def __init__(self, scope: Construct, id: str, *, rules: Mapping[str, Mapping[str, Any]], target_id: str) -> None:
        super().__init__(scope, id)
        self.queue = sqs.CfnQueue(
            self, "Resource", message_retention_period=_RETENTION_SECONDS, sqs_managed_sse_enabled=True
        )
        self.arn: str = self.queue.attr_arn
        targets = [{"id": target_id, "arn": self.arn}]
        made = [
            events.CfnRule(self, name, event_pattern=dict(pattern), targets=targets) for name, pattern in rules.items()
        ]
        document = _policy(self.arn, [rule.attr_arn for rule in made])
        self.policy = sqs.CfnQueuePolicy(self, "Policy", queues=[self.queue.ref], policy_document=document)

    @property
    def name(self) -> str:
        """Name of the queue, known at deployment."""
        return self.queue.attr_queue_name

    @property
    def url(self) -> str:
        """URL of the queue, known at deployment."""
        return self.queue.ref


def event(source: str, detail_type: str, **detail: list[str]) -> dict[str, Any]:
    """Return the pattern of an event."""
    return {"source": [source], "detail-type": [detail_type]} | ({"detail": detail} if detail else {})


def _policy(arn: str, rules: Sequence[str]) -> dict[str, object]:
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "EC2InterruptionPolicy",
                "Effect": "Allow",
                "Principal": {"Service": "events.amazonaws.com"},
                "Action": "sqs:SendMessage",
                "Resource": arn,
                # Only these rules may send messages. A rule of another account can't send a false interruption.
                "Condition": {"ArnEquals": {"aws:SourceArn": list(rules)}},
            },
            {
                "Sid": "DenyHTTP",
                "Effect": "Deny",
                "Principal": "*",
                "Action": "sqs:*",
                "Resource": arn,
                "Condition": {"Bool": {"aws:SecureTransport": "false"}},
            },
        ],
    }


# No rebalance recommendations: each would end a run that EC2 may never interrupt. Auto Scaling replaces such an
# instance itself, and the termination event arrives here.
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

    It reads from a queue that an instance will be scaled in, interrupted or retired. It drains the node and then
    completes the termination. Managed node groups and Karpenter do this themselves and don't need it. The cluster needs
    the add-on ``eks-pod-identity-agent``.

    Source: https://github.com/aws/aws-node-termination-handler/tree/v1.25.6

    Args:
        cluster: Cluster to install into. It needs a kubectl provider.
        drain_minutes: Max time to drain a node, for example while its pods write a checkpoint. Spot always allows only
            two minutes.
        values: Values of the chart that override the library's values, e.g. for an image of your own registry.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster has no kubectl provider, or already has the handler.
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
            namespace=_NAMESPACE,
            service_account=_SERVICE_ACCOUNT,
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
            namespace=_NAMESPACE,
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
        # Less than the timeout of Auto Scaling.
        "nodeTerminationGracePeriod": drain_seconds - _RESERVE_SECONDS,
        "serviceAccount": {"name": _SERVICE_ACCOUNT},
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
            # The chart needs the second action if `heartbeatInterval` is set.
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

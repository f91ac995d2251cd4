"""The resources that ``gpu-constructs doctor`` reads, the calls of AWS that it makes, and the permissions for them.

`DoctorAccess` grants the permissions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from gpu_facts.labels import CLUSTER_TAG
from gpu_facts.light import dataclass

# Name of the ClusterRole.
DOCTOR_ROLE: Final = "gpu-constructs-doctor"
# Resources of the API server that causes read, each with its kind, in the order in which they are fetched.
RESOURCES: Mapping[str, str] = {
    "pods": "Pod",
    "events": "Event",
    "nodes": "Node",
    "namespaces": "Namespace",
    "replicasets.apps": "ReplicaSet",
    "deployments.apps": "Deployment",
    "statefulsets.apps": "StatefulSet",
    "daemonsets.apps": "DaemonSet",
    "jobs.batch": "Job",
    "cronjobs.batch": "CronJob",
    "resourcequotas": "ResourceQuota",
    "limitranges": "LimitRange",
    "priorityclasses.scheduling.k8s.io": "PriorityClass",
    "runtimeclasses.node.k8s.io": "RuntimeClass",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "persistentvolumes": "PersistentVolume",
    "storageclasses.storage.k8s.io": "StorageClass",
    "volumeattachments.storage.k8s.io": "VolumeAttachment",
    "csinodes.storage.k8s.io": "CSINode",
    "poddisruptionbudgets.policy": "PodDisruptionBudget",
    "leases.coordination.k8s.io": "Lease",
    "resourceclaims.resource.k8s.io": "ResourceClaim",
    "resourceslices.resource.k8s.io": "ResourceSlice",
    "deviceclasses.resource.k8s.io": "DeviceClass",
    "horizontalpodautoscalers.autoscaling": "HorizontalPodAutoscaler",
    "scaledobjects.keda.sh": "ScaledObject",
    "nodepools.karpenter.sh": "NodePool",
    "nodeclaims.karpenter.sh": "NodeClaim",
    "ec2nodeclasses.karpenter.k8s.aws": "EC2NodeClass",
    "nodeclasses.eks.amazonaws.com": "NodeClass",
    "jobsets.jobset.x-k8s.io": "JobSet",
    "workloads.kueue.x-k8s.io": "Workload",
    "localqueues.kueue.x-k8s.io": "LocalQueue",
    "clusterqueues.kueue.x-k8s.io": "ClusterQueue",
    "resourceflavors.kueue.x-k8s.io": "ResourceFlavor",
    "admissionchecks.kueue.x-k8s.io": "AdmissionCheck",
    "podgroups.scheduling.run.ai": "PodGroup",
    "queues.scheduling.run.ai": "Queue",
}
# Read by name, because other ConfigMaps may hold secrets.
CONFIG_MAPS = ("cluster-autoscaler-status", "aws-auth", "nvidia-device-plugin-config")


@dataclass(frozen=True, slots=True)
class Call:
    """A call of AWS. The live answer, the script of the CLI and the IAM policy are made from these calls.

    Attributes:
        name: Name of the file of the answer, without ``aws-`` and the suffix.
        command: Service and operation, as the CLI writes them.
        parameters: Parameters, as botocore writes them. ``{cluster}`` is the name of the cluster.
        each: Name of another call, and the JMESPath of values in its answer. The call is made for each of them, as
            ``{each}``; empty for a single call.
        most: Max number of items in the answer; ``None`` for all.
        resource: Last part of the ARN to which IAM can limit the action; empty if the action takes no ARN. Source: the
            pages of each service in https://docs.aws.amazon.com/service-authorization/latest/reference/ (2026-11)
    """

    name: str
    command: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    each: tuple[str, ...] = ()
    most: int | None = None
    resource: str = ""

    @property
    def action(self) -> str:
        """Action of IAM that allows the call."""
        service, operation = self.command.split()
        return f"{_SERVICES.get(service, service)}:{operation.title().replace('-', '')}"


# Services whose name in IAM differs.
_SERVICES = {"service-quotas": "servicequotas"}
_CLUSTER = {"clusterName": "{cluster}"}
_CLUSTER_ARN, _NODEGROUP_ARN = "cluster/{cluster}", "nodegroup/{cluster}/*"
_OWNED = {"Filters": [{"Name": "tag-key", "Values": [f"{CLUSTER_TAG}{{cluster}}"]}]}
_OF_VPC = {"Filters": [{"Name": "vpc-id", "Values": ["{each}"]}]}
_VPC = ("cluster", "cluster.resourcesVpcConfig.vpcId")
# Everything that decides about new nodes. The quotas limit the running On-Demand vCPUs of families P, and G and VT.
# Source: https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html (2026-11)
CALLS = (
    Call("cluster", "eks describe-cluster", {"name": "{cluster}"}, resource=_CLUSTER_ARN),
    Call("access-entries", "eks list-access-entries", _CLUSTER, resource=_CLUSTER_ARN),
    Call("nodegroups", "eks list-nodegroups", _CLUSTER, resource=_CLUSTER_ARN),
    Call(
        "nodegroup-{each}",
        "eks describe-nodegroup",
        {**_CLUSTER, "nodegroupName": "{each}"},
        ("nodegroups", "nodegroups[]"),
        resource=_NODEGROUP_ARN,
    ),
    Call("groups", "autoscaling describe-auto-scaling-groups", _OWNED),
    Call(
        "activities-{each}",
        "autoscaling describe-scaling-activities",
        {"AutoScalingGroupName": "{each}"},
        ("groups", "AutoScalingGroups[].AutoScalingGroupName"),
        most=20,
    ),
    Call("instances", "ec2 describe-instances", _OWNED),
    Call("instance-status", "ec2 describe-instance-status"),
    Call("reservations", "ec2 describe-capacity-reservations"),
    Call("subnets", "ec2 describe-subnets", _OF_VPC, _VPC),
    Call("route-tables", "ec2 describe-route-tables", _OF_VPC, _VPC),
    Call("security-groups", "ec2 describe-security-groups", _OF_VPC, _VPC),
    Call("vpc-endpoints", "ec2 describe-vpc-endpoints", _OF_VPC, _VPC),
    *(
        Call(
            f"quota-{code}",
            "service-quotas get-service-quota",
            {"ServiceCode": "ec2", "QuotaCode": code},
            resource=f"ec2/{code}",
        )
        for code in ("L-417A185B", "L-DB2E81BA")
    ),
)


def rbac_rules() -> list[dict[str, list[str]]]:
    """Return the rules of a ClusterRole that allow each request to the API server."""
    groups: dict[str, list[str]] = {}
    for each in RESOURCES:
        name, _, group = each.partition(".")
        groups.setdefault(group, []).append(name)
    # Only the pod in question is read by name.
    pods = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    rules = [{"apiGroups": [group], "resources": names, "verbs": ["list"]} for group, names in groups.items()]
    maps = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": list(CONFIG_MAPS), "verbs": ["get"]}
    return [*rules, pods, maps]


def iam_actions() -> list[str]:
    """Return the actions of IAM that allow each call."""
    return sorted({each.action for each in CALLS})


def iam_statements(*, cluster: str, partition: str, region: str, account: str) -> list[dict[str, Any]]:
    """Return statements that allow each call for one cluster.

    Actions that take an ARN are limited to the cluster, its node groups and the quotas. The other actions are limited
    to the Region.

    Args:
        cluster: Name of the cluster.
        partition: Its partition, e.g. ``aws``.
        region: Its Region.
        account: Its account.
    """
    resources: dict[str, set[str]] = {}
    for each in CALLS:
        service, found = each.action.partition(":")[0], resources.setdefault(each.action, set())
        if each.resource:
            found.add(f"arn:{partition}:{service}:{region}:{account}:{each.resource.replace('{cluster}', cluster)}")
    pairs = sorted((sorted(arns), action) for action, arns in resources.items())
    return [_statement([action for _, action in same], arns, region) for arns, same in groupby(pairs, itemgetter(0))]


def _statement(actions: list[str], arns: list[str], region: str) -> dict[str, Any]:
    limit = {} if arns else {"Condition": {"StringEquals": {"aws:RequestedRegion": region}}}
    return {"Effect": "Allow", "Action": actions, "Resource": arns or "*", **limit}

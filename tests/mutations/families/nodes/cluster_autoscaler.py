"""Cluster autoscaler: its flags, its service account and its permissions."""

from __future__ import annotations

from typing import Any

from tests.mutations.operator import MEASURED, operator
from tests.mutations.written import Written, containers, drop, look, put

FAQ = "https://github.com/kubernetes/autoscaler/blob/cluster-autoscaler-1.36.1/cluster-autoscaler/FAQ.md"


def autoscalers(given: Written) -> list[Any]:
    """The containers of cluster autoscaler."""
    found = [each for one in given.objects("Deployment") for each in containers(one)]
    return [each for each in found if "cluster-autoscaler" in str(each.get("image"))]


def flag(given: Written, name: str, value: str | None) -> bool:
    """Set a flag, or remove it."""
    for each in autoscalers(given):
        words = [word for word in each["command"] if not word.startswith(f"--{name}=")]
        words += [] if value is None else [f"--{name}={value}"]
        if put(each, "command", to=words):
            return True
    return False


@operator(MEASURED + "cluster autoscaler without RBAC")
def no_rbac(given: Written) -> bool:
    """Nothing binds the service account to a role."""
    lost = [each for each in given.objects("ClusterRoleBinding", "RoleBinding") if autoscalers(given)]
    given.documents = [each for each in given.documents if each not in lost]
    return bool(lost)


@operator(MEASURED + "cluster autoscaler without rules for nodes")
def no_rule_for_nodes(given: Written) -> bool:
    """The role does not let it list nodes."""
    changed = False
    for role in given.objects("ClusterRole"):
        for each in role.get("rules", []):
            if "*" in each["resources"]:
                each["resources"] = ["pods", "services", "daemonsets", "replicasets", "statefulsets", "jobs"]
            changed = changed or "nodes" in each["resources"]
            each["resources"] = [name for name in each["resources"] if name != "nodes"]
        role["rules"] = [each for each in role["rules"] if each["resources"]]
    return changed


@operator("https://github.com/kubernetes/autoscaler/issues/1507")
def binding_of_another_namespace(given: Written) -> bool:
    """The binding names the service account in another namespace."""
    return any(put(each, "subjects", 0, "namespace", to="default") for each in given.objects("ClusterRoleBinding"))


@operator(MEASURED + "cluster autoscaler without its cloud provider")
def no_cloud_provider(given: Written) -> bool:
    """The flag of the cloud provider is missing, for which the default is another."""
    return flag(given, "cloud-provider", None)


@operator(MEASURED + "cluster autoscaler of another cloud")
def another_cloud_provider(given: Written) -> bool:
    """The cloud provider is misspelt."""
    return flag(given, "cloud-provider", "eks")


@operator(FAQ)
def expander_that_does_not_exist(given: Written) -> bool:
    """The expander is misspelt, on which it exits."""
    return flag(given, "expander", "least_waste")


@operator(FAQ)
def duration_without_a_unit(given: Written) -> bool:
    """A duration has no unit, on which it exits."""
    return flag(given, "max-node-provision-time", "15")


@operator("https://github.com/kubernetes/autoscaler/issues/2642")
def discovery_without_asg(given: Written) -> bool:
    """The flag of the discovery lacks "asg:" before its tags."""
    return flag(given, "node-group-auto-discovery", "tag=k8s.io/cluster-autoscaler/enabled")


@operator("https://github.com/kubernetes/autoscaler/issues/2642")
def discovery_of_another_cluster(given: Written) -> bool:
    """The discovery looks for the tag of another cluster."""
    tags = "asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/staging"
    return flag(given, "node-group-auto-discovery", tags)


@operator(MEASURED + "groups named by --nodes, and another name")
def group_by_a_name_that_is_not_there(given: Written) -> bool:
    """The groups are named by --nodes, and none of that name is there."""
    return flag(given, "node-group-auto-discovery", None) and flag(given, "nodes", "0:4:gpu-nodes-old")


@operator(MEASURED + "cores of the system nodes not counted")
def limit_of_cores(given: Written) -> bool:
    """The limit of cores leaves none beside the system nodes."""
    return flag(given, "cores-total", "0:8")


@operator(MEASURED + "--gpu-total by the value of the label")
def limit_of_gpus_of_another_label(given: Written) -> bool:
    """The limit of GPUs allows none of the label that the nodes have."""
    return flag(given, "gpu-total", "nvidia-l4:0:0")


@operator("https://github.com/kubernetes/autoscaler/issues/1507")
def service_account_without_a_role(given: Written) -> bool:
    """The pod runs as the namespace's default service account."""
    return any(
        drop(each, "spec", "template", "spec", "serviceAccountName")
        for each in given.objects("Deployment")
        if any(one in autoscalers(given) for one in containers(each))
    )


@operator("https://github.com/kubernetes/autoscaler/issues/5278")
def may_not_read_templates(given: Written) -> bool:
    """Its role does not let it read launch templates, from which it knows what a node of an empty group has."""
    for role in given.resources("AWS::IAM::Role"):
        for policy in role.get("Policies", []):
            for each in look(policy, "PolicyDocument", "Statement") or []:
                if "autoscaling:" in str(each.get("Action")):
                    return put(each, "Action", to=["autoscaling:DescribeAutoScalingGroups", "autoscaling:DescribeTags"])
    return False

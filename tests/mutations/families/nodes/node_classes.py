"""EC2NodeClasses, the NodeClasses of EKS Auto Mode, and the chart that installs Karpenter."""

from __future__ import annotations

import json
from typing import Any

from tests.mutations.operator import MEASURED, operator
from tests.mutations.written import Written, drop, look, put, replace, swap

DOCS = "https://karpenter.sh/docs/concepts/nodeclasses/"
CHART = "Custom::AWSCDK-EKS-HelmChart"


def classes(given: Written) -> list[Any]:
    """The EC2NodeClasses."""
    return given.objects("EC2NodeClass")


def charts(given: Written, name: str) -> list[Any]:
    """The charts of a name."""
    return [each for each in given.resources(CHART) if each.get("Chart") == name]


def values(given: Written, chart: str, *path: str, to: Any) -> bool:
    """Set a value of a chart."""
    for each in charts(given, chart):
        content = json.loads(each.get("Values") or "{}")
        place = content
        for step in path[:-1]:
            place = place.setdefault(step, {})
        place[path[-1]] = to
        if put(each, "Values", to=json.dumps(content)):
            return True
    return False


def actions(given: Written, name: str) -> bool:
    """Take an action out of every policy that has it."""
    changed = False
    for role in given.resources("AWS::IAM::Role"):
        for policy in role.get("Policies", []):
            said = look(policy, "PolicyDocument", "Statement") or []
            for each in list(said):
                listed = each["Action"] if isinstance(each["Action"], list) else [each["Action"]]
                if name in listed:
                    changed = True
                    each["Action"] = [one for one in listed if one != name]
                    if not each["Action"]:
                        said.remove(each)
    return changed


@operator(DOCS)
def alias_of_another_family(given: Written) -> bool:
    """The alias of the image is spelt as the image type of a managed group."""
    return any(put(each, "spec", "amiSelectorTerms", to=[{"alias": "al2023-nvidia@latest"}]) for each in classes(given))


@operator(MEASURED + "amiFamily without selector terms, as in v1beta1")
def no_image_terms(given: Written) -> bool:
    """The class has an amiFamily and no terms for the image."""
    return any(
        drop(each, "spec", "amiSelectorTerms") and put(each, "spec", "amiFamily", to="AL2023")
        for each in classes(given)
    )


@operator(DOCS)
def subnets_without_the_tag(given: Written) -> bool:
    """The subnets are looked for by a tag that they do not have."""
    terms = [{"tags": {"karpenter.sh/discovery": "staging"}}]
    return any(
        put(each, "spec", "subnetSelectorTerms", to=terms)
        for each in classes(given)
        if given.resources("AWS::EC2::Subnet")
    )


@operator(MEASURED + "hop limit out of its range")
def hop_limit_650(given: Written) -> bool:
    """The hop limit is 650."""
    return any(put(each, "spec", "metadataOptions", to={"httpPutResponseHopLimit": 650}) for each in classes(given))


@operator(DOCS)
def role_by_arn(given: Written) -> bool:
    """The role is named by its ARN."""
    return any(
        put(each, "spec", "role", to="arn:aws:iam::111122223333:role/KarpenterNodeRole-demo") for each in classes(given)
    )


@operator(DOCS)
def class_of_another_name(given: Written) -> bool:
    """The class has another name than the pool says."""
    return any(put(each, "metadata", "name", to="gpu-nodes") for each in given.objects("EC2NodeClass", "NodeClass"))


@operator("https://github.com/aws/karpenter-provider-aws/issues/6358")
def disk_of_20_gib(given: Written) -> bool:
    """The disk keeps 20 GiB, and no other disk holds images."""
    way = ("spec", "blockDeviceMappings", 0, "ebs", "volumeSize")
    found = [each for each in classes(given) if given.gpu_workloads]
    return any(drop(each, "spec", "instanceStorePolicy") | replace(each, *way, to="20Gi") for each in found)


@operator("https://github.com/aws/karpenter-provider-aws/issues/6055")
def disk_without_unit(given: Written) -> bool:
    """The size of the disk has no unit, so that it is 200 bytes."""
    return any(
        replace(each, "spec", "blockDeviceMappings", 0, "ebs", "volumeSize", to="200") for each in classes(given)
    )


@operator(DOCS)
def unknown_field_of_kubelet(given: Written) -> bool:
    """A setting of kubelet has a name that the class does not know."""
    return any(put(each, "spec", "kubelet", to={"podsMaximum": 58}) for each in classes(given))


@operator(DOCS)
def instance_store_policy_misspelt(given: Written) -> bool:
    """The policy of local disks is RAID-0."""
    return any(put(each, "spec", "instanceStorePolicy", to="RAID-0") for each in classes(given))


@operator(MEASURED + "Karpenter's role without PassRole")
def no_pass_role(given: Written) -> bool:
    """Karpenter may not pass the role of the nodes."""
    return bool(classes(given)) and actions(given, "iam:PassRole")


@operator(MEASURED + "Karpenter passes another role than its class names")
def passes_another_role(given: Written) -> bool:
    """Karpenter has permission to pass a role that isn't the role of its nodes."""
    for role in given.resources("AWS::IAM::Role"):
        for policy in role.get("Policies", []):
            for each in look(policy, "PolicyDocument", "Statement") or []:
                if "iam:PassRole" in str(each["Action"]):
                    return put(each, "Resource", to="arn:aws:iam::111122223333:role/KarpenterNodeRole-staging")
    return False


@operator("https://github.com/aws-samples/cdk-eks-karpenter/issues/231")
def policy_older_than_the_chart(given: Written) -> bool:
    """Karpenter's policy lacks what its newer versions call."""
    return bool(classes(given)) and actions(given, "iam:ListInstanceProfiles")


@operator("https://github.com/eksctl-io/eksctl/issues/7697")
def renamed_value_of_the_chart(given: Written) -> bool:
    """The queue has the key that an earlier version of the chart had for it."""
    return values(given, "karpenter", "settings", to={"clusterName": "demo", "aws": {"interruptionQueueName": "demo"}})


@operator("https://github.com/aws/aws-cdk/issues/34394")
def class_of_auto_mode_without_access(given: Written) -> bool:
    """The role of the class has no access entry."""
    return bool(given.objects("NodeClass")) and given.remove("AWS::EKS::AccessEntry")


@operator("https://github.com/terraform-aws-modules/terraform-aws-eks/issues/3496")
def built_in_pool_misspelt(given: Written) -> bool:
    """The built-in pool of EKS Auto Mode is misspelt."""
    return any(
        replace(each, "ComputeConfig", "NodePools", to=["system", "general_purpose"])
        for each in given.resources("AWS::EKS::Cluster")
    )


@operator("https://docs.aws.amazon.com/eks/latest/userguide/automode-workload.html")
def labels_of_karpenter_in_auto_mode(given: Written) -> bool:
    """The pool of EKS Auto Mode asks for a label of Karpenter's own class."""
    for each in given.objects("NodePool"):
        for one in look(each, "spec", "template", "spec", "requirements") or []:
            if swap(one, "key", old="eks.amazonaws.com/", new="karpenter.k8s.aws/"):
                return True
    return False


@operator("https://docs.aws.amazon.com/eks/latest/userguide/automode-workload.html")
def only_built_in_pools(given: Written) -> bool:
    """No pool has GPUs but EKS Auto Mode's own, which have none."""
    return bool(given.objects("NodeClass")) and bool(given.gpu_workloads) and given.remove("NodePool")

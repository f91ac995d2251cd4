"""Roles, their trust policies and their permissions."""

from __future__ import annotations

import json
from typing import Any

from tests.mutations.operator import MEASURED, operator
from tests.mutations.written import Written, drop, look, put

ROLE = "AWS::IAM::Role"
NODES = "https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html"
POD_IDENTITY = "https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html"


def trusting(given: Written, part: str) -> list[Any]:
    """The roles whose trust names a part."""
    return [each for each in given.resources(ROLE) if part in json.dumps(each.get("AssumeRolePolicyDocument"))]


@operator(MEASURED + "a trust of the wrong service account, as JSON text")
def trust_of_another_account_as_text(given: Written) -> bool:
    """The trust of the autoscaler's role is a JSON text to substitute in, and of another service account."""
    for each in trusting(given, "system:serviceaccount"):
        said = json.dumps(each["AssumeRolePolicyDocument"]).replace(":cluster-autoscaler", ":autoscaler")
        return put(each, "AssumeRolePolicyDocument", to={"Fn::Sub": said.replace("111122223333", "${AWS::AccountId}")})
    return False


@operator("https://github.com/kubernetes/autoscaler/issues/1507")
def trust_of_another_namespace(given: Written) -> bool:
    """The trust of the autoscaler's role is of another namespace."""
    for each in trusting(given, "system:serviceaccount"):
        said = json.dumps(each["AssumeRolePolicyDocument"]).replace(":kube-system:", ":autoscaler:")
        return put(each, "AssumeRolePolicyDocument", to=json.loads(said))
    return False


@operator(MEASURED + "a trust of Pod Identity without TagSession")
def no_tag_session(given: Written) -> bool:
    """The role of Pod Identity does not let sessions be tagged."""
    return any(
        put(each, "AssumeRolePolicyDocument", "Statement", 0, "Action", to="sts:AssumeRole")
        for each in trusting(given, "pods.eks.amazonaws.com")
    )


@operator(MEASURED + "a role on the wrong service account")
def association_of_another_account(given: Written) -> bool:
    """The association gives the role to another service account."""
    return any(
        put(each, "ServiceAccount", to="default") for each in given.resources("AWS::EKS::PodIdentityAssociation")
    )


@operator(POD_IDENTITY)
def association_of_another_namespace(given: Written) -> bool:
    """The association is of another namespace."""
    return any(put(each, "Namespace", to="karpenter") for each in given.resources("AWS::EKS::PodIdentityAssociation"))


@operator(NODES)
def node_role_for_the_cluster(given: Written) -> bool:
    """The role of the nodes trusts EKS instead of EC2."""
    return any(
        put(each, "AssumeRolePolicyDocument", "Statement", 0, "Principal", to={"Service": "eks.amazonaws.com"})
        for each in trusting(given, "ec2.amazonaws.com")
    )


@operator(NODES)
def managed_policy_misspelt(given: Written) -> bool:
    """A managed policy of the nodes is misspelt."""
    for each in trusting(given, "ec2.amazonaws.com"):
        wrong = [
            str(one).replace("AmazonEKSWorkerNodePolicy", "AmazonEKSWorkerNodesPolicy")
            for one in each["ManagedPolicyArns"]
        ]
        return put(each, "ManagedPolicyArns", to=wrong)
    return False


@operator("https://github.com/hashicorp/terraform-provider-aws/issues/38516")
def no_pod_identity_agent(given: Written) -> bool:
    """The agent of Pod Identity is missing."""
    for template in given.templates:
        for name, each in list(template["Resources"].items()):
            if look(each, "Properties", "AddonName") == "eks-pod-identity-agent":
                del template["Resources"][name]
                return True
    return False


@operator("https://docs.aws.amazon.com/eks/latest/userguide/ebs-csi.html")
def disk_driver_without_a_role(given: Written) -> bool:
    """The driver of EBS disks has no role, and the nodes' hop limit keeps it from theirs."""
    return any(
        drop(each, "PodIdentityAssociations")
        for each in given.resources("AWS::EKS::Addon")
        if each.get("AddonName") == "aws-ebs-csi-driver"
    )

"""Functions that apply manifests and charts, and lack the right to call the cluster."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_preflight.case import Case
from gpu_preflight.cluster.functions import functions_of
from gpu_preflight.cluster.iam import allows, role_of
from gpu_preflight.model.answer import Answer
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.rules.rule import Problem, rule

_APPLIED = ("Custom::AWSCDK-EKS-HelmChart", "Custom::AWSCDK-EKS-KubernetesResource")
# `aws eks update-kubeconfig` calls it before each kubectl and helm.
# Source: aws/aws-cdk v2.275.0 packages/aws-cdk-lib/custom-resource-handlers/dist/aws-eks/kubectl-handler (2026-11-24)
_CALL = "eks:DescribeCluster"


@rule("GPU506", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/create-kubeconfig.html", stops=False)
def function_that_may_not_describe_the_cluster(case: Case) -> Iterator[Problem]:
    """Function that applies manifests may not describe the cluster.

    It asks EKS for the endpoint before each call of kubectl and helm; the deployment fails at the first of them.

    Fix: Allow eks:DescribeCluster on the cluster in the policy of the function's role.
    """
    resources = case.cluster.resources
    found: dict[str, Resource] = {}
    for each in case.cluster.resources_of(*_APPLIED):
        called = functions_of(each.properties.get("ServiceToken"), resources)
        # With a role of its own, an older provider calls EKS as that role.
        if called and each.properties.get("RoleArn") is None:
            found.setdefault(called[-1].key, called[-1])
    for handler in found.values():
        role = role_of(handler.properties.get("Role"), resources)
        if role is not None and allows(role, _CALL, resources) is Answer.NO:
            yield Problem(handler, f"function {handler.path}: its role {role.path} does not allow {_CALL}")

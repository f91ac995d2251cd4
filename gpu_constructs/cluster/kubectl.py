"""What applies manifests and installs charts: a function with kubectl and helm in a layer."""

from __future__ import annotations

from typing import cast

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.installing.gitops import delivery_of
from gpu_constructs.installing.kubectl_programs import kubectl_layer
from gpu_constructs.installing.own_stack import stack_of


def kubectl_options(scope: Construct, module: str) -> eks.KubectlProviderOptions | None:
    """Return what applies manifests; nothing where Argo CD or Flux do.

    Raises:
        ValueError: The layer of the Kubernetes version is not installed.
    """
    if delivery_of(scope) != "kubectl":
        return None
    layer = kubectl_layer(scope, module, who=scope.node.path, of="kubernetes_version")
    return eks.KubectlProviderOptions(kubectl_layer=layer)


def accept_equal_conditions(cluster: Construct) -> None:
    """Accept that what applies manifests has a condition for each cluster of a stack, which says the same each time."""
    stack = stack_of(cluster)
    if any(isinstance(each, ClusterRef) for each in stack.node.children):
        cdk.Validations.of(cast("Construct", stack)).acknowledge(
            cdk.Acknowledgment(
                id="CloudFormation-Validate::W9053",
                reason="aws-cdk-lib 2.275 makes HasEcrPublic for each kubectl handler",
            )
        )

"""The programs that reach a cluster from a function of Lambda, and the network in which they do."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, cast

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_lambda as lambda_
from aws_cdk.lambda_layer_awscli import AwsCliLayer
from constructs import Construct

from gpu_constructs.facts.versions import DEFAULT_KUBERNETES, KUBERNETES
from gpu_constructs.installing.cluster_ref import ClusterRef


@dataclass(frozen=True, kw_only=True, slots=True)
class Programs:
    """kubectl, helm and the AWS CLI for one cluster.

    Attributes:
        layers: ARNs of the layers that they are in.
        network: Subnets and security groups from which the cluster is reached; ``None`` for the internet.
    """

    layers: Any
    network: Any


def kubectl_function(provider: eks.IKubectlProvider | None) -> lambda_.CfnFunction | None:
    """Return the function with kubectl and helm, as aws-cdk-lib 2.275 names it; ``None`` where it is of another app."""
    found = cast("Construct", provider).node.try_find_child("Handler") if provider is not None else None
    return cast("lambda_.CfnFunction", found.node.default_child) if found is not None else None


def stack_of_programs(cluster: ClusterRef) -> cdk.Stack:
    """Return the stack that has the programs: another one could not take them over when they move."""
    function = kubectl_function(cluster.cluster.kubectl_provider)
    return cluster.stack if function is None else cdk.Stack.of(function)


def programs(scope: Construct, *, cluster: ClusterRef, who: object) -> Programs:
    """Return those of the function that applies manifests, or else others in the cluster's own network.

    Raises:
        ValueError: The cluster was imported without what leads to it.
    """
    function = kubectl_function(cluster.cluster.kubectl_provider)
    if function is not None:
        return Programs(layers=function.layers, network=function.vpc_config)
    group = cluster.security_group_id
    if group is None or not cluster.private_subnets:
        raise ValueError(
            f"{who}: cluster must be imported with vpc and cluster_security_group_id, from where definitions are "
            f"applied to it, got {cluster.path!r} without; give both to from_cluster_attributes, or have Argo CD or "
            "Flux deliver"
        )
    layers = (kubectl_layer(scope, KUBERNETES[DEFAULT_KUBERNETES].kubectl_layer), AwsCliLayer(scope, "AwsCliLayer"))
    return Programs(
        layers=[each.layer_version_arn for each in layers],
        network={"subnetIds": [each.subnet_id for each in cluster.private_subnets], "securityGroupIds": [group]},
    )


def kubectl_layer(scope: Construct, module: str) -> lambda_.ILayerVersion:
    """Return the layer with kubectl and helm.

    Raises:
        ValueError: Its package is not installed.
    """
    try:
        layer = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{scope.node.path}: kubernetes_version must have its kubectl layer installed, got none; "
            f"pip install 'gpu-constructs[kubectl-{module.rpartition('_')[2]}]'"
        ) from error
    [layer_class] = [getattr(layer, name) for name in layer.__all__ if name.startswith("KubectlV")]
    return cast("lambda_.ILayerVersion", layer_class(scope, "KubectlLayer"))

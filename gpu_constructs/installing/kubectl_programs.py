"""Lambda functions that connect to a cluster, and inline functions."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk.lambda_layer_awscli import AwsCliLayer
from constructs import Construct

from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.installing.context import CHART_DEFINITIONS
from gpu_constructs.installing.pod_identity import policy_document
from gpu_facts.refusals import has_token
from gpu_facts.versions import DEFAULT_KUBERNETES, KUBERNETES

# Ids in a kubectl provider of aws-cdk-lib 2.275: the function with kubectl and helm, and the framework that calls it.
FUNCTION = "Handler"
CALLER = ("Provider", "framework-onEvent")
_RUNTIME = "python3.13"
_RETENTION_DAYS = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Programs:
    """kubectl, helm and the AWS CLI for one cluster.

    Attributes:
        layers: ARNs of the layers with these programs.
        network: Subnets and security groups that can connect to the cluster, or ``None`` for the internet.
        environment: Environment of the function that applies manifests, such as a proxy, or ``None``.
    """

    layers: Any
    network: Any
    environment: Any = None


def _function(provider: eks.IKubectlProvider | None) -> lambda_.CfnFunction | None:
    """Return the function with kubectl and helm, or ``None`` if it belongs to another app."""
    found = cast("Construct", provider).node.try_find_child(FUNCTION) if provider is not None else None
    return cast("lambda_.CfnFunction", found.node.default_child) if found is not None else None


def stack_of_programs(cluster: ClusterRef) -> cdk.Stack:
    """Return the stack for functions that use the programs.

    It is the stack of the layers, because CloudFormation can't change a layer that another stack imports. If the
    cluster's name is known only in its own stack, it is the cluster's stack, because the stack of the layers must not
    depend on it.
    """
    function = _function(cluster.cluster.kubectl_provider)
    elsewhere = function is None or has_token(cluster.name)
    return cluster.stack if elsewhere else cdk.Stack.of(cast("Construct", function))


def programs(scope: Construct, *, cluster: ClusterRef, who: object) -> Programs:
    """Return the programs of the function that applies manifests, or others in the cluster's own network.

    Raises:
        ValueError: The cluster was imported without the attributes that a function needs to connect to it, or the layer
            isn't installed.
    """
    function = _function(cluster.cluster.kubectl_provider)
    if function is not None:
        # The property as jsii returns it lacks the variables.
        said = cdk.Stack.of(function).resolve(function._cfn_properties).get("environment")
        return Programs(layers=function.layers, network=function.vpc_config, environment=said)
    group = cluster.security_group_id
    if group is None or cluster.private_subnets is None:
        raise ValueError(
            f"{who}: cluster must be imported with vpc and cluster_security_group_id to apply CRDs to it, got "
            f"{cluster.path!r} without; pass both to from_cluster_attributes, or apply the CRDs yourself and set "
            f"{CHART_DEFINITIONS}=false in the context"
        )
    subnets = cluster.subnets(None, who=who)
    module = KUBERNETES[DEFAULT_KUBERNETES].kubectl_layer
    layers = (kubectl_layer(scope, module, who=who, of="cluster"), AwsCliLayer(scope, "AwsCliLayer"))
    return Programs(
        layers=[each.layer_version_arn for each in layers],
        network={"subnetIds": [each.subnet_id for each in subnets], "securityGroupIds": [group]},
    )


def kubectl_layer(scope: Construct, module: str, *, who: object, of: str) -> lambda_.ILayerVersion:
    """Return the layer with kubectl and helm.

    Raises:
        ValueError: Its package isn't installed. ``of`` is the argument that needs it.
    """
    try:
        layer = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{who}: {of} must have its kubectl layer installed, got none; run pip install "
            f"'gpu-constructs[kubectl-{module.rpartition('_')[2]}]'"
        ) from error
    [layer_class] = [getattr(layer, name) for name in layer.__all__ if name.startswith("KubectlV")]
    return cast("lambda_.ILayerVersion", layer_class(scope, "KubectlLayer"))


def own_log(scope: Construct) -> tuple[logs.CfnLogGroup, dict[str, Any]]:
    """Create the log group of a function, and return it with the statement that allows the function to write to it."""
    log = logs.CfnLogGroup(scope, "Logs", retention_in_days=_RETENTION_DAYS)
    actions = ["logs:CreateLogStream", "logs:PutLogEvents"]
    return log, {"Effect": "Allow", "Action": actions, "Resource": log.attr_arn}


def role_of_function(scope: Construct, policies: Mapping[str, Any]) -> iam.CfnRole:
    """Create the role of a function, with a policy document for each name."""
    trust = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    return iam.CfnRole(
        scope,
        "Role",
        assume_role_policy_document=policy_document([trust]),
        policies=[{"policyName": name, "policyDocument": document} for name, document in policies.items()],
    )


def inline_function(
    scope: Construct, *, package: str | None, file: str, role: iam.CfnRole, log: logs.CfnLogGroup, **more: Any
) -> lambda_.CfnFunction:
    """Create a function from ``handler`` in a file of a package. ``more`` are its other properties."""
    code = pkgutil.get_data(package or "", file) or b""
    return lambda_.CfnFunction(
        scope,
        "Resource",
        runtime=_RUNTIME,
        handler="index.handler",
        code={"zipFile": code.decode()},
        role=role.attr_arn,
        logging_config={"logGroup": log.ref},
        **more,
    )

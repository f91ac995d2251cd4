"""Lambda functions that connect to a cluster, and the one that applies the CRDs inside Helm charts.

Helm never upgrades the custom resource definitions in a chart's ``crds/`` directory.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import aws_cdk as cdk
import jsii
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk.lambda_layer_awscli import AwsCliLayer
from constructs import Construct

from gpu_constructs.installing import eks_resources
from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.installing.context import CHART_DEFINITIONS
from gpu_constructs.installing.eks_resources import set_logical_id
from gpu_constructs.installing.pod_identity import policy_document
from gpu_constructs.installing.registry import object_key
from gpu_facts.labels import DEFINITIONS_RESOURCE
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import has_token
from gpu_facts.versions import DEFAULT_KUBERNETES, KUBERNETES, Chart

# Ids in a kubectl provider of aws-cdk-lib 2.275: the function with kubectl and helm, and the framework that calls it.
FUNCTION = "Handler"
CALLER = ("Provider", "framework-onEvent")
_RUNTIME = "python3.13"
_RETENTION_DAYS = 30
_ID = "ChartDefinitions"
_MEMORY_MIB = 1024
_MAX_NAME = 100
# The function answers a little before this time is over.
_SECONDS = 300
# An ECR registry, by any of its names. The function has a similar pattern, because it is alone in its file.
_ECR = re.compile(r"oci://(?P<account>\d{12})\.dkr[.-]ecr(-fips)?\.(?P<region>[a-z0-9-]+)\.[a-z0-9.-]+/(?P<path>.+)")
# A function in a VPC needs these actions for its network interface. None supports resource-level permissions.
# Source: https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html (2026-09)
_INTERFACES = [
    "ec2:CreateNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:DeleteNetworkInterface",
    "ec2:AssignPrivateIpAddresses",
    "ec2:UnassignPrivateIpAddresses",
]


def kubernetes_objects(
    scope: Construct,
    id: str,
    *,
    cluster: ClusterRef,
    manifests: Sequence[Mapping[str, Any]],
    removal_policy: cdk.RemovalPolicy | None = None,
) -> Construct:
    """Apply each object as a separate resource, in the given order, and delete them in reverse order.

    The CDK's handler applies the manifest of a resource with ``kubectl apply``, and deletes it with ``kubectl delete``.
    If an object leaves a manifest, only ``--prune`` deletes it. ``--prune`` covers 16 kinds, and only the namespaces of
    the manifest. So a resource contains one object, and its logical id is the object's identity. Then ``overwrite`` is
    safe within a stack, and you can repeat a creation that failed halfway.

    Sources: kubectl-handler/apply/__init__.py of aws-cdk-lib 2.275, pkg/util/prune/prune.go of kubectl 0.36.3.

    Returns:
        A construct that contains every object. A dependency on it is a dependency on each.
    """
    if len(manifests) == 1:
        return _kubernetes_object(scope, id, cluster, manifests[0], removal_policy)
    parent = Construct(scope, id)
    before: Construct | None = None
    kinds: Counter[str] = Counter()
    for each in manifests:
        kinds[each["kind"]] += 1
        number = kinds[each["kind"]]
        child = each["kind"] if number == 1 else f"{each['kind']}{number}"
        before = _kubernetes_object(parent, child, cluster, each, removal_policy, before=before)
    return parent


def _kubernetes_object(
    scope: Construct,
    id: str,
    cluster: ClusterRef,
    manifest: Mapping[str, Any],
    removal_policy: cdk.RemovalPolicy | None,
    *,
    before: Construct | None = None,
) -> Construct:
    made = eks.KubernetesManifest(
        scope,
        id,
        cluster=cluster.cluster,
        manifest=[dict(manifest)],
        prune=False,
        overwrite=True,
        removal_policy=removal_policy,
    )
    group, kind, namespace, name = object_key(manifest)
    node = made.node
    set_logical_id(node.default_child, cluster, kind, name, group, namespace)
    if before is not None:
        node.add_dependency(before)
    return made


def apply_definitions(
    scope: Construct, id: str, *, cluster: ClusterRef, chart: Chart, repository: str, who: object
) -> Construct:
    """Apply the CRDs inside a chart whenever its version changes. They stay if the chart is deleted.

    Raises:
        ValueError: The cluster was imported without the attributes that a function needs to connect to it.
    """
    handler = _handler(cluster, who)
    handler.allow_reading(repository)
    definitions = cdk.CustomResource(
        scope,
        id,
        service_token=handler.arn,
        resource_type=DEFINITIONS_RESOURCE,
        service_timeout=cdk.Duration.seconds(_SECONDS),
        # The removal does nothing, so it needs no function.
        removal_policy=cdk.RemovalPolicy.RETAIN,
        properties={
            "Cluster": cluster.name_token,
            "Chart": chart.name,
            "Repository": repository,
            "Version": chart.version,
        },
    )
    definitions.node.add_dependency(handler)
    return definitions


def _handler(cluster: ClusterRef, who: object) -> DefinitionsHandler:
    shared = cluster.shared(_stack_of_programs(cluster))
    found = shared.node.try_find_child(_ID)
    return found if isinstance(found, DefinitionsHandler) else DefinitionsHandler(shared, _ID, cluster=cluster, who=who)


@named_arguments
class DefinitionsHandler(Construct):
    """The function that applies CRDs of charts. It has no other permission.

    Args:
        cluster: The cluster.
        who: First construct that needs the function, for messages.

    Raises:
        ValueError: The cluster was imported without the attributes that the function needs to connect to it.

    Attributes:
        arn: Its ARN.
    """

    def __init__(self, scope: Construct, id: str, *, cluster: ClusterRef, who: object) -> None:
        super().__init__(scope, id)
        its = _programs(self, cluster=cluster, who=who)
        self._registries: dict[str, None] = {}
        log, logging = own_log(self)
        function = inline_function(
            self,
            package=__package__,
            file="chart_definitions_handler.py",
            role=self._role(cluster, logging, in_vpc=its.network is not None),
            log=log,
            timeout=_SECONDS - 30,
            memory_size=_MEMORY_MIB,
            layers=its.layers,
            vpc_config=its.network,
            environment=its.environment,
        )
        self.arn = function.attr_arn
        # Kubernetes objects: the group of the access entry, with the group's role and binding.
        name = cdk.Names.unique_resource_name(self, separator="-", max_length=_MAX_NAME).lower()
        eks_resources.CfnAccessEntry(
            self,
            "AccessEntry",
            cluster_name=cluster.name_token,
            principal_arn=function.role,
            kubernetes_groups=[name],
            type="STANDARD",
        )
        kubernetes_objects(self, "Rights", cluster=cluster, manifests=rights(name))

    def allow_reading(self, repository: str) -> None:
        """Allow the function to read a chart, if the chart is in an ECR registry."""
        if found := _ECR.fullmatch(repository):
            where = f"ecr:{found['region']}:{found['account']}:repository/{found['path']}"
            self._registries[f"arn:{cdk.Stack.of(self).partition}:{where}"] = None

    def _role(self, cluster: ClusterRef, logging: dict[str, Any], *, in_vpc: bool) -> iam.CfnRole:
        stack = cdk.Stack.of(self)
        arn = f"arn:{stack.partition}:eks:{stack.region}:{stack.account}:cluster/{cluster.name_token}"
        statements = [{"Effect": "Allow", "Action": "eks:DescribeCluster", "Resource": arn}, logging]
        if in_vpc:
            statements.append({"Effect": "Allow", "Action": _INTERFACES, "Resource": "*"})
        document = cdk.Lazy.uncached_any(cast("cdk.IAnyProducer", _Statements(statements, self._registries)))
        return role_of_function(self, {"ApplyDefinitions": document})


@jsii.implements(cdk.IAnyProducer)
class _Statements:
    """Statements of the function's policy, rendered when all charts are defined."""

    def __init__(self, statements: list[dict[str, Any]], registries: Mapping[str, None]) -> None:
        self._statements = statements
        self._registries = registries

    def produce(self, context: cdk.IResolveContext) -> Any:
        """Return the document."""
        reading: list[dict[str, Any]] = []
        if self._registries:
            layers = ["ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
            reading = [
                # The action supports no resource.
                {"Effect": "Allow", "Action": "ecr:GetAuthorizationToken", "Resource": "*"},
                {"Effect": "Allow", "Action": layers, "Resource": sorted(self._registries)},
            ]
        return policy_document([*self._statements, *reading])


def rights(name: str) -> list[dict[str, Any]]:
    """Return the role and binding with which a group of Kubernetes may apply CRDs, and nothing else."""
    api = "rbac.authorization.k8s.io"
    definitions = {
        "apiGroups": ["apiextensions.k8s.io"],
        "resources": ["customresourcedefinitions"],
        "verbs": ["get", "create", "patch"],
    }
    common = {"apiVersion": f"{api}/v1", "metadata": {"name": name}}
    binding = {
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": api, "kind": "Group", "name": name}],
    }
    return [
        {**common, "kind": "ClusterRole", "rules": [definitions]},
        {**common, "kind": "ClusterRoleBinding", **binding},
    ]


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


def _stack_of_programs(cluster: ClusterRef) -> cdk.Stack:
    """Return the stack for functions that use the programs.

    It is the stack of the layers, because CloudFormation can't change a layer that another stack imports. If the
    cluster's name is known only in its own stack, it is the cluster's stack, because the stack of the layers must not
    depend on it.
    """
    function = _function(cluster.cluster.kubectl_provider)
    elsewhere = function is None or has_token(cluster.name)
    return cluster.stack if elsewhere else cdk.Stack.of(cast("Construct", function))


def _programs(scope: Construct, *, cluster: ClusterRef, who: object) -> Programs:
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

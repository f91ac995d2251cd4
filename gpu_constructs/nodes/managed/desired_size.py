"""The wanted size of a managed node group, asked for at deployment instead of stated in the template."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, cast

import aws_cdk as cdk
import jsii
from aws_cdk import aws_autoscaling as autoscaling
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.facts.labels import SIZE_RESOURCE, SIZE_TAG
from gpu_constructs.installing import eks_resources as eks
from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.installing.inline_function import inline_function, own_log, role_of_function
from gpu_constructs.installing.pod_identity import policy_document
from gpu_constructs.named_arguments import named_arguments
from gpu_constructs.nodes.group_arguments import CLOSED_MAX
from gpu_constructs.pools.capacity import CapacityBlock

# What the answer fills in.
_SIZES = ("ScalingConfig", "MinSize", "MaxSize", "DesiredCapacity")
# Longer than the calls of a cluster with hundreds of groups take; shorter than the hour that CloudFormation would wait.
_SECONDS = 120


class _Group(cdk.CfnResource):
    """A group that can be asked what CloudFormation gets, overrides included."""

    _overrides: list[list[Any]] | None = None

    def add_override(self, path: str, value: Any) -> None:
        """Keep what the CDK does not tell again; every other way to override calls this one."""
        self._overrides = [*(self._overrides or []), [path, value]]
        super().add_override(path, value)

    @property
    def emitted(self) -> dict[str, Any]:
        """Properties and overrides as they stand now, resolved, without the sizes that are asked for."""
        stack = cdk.Stack.of(self)
        found = {**stack.resolve(self._render_properties(self._cfn_properties)), "Overrides": self._overrides}
        return {key: stack.resolve(value) for key, value in found.items() if key not in _SIZES}

    @property
    def waits_for(self) -> list[dict[str, str]]:
        """References to what the group is created after because somebody said so."""
        stack = cdk.Stack.of(self)
        said = [each for each in self.obtain_dependencies() if isinstance(each, cdk.CfnResource)]
        return [{"Ref": str(stack.resolve(each.logical_id))} for each in said if cdk.Stack.of(each) is stack]


class NodeGroup(_Group, eks.CfnNodegroup):
    """A managed node group whose wanted size is asked for."""


class ScalingGroup(_Group, autoscaling.CfnAutoScalingGroup):
    """An Auto Scaling group whose sizes are asked for."""


@named_arguments
class DesiredSize(Construct):
    """The number of nodes that a managed group has when it is deployed, which no template can know.

    EKS asks for all three sizes of a group or for none, and CloudFormation sets the wanted one again whenever it
    touches the group. The resource is asked whenever the group changes, before it, and answers what runs, within the
    group's bounds; for a group that is not there yet, the least.

    Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupScalingConfig.html

    Args:
        cluster: Its cluster.
        min_nodes: Nodes that always run.
        max_nodes: Most nodes.
        block: The Capacity Block that the group spends, whose window then decides all three sizes.
        closed_max: Most nodes before the block and after it.

    Attributes:
        tag: Tag by which the group is found. It cannot be found by its name, which is not known before it is made.
        scaling_config: Sizes of the group.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: ClusterRef,
        min_nodes: int,
        max_nodes: int,
        block: CapacityBlock | None = None,
        closed_max: int = CLOSED_MAX,
    ) -> None:
        super().__init__(scope, id)
        stack = cdk.Stack.of(self)
        shared = cluster.shared(stack)
        handler = shared.size_handler.get_or_make(lambda: SizeHandler(shared, "NodeGroupSize", cluster=cluster).arn)
        self.tag = {SIZE_TAG: f"{stack.stack_name}/{scope.node.path.removeprefix(stack.node.path).strip('/')}"[-256:]}
        self._group: _Group | None = None
        self._resource = cdk.CustomResource(
            self,
            "Resource",
            service_token=handler,
            resource_type=SIZE_RESOURCE,
            service_timeout=cdk.Duration.seconds(_SECONDS),
            properties={
                "Cluster": cluster.name_token,
                "Tag": self.tag[SIZE_TAG],
                "Min": min_nodes,
                "Max": max_nodes,
                **(_window(block, closed_max) if block is not None else {}),
                "Group": cdk.Lazy.uncached_any(cast("cdk.IAnyProducer", _Fingerprint(self))),
            },
        )
        told = {"minSize": min_nodes, "maxSize": max_nodes}
        if block is not None:
            told = {"minSize": self._number("MinSize"), "maxSize": self._number("MaxSize")}
        self.scaling_config = told | {"desiredSize": self._number("DesiredSize")}

    def asks_for(self, group: _Group) -> None:
        """Ask again whenever this group changes."""
        self._group = group

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What differs when the group does: a hash of its literals, and what they refer to, which no hash sees.

        Whatever the group waits for stands there too, so that nothing happens between the answer and the group.
        """
        if self._group is None:
            return {}
        references: list[Any] = []
        text = json.dumps(_without_references(self._group.emitted, references), sort_keys=True)
        told = {"Literals": hashlib.sha256(text.encode()).hexdigest()[:16], "References": references}
        return told | ({"After": after} if (after := self._group.waits_for) else {})

    def answer(self, attribute: str) -> str:
        """Return ``MinSize``, ``MaxSize`` or ``DesiredSize`` of the answer."""
        return self._resource.get_att_string(attribute)

    def _number(self, attribute: str) -> int:
        return cast("int", cdk.Token.as_number(self._resource.get_att(attribute)))


# Asked each time: what the CDK reads first, to find references, is not yet what it writes.
@jsii.implements(cdk.IAnyProducer)
class _Fingerprint:
    def __init__(self, size: DesiredSize) -> None:
        self._size = size

    def produce(self, context: cdk.IResolveContext) -> Any:
        """Return it as it is just then: the last time when the template is written."""
        return self._size.fingerprint


def _window(block: CapacityBlock, closed_max: int) -> dict[str, str | int]:
    return {"Starts": block.starts.isoformat(), "Drained": block.drained_at.isoformat(), "ClosedMax": closed_max}


def _without_references(value: Any, references: list[Any]) -> Any:
    """Return a value with each intrinsic replaced by its number, and collect them."""
    if isinstance(value, Mapping):
        if len(value) == 1 and next(iter(value)).startswith(("Ref", "Fn::")):
            references.append(value)
            return {"Reference": len(references)}
        return {key: _without_references(each, references) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_references(each, references) for each in value]
    return value


@named_arguments
class SizeHandler(Construct):
    """The function that answers for the groups of a cluster in one stack.

    Args:
        cluster: The cluster.

    Attributes:
        arn: Its ARN.
    """

    def __init__(self, scope: Construct, id: str, *, cluster: ClusterRef) -> None:
        super().__init__(scope, id)
        log, logging = own_log(self)
        function = inline_function(
            self,
            package=__package__,
            file="desired_size_handler.py",
            role=_role(self, cluster, logging),
            log=log,
            timeout=_SECONDS - 30,
            environment={"variables": {"TAG": SIZE_TAG}},
        )
        self.arn = function.attr_arn


def _role(scope: Construct, cluster: ClusterRef, logging: dict[str, Any]) -> iam.CfnRole:
    """Return the role of the function: it reads the cluster's groups, and whether its own stack rolls back."""
    stack = cdk.Stack.of(scope)
    eks_arn = f"arn:{stack.partition}:eks:{stack.region}:{stack.account}"
    name = cluster.name_token
    statements: list[dict[str, Any]] = [
        {"Effect": "Allow", "Action": "eks:ListNodegroups", "Resource": f"{eks_arn}:cluster/{name}"},
        {"Effect": "Allow", "Action": "eks:DescribeNodegroup", "Resource": f"{eks_arn}:nodegroup/{name}/*/*"},
        # The action takes no resource.
        {"Effect": "Allow", "Action": "autoscaling:DescribeAutoScalingGroups", "Resource": "*"},
        {"Effect": "Allow", "Action": "cloudformation:DescribeStacks", "Resource": stack.stack_id},
        logging,
    ]
    return role_of_function(scope, {"ReadSizes": policy_document(statements)})

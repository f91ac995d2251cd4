"""The desired size of a managed node group, which a function returns at deployment."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

import aws_cdk as cdk
from aws_cdk import aws_autoscaling as autoscaling
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.installing import eks_resources as eks
from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.installing.context import owning_stack, stack_place
from gpu_constructs.installing.lambda_functions import inline_function, own_log, role_of_function
from gpu_constructs.installing.pod_identity import policy_document
from gpu_constructs.nodes.group_arguments import CLOSED_MAX
from gpu_constructs.pools.capacity import CapacityBlock
from gpu_facts.labels import SIZE_RESOURCE
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import is_number_token

if TYPE_CHECKING:
    from typing_extensions import Self

# Properties that the result sets, and properties that EKS changes by another call, which doesn't change the sizes.
# CloudFormation rejects that call together with any other change of the group, so it must not change the result.
# Sources: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-eks-nodegroup.html
# (Version, ReleaseVersion), https://github.com/aws/aws-cdk/issues/16644 (LaunchTemplate)
_LEFT_OUT = frozenset({"ScalingConfig", "Version", "ReleaseVersion", "LaunchTemplate"})
_SIZES = frozenset({"MinSize", "MaxSize", "DesiredCapacity"})
# Long enough for a few calls with retries, and shorter than the hour for which CloudFormation would wait.
_SECONDS = 120
_TOKEN = re.compile(r"[$#]\{Token\[")
# Reading the name of a subnet or a role is a CDK call, and every group uses the same few.
_NAMES: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


class _Group(cdk.CfnResource):
    """A group whose size is read again whenever the group changes, also by overrides, setters and aspects.

    The class records later changes when they happen. To read them back from the CDK took 44 calls for each group.
    """

    _size: DesiredSize | None = None
    _left_out = _LEFT_OUT

    @classmethod
    def create(cls, scope: Construct, id: str, *, size: DesiredSize | None, **properties: Any) -> Self:
        """Create a group. If it has a `DesiredSize`, the size is read again whenever these properties change."""
        group = cls(scope, id, **properties)
        if size is not None:
            kept = {name: value for name, value in properties.items() if cls._counts(_pascal(name)) and name != "tags"}
            size.track_group(group, kept)
            group._size = size
        return group

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a property, and record it."""
        super().__setattr__(name, value)
        if not name.startswith("_"):
            self._note(_pascal(name), value)

    def add_override(self, path: str, value: Any) -> None:
        """Override a property in the template, and record it. Every other way to override calls this method."""
        super().add_override(path, value)
        self._note(path.removeprefix("Properties."), value)

    def add_dependency(self, target: cdk.CfnResource) -> None:
        """Wait for a resource before the size is read, so that the size can't change between the two."""
        super().add_dependency(target)
        self._run_query_after(target)

    def add_resource_dependency(self, target: cdk.CfnResource, reason: str | None = None) -> None:
        """Newer releases of the CDK call this method."""
        super().add_resource_dependency(target, reason)
        self._run_query_after(target)

    def _run_query_after(self, target: cdk.CfnResource) -> None:
        if self._size is not None:
            self._size.run_after(target)

    def _note(self, path: str, value: Any) -> None:
        if self._size is not None and self._counts(path.partition(".")[0]):
            self._size.note(path, value)

    @classmethod
    def _counts(cls, name: str) -> bool:
        return name not in cls._left_out


class NodeGroup(_Group, eks.CfnNodegroup):
    """A managed node group whose desired size is read at deployment."""


class ScalingGroup(_Group, autoscaling.CfnAutoScalingGroup):
    """An Auto Scaling group whose sizes are read at deployment."""

    _left_out = _SIZES


@named_arguments
class DesiredSize(Construct):
    """The number of nodes of a managed node group at deployment, which no template can state.

    EKS requires all three sizes of a group or none. CloudFormation sets the desired size again whenever it changes the
    group's configuration. So a custom resource runs before the group whenever the configuration changes. It returns the
    number of running nodes, within the group's limits. If the group replaces another one, it returns that group's
    number. For a new group it returns the min size. It keeps its last result if only the version, the image release or
    the launch template changes.

    Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupScalingConfig.html

    Args:
        cluster: Its cluster.
        min_nodes: Number of nodes that always run.
        max_nodes: Max number of nodes.
        block: The Capacity Block that the group uses. Its period then determines all three sizes.
        closed_max: Max number of nodes before and after the block.
        reserved: Whether it has only reserved instances. If it replaces another group that still uses them, it starts
            with the min size.

    Attributes:
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
        reserved: bool = False,
    ) -> None:
        super().__init__(scope, id)
        handler = size_handler(scope, cluster)
        # The L2 of custom resources would need more CDK calls.
        self._resource = cdk.CfnResource(
            self,
            "Resource",
            type=SIZE_RESOURCE,
            properties={
                "ServiceToken": handler.arn,
                "ServiceTimeout": str(_SECONDS),
                "Cluster": cluster.name_token,
                "Min": min_nodes,
                "Max": max_nodes,
                **(_window(block, closed_max) if block is not None else {}),
                **({"Reserved": True} if reserved else {}),
            },
        )
        self._touched: dict[str, Any] = {}
        told = {"minSize": min_nodes, "maxSize": max_nodes}
        if block is not None:
            told = {"minSize": self._number("MinSize"), "maxSize": self._number("MaxSize")}
        self.scaling_config = told | {"desiredSize": self._number("DesiredSize")}

    def track_group(self, group: Any, properties: Mapping[str, Any]) -> None:
        """Run again whenever this group changes. The trigger is a hash of its literals, and its references as values.

        Args:
            group: The group. The function finds it by its logical id.
            properties: Its properties, except its tags, which the CDK adds later.
        """
        references: list[str] = []
        text = json.dumps(_without_references(properties, references), sort_keys=True)
        asked = {
            "LogicalId": group.logical_id,
            "Literals": hashlib.sha256(text.encode()).hexdigest()[:16],
            "References": references,
            "Tags": group.tags.rendered_tags,
        }
        self._resource.add_property_override("Group", asked)

    def note(self, path: str, value: Any) -> None:
        """Run again when a later override of the group changes."""
        references: list[str] = []
        literals = json.dumps(_without_references(value, references), sort_keys=True)
        self._touched[path] = [literals, *references]
        self._resource.add_property_override("Group.Touched", self._touched)

    def run_after(self, target: cdk.CfnResource) -> None:
        """Run after a resource exists."""
        if target is not self._resource:
            # Older releases of the CDK have only the other method.
            add = getattr(self._resource, "add_resource_dependency", self._resource.add_dependency)
            add(target)

    def answer(self, attribute: str) -> str:
        """Return ``MinSize``, ``MaxSize`` or ``DesiredSize`` of the result."""
        return cdk.Token.as_string(self._resource.get_att(attribute))

    def _number(self, attribute: str) -> int:
        return cast("int", cdk.Token.as_number(self._resource.get_att(attribute)))


def _pascal(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _window(block: CapacityBlock, closed_max: int) -> dict[str, str | int]:
    return {"Starts": block.starts.isoformat(), "Drained": block.drained_at.isoformat(), "ClosedMax": closed_max}


def _without_references(value: Any, references: list[str]) -> Any:
    """Return a value with each token replaced by its number, and collect the tokens."""
    if isinstance(value, Mapping):
        return {key: _without_references(each, references) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_references(each, references) for each in value]
    if hasattr(value, "_values"):
        # A jsii struct.
        return _without_references(value._values, references)
    named = _named(value)
    if named is not value or is_number_token(value) or (isinstance(value, str) and _TOKEN.search(value)):
        references.append(named)
        return {"Reference": len(references)}
    return value


def _named(value: Any) -> Any:
    """Return the token with the name of a subnet, a role, or a lazy value. Literals are unchanged."""
    if isinstance(value, (str, int, float, type(None))):
        return value
    if value not in _NAMES:
        _NAMES[value] = (
            getattr(value, "subnet_id", None) or getattr(value, "role_arn", None) or cdk.Token.as_string(value)
        )
    return _NAMES[value]


def size_handler(scope: Construct, cluster: ClusterRef) -> SizeHandler:
    """Return the function that returns the sizes of a cluster's groups, in the stack of a construct."""
    shared = cluster.shared(owning_stack(scope))
    made = shared.size_handler.get_or_make(lambda: SizeHandler(shared, "NodeGroupSize", cluster=cluster))
    return cast("SizeHandler", made)


@named_arguments
class SizeHandler(Construct):
    """The function that returns the sizes of a cluster's groups in one stack, and tags their Auto Scaling groups.

    Args:
        cluster: The cluster.

    Attributes:
        arn: Its ARN.
    """

    def __init__(self, scope: Construct, id: str, *, cluster: ClusterRef) -> None:
        super().__init__(scope, id)
        log, logging = own_log(self)
        self._cluster = cluster
        self._role = _role(self, cluster, logging)
        self._tagging: iam.CfnRolePolicy | None = None
        function = inline_function(
            self,
            package=__package__,
            file="desired_size_handler.py",
            role=self._role,
            log=log,
            timeout=_SECONDS - 30,
        )
        self.arn = function.attr_arn

    @property
    def tagging(self) -> iam.CfnRolePolicy:
        """Policy that allows the function to tag. There is one, for any number of groups and tags."""
        if self._tagging is None:
            place = stack_place(self)
            groups = f"arn:{place.partition}:autoscaling:{place.region}:{place.account}:autoScalingGroup:*"
            statement = {
                "Effect": "Allow",
                "Action": ["autoscaling:CreateOrUpdateTags", "autoscaling:DeleteTags"],
                "Resource": f"{groups}:autoScalingGroupName/eks-*",
                "Condition": {"StringEquals": {"aws:ResourceTag/eks:cluster-name": self._cluster.name_token}},
            }
            self._tagging = iam.CfnRolePolicy(
                self,
                "TagGroups",
                role_name=self._role.ref,
                policy_name="TagGroups",
                policy_document=policy_document([statement]),
            )
        return self._tagging


def _role(scope: Construct, cluster: ClusterRef, logging: dict[str, Any]) -> iam.CfnRole:
    """Return the role of the function. It may read the cluster's groups and the status of the function's stack."""
    place = stack_place(scope)
    groups = f"arn:{place.partition}:eks:{place.region}:{place.account}:nodegroup/{cluster.name_token}/*/*"
    own_stack = ["cloudformation:DescribeStacks", "cloudformation:DescribeStackResource"]
    statements: list[dict[str, Any]] = [
        {"Effect": "Allow", "Action": "eks:DescribeNodegroup", "Resource": groups},
        # The action supports no resource.
        {"Effect": "Allow", "Action": "autoscaling:DescribeAutoScalingGroups", "Resource": "*"},
        {"Effect": "Allow", "Action": own_stack, "Resource": owning_stack(scope).stack_id},
        logging,
    ]
    return role_of_function(scope, {"ReadSizes": policy_document(statements)})

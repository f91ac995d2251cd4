"""The wanted size of a managed node group, asked for at deployment instead of stated in the template."""

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
from gpu_constructs.installing.kubectl_programs import inline_function, own_log, role_of_function
from gpu_constructs.installing.own_stack import owning_stack, stack_place
from gpu_constructs.installing.pod_identity import policy_document
from gpu_constructs.nodes.group_arguments import CLOSED_MAX
from gpu_constructs.pools.capacity import CapacityBlock
from gpu_facts.labels import SIZE_RESOURCE
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import is_number_token

if TYPE_CHECKING:
    from typing_extensions import Self

# What the answer fills in, and what EKS changes by another call, which leaves the sizes alone. CloudFormation rejects
# that call together with any other change of the group, so it must not move the answer.
# Sources: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-eks-nodegroup.html
# (Version, ReleaseVersion), https://github.com/aws/aws-cdk/issues/16644 (LaunchTemplate)
_LEFT_OUT = frozenset({"ScalingConfig", "Version", "ReleaseVersion", "LaunchTemplate"})
_SIZES = frozenset({"MinSize", "MaxSize", "DesiredCapacity"})
# Longer than a few calls take with retries; shorter than the hour that CloudFormation would wait.
_SECONDS = 120
_TOKEN = re.compile(r"[$#]\{Token\[")
# What a subnet and a role are called crosses to the CDK, and every group asks for the same few.
_NAMES: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


class _Group(cdk.CfnResource):
    """A group whose size is asked for again whenever the group changes, also by overrides, setters and aspects.

    What changes it afterwards is noted where it happens. To read it back from the CDK took 44 calls a group.
    """

    _size: DesiredSize | None = None
    _left_out = _LEFT_OUT

    @classmethod
    def create(cls, scope: Construct, id: str, *, size: DesiredSize | None, **properties: Any) -> Self:
        """Make a group whose size, where there is one, is asked for whenever these properties change."""
        group = cls(scope, id, **properties)
        if size is not None:
            kept = {name: value for name, value in properties.items() if cls._counts(_pascal(name)) and name != "tags"}
            size.track_group(group, kept)
            group._size = size
        return group

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a property, and note it."""
        super().__setattr__(name, value)
        if not name.startswith("_"):
            self._note(_pascal(name), value)

    def add_override(self, path: str, value: Any) -> None:
        """Override what CloudFormation gets, and note it; every other way to override calls this one."""
        super().add_override(path, value)
        self._note(path.removeprefix("Properties."), value)

    def add_dependency(self, target: cdk.CfnResource) -> None:
        """Wait for a resource, and have the question wait for it too, so that nothing happens between the two."""
        super().add_dependency(target)
        self._run_query_after(target)

    def add_resource_dependency(self, target: cdk.CfnResource, reason: str | None = None) -> None:
        """As newer releases of the CDK call it."""
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
    """A managed node group whose wanted size is asked for."""


class ScalingGroup(_Group, autoscaling.CfnAutoScalingGroup):
    """An Auto Scaling group whose sizes are asked for."""

    _left_out = _SIZES


@named_arguments
class DesiredSize(Construct):
    """The number of nodes that a managed group has when it is deployed, which no template can know.

    EKS asks for all three sizes of a group or for none, and CloudFormation sets the wanted one again whenever it
    changes the group's configuration. The resource is asked whenever that changes, before the group, and answers what
    runs, within the group's bounds; for a group that takes the place of another, what runs there; for a first one, the
    least. It keeps its last answer when only
    the version, the image release or the launch template change.

    Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupScalingConfig.html

    Args:
        cluster: Its cluster.
        min_nodes: Nodes that always run.
        max_nodes: Most nodes.
        block: The Capacity Block that the group spends, whose window then decides all three sizes.
        closed_max: Most nodes before the block and after it.
        reserved: Whether it has reserved instances only. In the place of another group, which holds them, it starts
            with the least.

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
        # The L2 of custom resources would take calls more.
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
        """Ask again whenever this group changes: a hash of its literals, and what they refer to, which no hash sees.

        Args:
            group: The group, by whose logical id the function finds it.
            properties: What it is made with, but for its tags, which the CDK still adds to.
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
        """Ask again when what somebody changes of the group afterwards changes."""
        references: list[str] = []
        literals = json.dumps(_without_references(value, references), sort_keys=True)
        self._touched[path] = [literals, *references]
        self._resource.add_property_override("Group.Touched", self._touched)

    def run_after(self, target: cdk.CfnResource) -> None:
        """Ask after a resource is there."""
        if target is not self._resource:
            # Older releases of the CDK have the other one only.
            add = getattr(self._resource, "add_resource_dependency", self._resource.add_dependency)
            add(target)

    def answer(self, attribute: str) -> str:
        """Return ``MinSize``, ``MaxSize`` or ``DesiredSize`` of the answer."""
        return cdk.Token.as_string(self._resource.get_att(attribute))

    def _number(self, attribute: str) -> int:
        return cast("int", cdk.Token.as_number(self._resource.get_att(attribute)))


def _pascal(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _window(block: CapacityBlock, closed_max: int) -> dict[str, str | int]:
    return {"Starts": block.starts.isoformat(), "Drained": block.drained_at.isoformat(), "ClosedMax": closed_max}


def _without_references(value: Any, references: list[str]) -> Any:
    """Return a value with each token replaced by its number, and collect them."""
    if isinstance(value, Mapping):
        return {key: _without_references(each, references) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_references(each, references) for each in value]
    if hasattr(value, "_values"):
        # A struct of jsii.
        return _without_references(value._values, references)
    named = _named(value)
    if named is not value or is_number_token(value) or (isinstance(value, str) and _TOKEN.search(value)):
        references.append(named)
        return {"Reference": len(references)}
    return value


def _named(value: Any) -> Any:
    """Return the token that names a subnet, a role, or what is resolved later; literals as they are."""
    if isinstance(value, (str, int, float, type(None))):
        return value
    if value not in _NAMES:
        _NAMES[value] = (
            getattr(value, "subnet_id", None) or getattr(value, "role_arn", None) or cdk.Token.as_string(value)
        )
    return _NAMES[value]


def size_handler(scope: Construct, cluster: ClusterRef) -> SizeHandler:
    """Return the function that answers for the groups of a cluster in the stack of a construct."""
    shared = cluster.shared(owning_stack(scope))
    made = shared.size_handler.get_or_make(lambda: SizeHandler(shared, "NodeGroupSize", cluster=cluster))
    return cast("SizeHandler", made)


@named_arguments
class SizeHandler(Construct):
    """The function that answers for the groups of a cluster in one stack, and tags their Auto Scaling groups.

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
        """What lets the function tag: one policy, however many groups and tags there are."""
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
    """Return the role of the function: it reads the cluster's groups, and how its own stack is."""
    place = stack_place(scope)
    groups = f"arn:{place.partition}:eks:{place.region}:{place.account}:nodegroup/{cluster.name_token}/*/*"
    own_stack = ["cloudformation:DescribeStacks", "cloudformation:DescribeStackResource"]
    statements: list[dict[str, Any]] = [
        {"Effect": "Allow", "Action": "eks:DescribeNodegroup", "Resource": groups},
        # The action takes no resource.
        {"Effect": "Allow", "Action": "autoscaling:DescribeAutoScalingGroups", "Resource": "*"},
        {"Effect": "Allow", "Action": own_stack, "Resource": owning_stack(scope).stack_id},
        logging,
    ]
    return role_of_function(scope, {"ReadSizes": policy_document(statements)})

"""Tags that `Tags.of(...)` of the CDK gives to nodes, which no property of a node group hands on to them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

import aws_cdk as cdk
import constructs
import jsii
from constructs import Construct

from gpu_constructs.installing.gitops import with_outputs
from gpu_facts.labels import CLUSTER_TAG, KARPENTER_AWS_DOMAIN, KARPENTER_DOMAIN, NODE_POOL
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import has_token

# What EC2 launches with a node; a tag policy may ask for tags on each.
_LAUNCHED = ("instance", "volume", "network-interface")
# Source: EC2NodeClass CRD of karpenter-provider-aws v1.14.1 (spec.tags)
_RESERVED = ("eks:eks-cluster-name", NODE_POOL, f"{KARPENTER_DOMAIN}/nodeclaim", f"{KARPENTER_AWS_DOMAIN}/ec2nodeclass")
# `Tags.of(...)` of the CDK has 100.
_ABOVE_THE_SCOPES = 1_000_000
_NO_TAGS: Mapping[str, str] = MappingProxyType({})


@jsii.implements(cdk.ITaggable, constructs.IValidation)
@named_arguments
class NodeTags(Construct):
    """Where tags of a scope end that are meant for its nodes; no resource of its own.

    EKS keeps the tags of a managed group to itself, and Auto Scaling puts those of a group on instances alone: volumes
    and network interfaces get what the launch template says.
    Source: https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html (2026-11)

    Args:
        name: Value of the tag ``Name``, unless the scope has one; volumes and network interfaces have it, too.
        own: Tags that the nodes have whatever the scope's are.
        in_file: Whether they are written to a file, which knows nothing of a deployment.
    """

    def __init__(
        self, scope: Construct, id: str, *, name: str, own: Mapping[str, str] = _NO_TAGS, in_file: bool = False
    ) -> None:
        named = {"Name": name}
        if in_file:
            path = f"{scope.node.path.removeprefix(cdk.Stack.of(scope).node.path).strip('/')}/NodeClass/spec/tags"
            named, own = with_outputs(scope, named, path), with_outputs(scope, dict(own), path)
        initial = [{"key": key, "value": value} for key, value in named.items()]
        # The CDK asks a construct for its tags as soon as it is there.
        self._manager = cdk.TagManager(cdk.TagType.STANDARD, "AWS::EC2::Instance", initial)
        for key, value in own.items():
            self._manager.set_tag(key, value, _ABOVE_THE_SCOPES)
        super().__init__(scope, id)
        if in_file:
            self.node.add_validation(self)

    @property
    def tags(self) -> cdk.TagManager:
        """What `Tags.of(...)` talks to, by the resource type ``AWS::EC2::Instance``."""
        return self._manager

    def validate(self) -> list[str]:
        """Return what only deployment tells, which no file can have."""
        late = [key for key, value in self.of_node_class().items() if has_token(value)]
        return [
            f"{self.node.path}: tag {key!r} must be known at synth to be written to a file, got one that only "
            "deployment tells; leave AWS::EC2::Instance out with exclude_resource_types"
            for key in late
        ]

    @cached_property
    def specifications(self) -> cdk.IResolvable:
        """``TagSpecifications`` of a launch template, rendered by the CDK with what is known when it is written."""
        tags = self._manager.rendered_tags
        return cdk.Token.as_any([{"resourceType": kind, "tags": tags} for kind in _LAUNCHED])

    def of_node_class(self) -> dict[str, str]:
        """Return ``tags`` of an EC2NodeClass, without those that Karpenter keeps for itself and refuses."""
        cluster = CLUSTER_TAG.rstrip("/")
        return {
            key: value
            for key, value in self._manager.tag_values().items()
            if key not in _RESERVED and not key.startswith(cluster)
        }

    @property
    def late_of_node_class(self) -> cdk.IResolvable:
        """``tags`` of an EC2NodeClass with what is known when the template is written."""
        return cdk.Lazy.uncached_any(_Late(self.of_node_class))


@jsii.implements(cdk.IAnyProducer)
class _Late:
    def __init__(self, produce: Any) -> None:
        self._produce = produce

    def produce(self, context: cdk.IResolveContext) -> Any:
        """Return it as it is just then."""
        return self._produce()

"""CloudFormation's EKS resources, and logical ids that depend on their identity in the cluster, never on their path.

CloudFormation creates the resource with a new logical id before it deletes the resource with the old one. If one object
had two ids over time, the deletion of the old one would delete the object. If two objects had one id, nothing would
delete the first.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, Protocol

import aws_cdk as cdk
from aws_cdk import aws_eks_v2

from gpu_facts.refusals import has_token

# They are in ``aws_eks_v2`` since aws-cdk-lib 2.268, before only in ``aws_eks``.
if TYPE_CHECKING or hasattr(aws_eks_v2, "CfnCluster"):
    from aws_cdk.aws_eks_v2 import CfnAccessEntry, CfnAddon, CfnCluster, CfnNodegroup, CfnPodIdentityAssociation
else:
    from aws_cdk.aws_eks import CfnAccessEntry, CfnAddon, CfnCluster, CfnNodegroup, CfnPodIdentityAssociation

__all__ = ["CfnAccessEntry", "CfnAddon", "CfnCluster", "CfnNodegroup", "CfnPodIdentityAssociation", "set_logical_id"]

# An id has at most 255 characters, and no kind of object more than 63.
# Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/resources-section-structure.html
_NAME_LENGTH = 100


class _Identified(Protocol):
    """A cluster with a value that no other cluster of the app has."""

    @property
    def identity(self) -> str: ...


def set_logical_id(resource: Any, cluster: _Identified, kind: str, name: str, *identity: str) -> None:
    """Set the logical id of a resource that exists once in the cluster.

    Args:
        resource: The resource.
        cluster: Its cluster.
        kind: First part of the id: letters and digits.
        name: Second part of the id, as far as it consists of letters and digits.
        identity: Further values that differ between two resources of one kind and name.
    """
    written = [_written(resource, each) for each in (name, *identity)]
    content = json.dumps([cluster.identity, kind, *written])
    readable = "" if has_token(name) else _words(name)
    resource.override_logical_id(f"{kind}{readable}{hashlib.sha256(content.encode()).hexdigest()[:8].upper()}")


def _written(resource: Any, value: str) -> str:
    """Return a value as the template writes it, because a token has another text in the next synth."""
    return json.dumps(cdk.Stack.of(resource).resolve(value), sort_keys=True) if has_token(value) else value


def _words(name: str) -> str:
    return "".join(each[0].upper() + each[1:] for each in re.findall(r"[A-Za-z0-9]+", name))[:_NAME_LENGTH]

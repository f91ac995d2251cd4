"""What the driver for buckets may do: few policies for many volumes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import aws_cdk as cdk
import jsii
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.installing.own_stack import stack_of
from gpu_constructs.installing.pod_identity import policy_document
from gpu_constructs.installing.shared import CsiDriver
from gpu_facts.iam_policies import MAX_ATTACHED, MAX_INLINE, MAX_MANAGED, policy_size
from gpu_facts.light_patterns import regex
from gpu_facts.named_arguments import named_arguments

_ID = "S3Permissions"
# An ARN of a bucket has at most 83 characters, and one of a key 90.
# Sources: https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html,
# https://docs.aws.amazon.com/kms/latest/developerguide/concepts.html#key-id-key-ARN (2026-11)
_LONGEST_ARN = 90
_LONGEST_PARTITION = "aws-us-gov"
_PARTITION = regex(r"\$\{Token\[AWS\.Partition\.\d+\]\}")
# A volume and its key take 640 at most, so that 16 stacks or more can have one.
_MAX_OF_A_STACK = 640
_INLINE = "Policy"
_Statements = list[dict[str, Any]]


def driver_permissions(construct: Construct, cluster: ClusterRef, driver: CsiDriver) -> DriverPermissions:
    """Return the policies of the volumes of one stack: the stack of the cluster must not depend on their buckets."""
    shared = cluster.shared(stack_of(construct))
    found = shared.node.try_find_child(_ID)
    return found if isinstance(found, DriverPermissions) else DriverPermissions(shared, _ID, driver=driver)


@named_arguments
class DriverPermissions(Construct):
    """Policies of a driver's role, with the statements of all volumes of a stack.

    A role has 10,240 characters of inline policies, which is 26 volumes with one policy each, and 10 managed policies.
    So a stack with one or two volumes has an inline policy, and any other stack has managed policies. The name of a
    volume decides which of these has its statements, so that another volume moves none. If one grows too large, the
    last one gets a successor, which takes statements of all others. Each policy depends on its successor, so that a
    deployment adds statements there before it removes them here.

    Args:
        driver: The driver.
    """

    def __init__(self, scope: Construct, id: str, *, driver: CsiDriver) -> None:
        super().__init__(scope, id)
        self._driver = driver
        self._inline: iam.CfnRolePolicy | None = None
        self._managed: list[iam.CfnManagedPolicy] = []
        self._volumes: dict[str, _Statements] = {}
        driver.permissions.append(self)

    def allow(self, who: object, volume: str, statements: _Statements) -> None:
        """Add the statements of a volume.

        Args:
            who: The construct of the volume.
            volume: Value that differs from that of any other volume of the cluster.
            statements: What the driver may do for it.

        Raises:
            ValueError: IAM doesn't allow the role so many statements.
        """
        self._volumes[volume] = statements
        if not self._managed and _size(self.document()) <= _MAX_OF_A_STACK:
            self._inline = self._inline or self._make_inline()
        else:
            if self._inline is not None:
                self.node.try_remove_child(_INLINE)
                self._inline = None
            while not self._managed or any(_size(self.document(each)) > MAX_MANAGED for each in self._numbers):
                self._add_managed()
                self._refuse_too_many(who)
        self._refuse_too_many(who)

    def _refuse_too_many(self, who: object) -> None:
        stacks: list[DriverPermissions] = self._driver.permissions
        managed = sum(len(each._managed) for each in stacks)
        inline = sum(_size(each.document()) for each in stacks if each._inline is not None)
        if managed > MAX_ATTACHED or inline > MAX_INLINE:
            volumes = sum(len(each._volumes) for each in stacks)
            raise ValueError(
                f"{who}: identity must be given, got None with permissions of {volumes} volumes in {len(stacks)} "
                f"stacks that don't fit in the {MAX_ATTACHED} managed policies of {MAX_MANAGED:,} characters and the "
                f"{MAX_INLINE:,} characters of inline policies that IAM allows the role of the driver; pass "
                "identity=WorkloadIdentity(...), which mounts the volume with a role of its own, or define the volumes "
                "in fewer stacks"
            )

    def _make_inline(self) -> iam.CfnRolePolicy:
        return iam.CfnRolePolicy(
            self,
            _INLINE,
            role_name=self._driver.role.ref,
            policy_name=cdk.Names.unique_resource_name(self, max_length=128),
            policy_document=cdk.Lazy.any(_Document(self, None)),
        )

    def _add_managed(self) -> None:
        number = len(self._managed)
        made = iam.CfnManagedPolicy(
            self,
            f"Policy{number + 1}",
            roles=[self._driver.role.ref],
            policy_document=cdk.Lazy.any(_Document(self, number)),
        )
        if self._managed:
            self._managed[-1].node.add_dependency(made)
        self._managed.append(made)

    @property
    def _numbers(self) -> range:
        return range(len(self._managed))

    def document(self, number: int | None = None) -> dict[str, Any]:
        """Return the document of one of the managed policies, or with all statements."""
        own = (
            each
            for volume, each in self._volumes.items()
            if number is None or _place(volume, len(self._managed)) == number
        )
        return policy_document(_merged(statement for each in own for statement in each))


def _size(document: Mapping[str, Any]) -> int:
    text = json.dumps(document, separators=(",", ":"))
    return policy_size(_PARTITION.sub(_LONGEST_PARTITION, text), open_characters=_LONGEST_ARN)


@jsii.implements(cdk.IStableAnyProducer)
class _Document:
    """A policy document that is known when every volume has been defined."""

    def __init__(self, permissions: DriverPermissions, number: int | None) -> None:
        self._permissions, self._number = permissions, number

    def produce(self) -> Any:
        """Return the document."""
        return self._permissions.document(self._number)


def _place(volume: str, policies: int) -> int:
    """Return the number of the policy with the statements of a volume: one policy more takes from all others."""
    return max(range(policies), key=lambda number: hashlib.sha256(f"{number}/{volume}".encode()).digest())


def _merged(statements: Iterable[Mapping[str, Any]]) -> _Statements:
    """Return fewer statements that allow exactly the same: with all prefixes of a bucket, and with all resources."""
    prefixes: dict[tuple[tuple[str, ...], str], dict[str | None, None]] = {}
    for each in statements:
        prefix = each.get("Condition", {}).get("StringLike", {}).get("s3:prefix")
        prefixes.setdefault((tuple(each["Action"]), each["Resource"]), {})[prefix] = None
    resources: dict[tuple[tuple[str, ...], tuple[str | None, ...]], list[str]] = {}
    for (actions, resource), found in prefixes.items():
        # A statement without a prefix allows what others for the same bucket allow with one.
        resources.setdefault((actions, () if None in found else tuple(found)), []).append(resource)
    return [
        {
            "Effect": "Allow",
            "Action": list(actions),
            "Resource": _single(each),
            **({"Condition": {"StringLike": {"s3:prefix": _single(limits)}}} if limits else {}),
        }
        for (actions, limits), each in resources.items()
    ]


def _single(values: Sequence[Any]) -> Any:
    return values[0] if len(values) == 1 else list(values)

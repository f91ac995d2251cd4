"""The zones of an `ec2.Vpc`, without the lookup in the account that CDK makes for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import aws_cdk as cdk
import jsii
from constructs import Construct, Node


@contextmanager
def zones_without_lookup(scope: Construct, zones: Sequence[str]) -> Iterator[None]:
    """Answer `Stack.availability_zones` with these zones, as if CDK had looked them up.

    `ec2.Vpc` reads that property also if it gets the names of its zones. In a stack with an account and a region, the
    property reports a missing context value, and the CDK CLI then asks AWS for it, which takes credentials. Only the
    context of the stack or a parent can answer instead. It is reset at the end, so that other networks of the stack
    still look up their own zones.

    Zones that the context already has are used as they are: a network that was deployed with them stays in them.

    Source: aws-cdk-lib 2.275.0, aws-ec2/lib/vpc.ts and core/lib/stack.ts (2026-11)
    """
    stack = cdk.Stack.of(scope)
    if cdk.Token.is_unresolved(stack.account) or cdk.Token.is_unresolved(stack.region):
        yield
        return
    key = cdk.ContextProvider.get_key(stack, provider="availability-zones").key
    if stack.node.try_get_context(key) is not None:
        yield
        return
    _set_context(stack, key, list(zones))
    try:
        yield
    finally:
        _set_context(stack, key, None)


def _set_context(scope: Construct, key: str, value: list[str] | None) -> None:
    """Set a context value of a construct that may have children.

    `Node.set_context` rejects that, because children may have read the old value. So the children leave the tree for
    the call, and return in their order: a new `Node` adds its construct to its parent, and the construct keeps the one
    it has. `Node(...)` itself rejects children that were made in JavaScript, for which Python has no class.

    Source: constructs 10.8.1, src/construct.ts (2026-11)
    """
    children = {each.node.id: each for each in scope.node.children}
    for id in children:
        scope.node.try_remove_child(id)
    try:
        scope.node.set_context(key, value)
    finally:
        for id, each in children.items():
            jsii.create(Node, Node.__new__(Node), [each, scope, id])

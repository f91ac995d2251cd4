"""Attributes of a construct's stack. Each CDK call crosses a process boundary, so results are cached."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import ReferenceType, WeakKeyDictionary

import aws_cdk as cdk
from constructs import Construct

_STACKS: WeakKeyDictionary[object, ReferenceType[cdk.Stack]] = WeakKeyDictionary()


def owning_stack(construct: Construct) -> cdk.Stack:
    """Return the stack of a construct."""
    known = _STACKS.get(construct)
    found = known() if known is not None else None
    if found is None:
        found = cdk.Stack.of(construct)
        _STACKS[construct] = ReferenceType(found)
    return found


def keep_stack(construct: Construct, scope: Construct) -> None:
    """Record that a construct is in the stack of its scope, to save a call to the CDK."""
    _STACKS[construct] = ReferenceType(owning_stack(scope))


@dataclass(frozen=True, slots=True)
class Place:
    """Account and region of a stack. Each is a token unless the stack sets it."""

    partition: str
    region: str
    account: str


_PLACES: WeakKeyDictionary[cdk.Stack, Place] = WeakKeyDictionary()


def stack_place(construct: Construct) -> Place:
    """Return account and region of a construct's stack."""
    stack = owning_stack(construct)
    if stack not in _PLACES:
        _PLACES[stack] = Place(stack.partition, stack.region, stack.account)
    return _PLACES[stack]

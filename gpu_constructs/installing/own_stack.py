"""What constructs ask of their stack. Each question to the CDK crosses a process boundary, so answers are kept."""

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
    """Note that a construct is in the stack of its scope, so that the CDK is asked for the scope alone."""
    _STACKS[construct] = ReferenceType(owning_stack(scope))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a stack is deployed: tokens, unless the stack names its region or account."""

    partition: str
    region: str
    account: str


_PLACES: WeakKeyDictionary[cdk.Stack, Place] = WeakKeyDictionary()


def stack_place(construct: Construct) -> Place:
    """Return where the stack of a construct is deployed."""
    stack = owning_stack(construct)
    if stack not in _PLACES:
        _PLACES[stack] = Place(stack.partition, stack.region, stack.account)
    return _PLACES[stack]

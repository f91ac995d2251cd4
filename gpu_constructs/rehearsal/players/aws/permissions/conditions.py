"""Conditions of policies: operators over the context of a call.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpu_constructs.rehearsal.players.aws.permissions.context import Context, is_known

_VARIABLE = re.compile(r"\$\{([^}]*)\}")


class Unjudged(Exception):
    """Something of a policy that this evaluator does not know. Nobody is let through on it."""


def matches(pattern: str, value: str) -> bool:
    """Return whether a value is like a pattern, in which ``*`` stands for anything and ``?`` for one character."""
    parts = (".*" if each == "*" else "." if each == "?" else re.escape(each) for each in pattern)
    return re.fullmatch("".join(parts), value, re.DOTALL) is not None


def matches_arn(pattern: str, value: str) -> bool:
    """Return whether an ARN is like a pattern, field by field."""
    wanted, found = pattern.split(":", 5), value.split(":", 5)
    return len(wanted) == len(found) == 6 and all(matches(one, other) for one, other in zip(wanted, found, strict=True))


_POSITIVE: dict[str, Callable[[str, str], bool]] = {
    "StringEquals": lambda wanted, found: wanted == found,
    "StringEqualsIgnoreCase": lambda wanted, found: wanted.lower() == found.lower(),
    "StringLike": matches,
    "ArnEquals": matches_arn,
    "ArnLike": matches_arn,
    "Bool": lambda wanted, found: wanted.lower() == found.lower(),
}
_NEGATIVE = {
    "StringNotEquals": "StringEquals",
    "StringNotEqualsIgnoreCase": "StringEqualsIgnoreCase",
    "StringNotLike": "StringLike",
    "ArnNotEquals": "ArnEquals",
    "ArnNotLike": "ArnLike",
}


def holds(condition: Mapping[str, Any], context: Context) -> bool:
    """Return whether every operator of a condition holds for every key.

    Args:
        condition: The ``Condition`` of a statement.
        context: The keys of a call.

    Raises:
        Unjudged: An operator or a key is not known.
    """
    found = {key.lower(): tuple(values) for key, values in context.items()}
    asked = [(operator, key, wanted) for operator, keys in condition.items() for key, wanted in keys.items()]
    for _, key, _ in asked:
        if not is_known(key):
            raise Unjudged(f"the condition key {key}")
    # All are worked out, so that an operator nobody knows is told even beside one that does not hold.
    return all([_holds(operator, found.get(key.lower()), _listed(wanted), found) for operator, key, wanted in asked])


def _holds(said: str, found: Sequence[str] | None, wanted: list[str], context: Context) -> bool:
    """Return whether one operator holds for the values of one key."""
    quantifier, _, operator = said.rpartition(":")
    operator, if_exists = operator.removesuffix("IfExists"), operator.endswith("IfExists")
    if operator == "Null":
        return (found is None) == (wanted[0].lower() == "true")
    test = _test(operator, [_filled(each, context) for each in wanted])
    if found is None:
        return if_exists or quantifier == "ForAllValues" or (not quantifier and operator in _NEGATIVE)
    if quantifier == "ForAllValues":
        return all(test(each) for each in found)
    if quantifier == "ForAnyValue" or (not quantifier and len(found) == 1):
        return any(test(each) for each in found)
    raise Unjudged(f"the operator {said} for {len(found)} values")


def _test(operator: str, wanted: list[str]) -> Callable[[str], bool]:
    if operator in _POSITIVE:
        return lambda value: any(_POSITIVE[operator](each, value) for each in wanted)
    if operator in _NEGATIVE:
        return lambda value: not any(_POSITIVE[_NEGATIVE[operator]](each, value) for each in wanted)
    raise Unjudged(f"the condition operator {operator}")


def _filled(pattern: str, context: Context) -> str:
    """Return a value with the variables in it filled in.

    Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_variables.html
    """

    def value_of(variable: re.Match[str]) -> str:
        values = context.get(variable[1].lower(), ())
        if len(values) != 1:
            raise Unjudged(f"the policy variable {variable[0]}")
        return values[0]

    return _VARIABLE.sub(value_of, pattern)


def _listed(values: Any) -> list[str]:
    several = values if isinstance(values, list) else [values]
    return [str(each).lower() if isinstance(each, bool) else str(each) for each in several]

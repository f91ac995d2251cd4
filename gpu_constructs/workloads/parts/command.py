"""The words of a container's command and its arguments."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from gpu_facts.access_tokens import token_in
from gpu_facts.refusals import refuse_unless_strings

# What only a shell understands.
_OF_A_SHELL = frozenset({"&&", "||", "|", ";", "&", ">", ">>", "<"})


def command_words(who: object, argument: str, value: object) -> tuple[str, ...]:
    """Return a command, or its arguments, as Kubernetes takes it: each word on its own, and no shell.

    Raises:
        TypeError: It is one string, or a word is none.
        ValueError: An access token is in it.
    """
    if isinstance(value, str):
        _refuse_tokens(who, argument, [value])
        raise TypeError(f"{who}: {argument} must be a list of strings, got {value!r}; write {_split(argument, value)}")
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{who}: {argument} must be a list of strings, got {value!r}")
    _refuse_tokens(who, argument, [each for each in value if isinstance(each, str)])
    refuse_unless_strings(who, argument, value, as_text=True)
    return tuple(value)


def _split(argument: str, line: str) -> list[str]:
    try:
        found = shlex.split(line)
    except ValueError:
        return [line]
    if argument == "command" and any(each in _OF_A_SHELL or each.endswith(";") for each in found):
        return ["sh", "-c", line]
    return found


def _refuse_tokens(who: object, argument: str, words: Sequence[str]) -> None:
    kind = next((found for each in words if (found := token_in(each)) is not None), None)
    if kind is not None:
        raise ValueError(
            f"{who}: {argument} must name no secret in the template, got {kind}; put it into a Secret of the cluster, "
            "take a variable from it by SecretKey, and write $(NAME) here [GPU413]"
        )

"""Errors for wrong, missing and unnamed arguments, with a suggestion, instead of Python's plain TypeError."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from inspect import Parameter
from types import UnionType
from typing import Any, ParamSpec, TypeVar, get_args

from gpu_facts.refusals import did_you_mean

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")
_OF_A_CONSTRUCT = ["scope", "id"]
_MAX_LISTED = 10
_PLAIN = (str, int, float, bool, type(None))


def named_arguments(cls: type[T]) -> type[T]:
    """Explain wrong argument names in errors of a class. Put it above ``@dataclass``.

    Python itself binds the arguments, so a correct call has only one additional call, 0.3 us.
    """
    kind: Any = cls
    own = kind.__init__

    @functools.wraps(own)
    def init(self: Any, /, *args: Any, **kwargs: Any) -> None:
        try:
            own(self, *args, **kwargs)
        except TypeError as error:
            if not _was_not_called(error):
                raise
            called = type(self) if type(self).__init__ is init else cls
            raise TypeError(_Call(called, _parameters(own)[1:], args, kwargs).refusal) from None

    kind.__init__ = init
    return cls


def named_call(function: Callable[P, R]) -> Callable[P, R]:
    """Explain wrong argument names in errors of a function, or of a method of a construct."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            if not _was_not_called(error):
                raise
            parameters = _parameters(function)
            bound = args[:1] if parameters[:1] and parameters[0].name == "self" else ()
            rest = parameters[len(bound) :], args[len(bound) :]
            raise TypeError(_Call(function, *rest, kwargs, *bound).refusal) from None

    return call


def _was_not_called(error: TypeError) -> bool:
    """Whether Python couldn't bind the arguments of a call. The traceback then has no frame of the function."""
    return error.__traceback__ is not None and error.__traceback__.tb_next is None


def _parameters(function: Callable[..., object]) -> tuple[Parameter, ...]:
    return tuple(inspect.signature(function).parameters.values())


@dataclass(frozen=True, slots=True)
class _Call:
    """A call whose arguments Python couldn't bind. ``owner`` has the method."""

    called: Callable[..., object]
    parameters: Sequence[Parameter]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    owner: object = None

    @property
    def refusal(self) -> str:
        """Name of the called object, and its first fault."""
        checks = (self._unknown, self._unnamed, self._twice, self._missing)
        return f"{self._who}: {next(wrong for check in checks if (wrong := check()))}"

    @property
    def _names(self) -> list[str]:
        return [each.name for each in self.parameters]

    @property
    def _positional(self) -> list[str]:
        return [each.name for each in self.parameters if each.kind is not Parameter.KEYWORD_ONLY]

    @property
    def _placed(self) -> dict[str, Any]:
        """Arguments that were passed by position."""
        return dict(zip(self._positional, self.args, strict=False))

    @property
    def _is_construct(self) -> bool:
        return self._names[:2] == _OF_A_CONSTRUCT

    @property
    def _who(self) -> str:
        """The path of a construct, or the path that it would have, or the name of another called object."""
        given = {**self.kwargs, **self._placed}
        node: Any = getattr(self.owner if self.owner is not None else given.get("scope"), "node", None)
        if self.owner is not None and node is not None:
            return f"{node.path}.{self.called.__name__}"
        known = self._is_construct and node is not None and isinstance(given.get("id"), str)
        return f"{node.path}/{given['id']}".lstrip("/") if known else self.called.__name__

    def _unknown(self) -> str:
        wrong = next((each for each in self.kwargs if each not in self._names), None)
        if wrong is None:
            return ""
        known = self._names[2:] if self._is_construct else self._names
        # A long list would hide the suggestion, which is certain enough to replace the list.
        certain = _longer(wrong, known) or did_you_mean(wrong, known, closeness=0.8) or self._accepting(wrong)
        fix = certain or did_you_mean(wrong, known) or _shorter(wrong, known) or self._alternative(wrong)
        is_short = bool(certain) and len(known) > _MAX_LISTED
        names = f"one that {self.called.__name__} accepts" if is_short else f"one of {', '.join(known)}"
        rule = f"argument must be {names}" if known else "number of arguments must be 0"
        return f"{rule}, got {wrong!r}{fix or self._needed(wrong)}"

    def _accepting(self, name: str) -> str:
        """Return the argument that accepts the class of a value: ``auto_mode`` for ``compute=AutoMode()``."""
        value = self.kwargs[name]
        kind = value if isinstance(value, type) else type(value)
        if kind in _PLAIN:
            return ""
        module = vars(sys.modules[self.called.__module__])
        free = [each for each in self.parameters if each.name not in (*self._placed, *self.kwargs)]
        names = [each.name for each in free if kind in _kinds(str(each.annotation), module)]
        return f"; write {names[0]}=..." if len(names) == 1 else ""

    def _needed(self, wrong: str) -> str:
        """Return the fix if one required argument is missing, which the unknown argument probably means."""
        if len(self._absent) != 1:
            return ""
        [name] = self._absent
        given = {each: value for each, value in self.kwargs.items() if each != wrong}
        fix = self._suggested_fix({**given, name: self.kwargs[wrong]})
        return f"; {fix}" if fix else f"; write {name}=...{self._meaning(name)}"

    def _alternative(self, name: str) -> str:
        """Return the class of a union such as ``Size = UpTo | Static`` that has the argument."""
        module = vars(sys.modules[self.called.__module__])
        unions = [get_args(each) for each in module.values() if isinstance(each, UnionType)]
        others = dict.fromkeys(each for union in unions if self.called in union for each in union)
        having: list[Any] = [each for each in others if is_dataclass(each)]
        having = [each for each in having if name in inspect.signature(each).parameters]
        return "".join(
            f"; {each.__name__} has {name!r}: {(inspect.getdoc(each) or '').partition('.')[0]}" for each in having
        )

    def _unnamed(self) -> str:
        values = self.args[len(self._positional) :]
        names = [each for each in self._names if each not in (*self._positional, *self.kwargs)]
        if not values:
            return ""
        got = ", ".join(_format_value(each) for each in values)
        if len(values) > len(names):
            return f"number of arguments must be at most {len(self._names)}, got {len(self.args) + len(self.kwargs)}"
        named = dict(zip(names, values, strict=False))
        fix = ", ".join([*self._positional, *(f"{name}={_format_value(value)}" for name, value in named.items())])
        better = self._suggested_fix({**named, **self.kwargs})
        return f"arguments must be named, got {got}; {better or f'write {self.called.__name__}({fix})'}"

    def _suggested_fix(self, kwargs: Mapping[str, Any]) -> str:
        """Return the ``write ...`` of the error that a value raises for named arguments, or an empty string."""
        _, found, fix = self._construction_error(kwargs).partition("; write ")
        return f"write {fix}" if found else ""

    def _construction_error(self, kwargs: Mapping[str, Any]) -> str:
        """Return the error that a value, which has no side effects, raises for named arguments."""
        if self._is_construct or not is_dataclass(self.called):
            return ""
        try:
            self.called(**self._placed, **kwargs)
        except Exception as error:  # A value of another type can raise any error.
            return str(error)
        return ""

    def _twice(self) -> str:
        return next(
            (
                f"{name} must be given once, got {_format_value(value)} and {_format_value(self.kwargs[name])}"
                for name, value in self._placed.items()
                if name in self.kwargs
            ),
            "",
        )

    @property
    def _absent(self) -> list[str]:
        """The required arguments that were not given."""
        needed = [each.name for each in self.parameters if each.default is Parameter.empty]
        return [each for each in needed if each not in self._placed and each not in self.kwargs]

    def _missing(self) -> str:
        names = self._absent
        if self._is_construct and names[0] in _OF_A_CONSTRUCT:
            return f"scope and id must be given, got none; write {self.called.__name__}(stack, 'Id', ...)"
        wrong = self._wrong_value(names)
        if len(names) > 1:
            return f"{wrong}{', '.join(names[:-1])} and {names[-1]} must be given, got none"
        return f"{wrong}{names[0]} must be given, got none{self._meaning(names[0])}"

    def _wrong_value(self, absent: Sequence[str]) -> str:
        """Return the error about a wrong value, even if arguments are missing.

        A placeholder object replaces each missing argument. An error about a placeholder, or with its text, isn't
        reported.
        """
        stand_in = object()
        error = self._construction_error({**self.kwargs, **dict.fromkeys(absent, stand_in)})
        _, _, wrong = error.partition(": ")
        is_given = wrong.partition(" ")[0] in {**self._placed, **self.kwargs}
        return f"{wrong}; " if is_given and repr(stand_in) not in wrong else ""

    def _meaning(self, name: str) -> str:
        """Return ``; it means: ...`` with the first sentence about an argument in the docstring, or an empty string."""
        text = inspect.getdoc(self.called) or ""
        found = re.search(rf"^ {{4}}{name}: (.+(?:\n {{8}}.+)*)", text, re.MULTILINE)
        words = " ".join(found[1].replace("``", "").split()) if found else ""
        meaning = re.split(r"\.\s+(?=[A-Z])", words)[0].rstrip(".")
        return f"; it means: {meaning}" if meaning else ""


def _longer(name: str, known: Sequence[str]) -> str:
    """Return ``; did you mean 'kubernetes_version'?`` for ``version``, if exactly one name contains this word."""
    longer = [each for each in known if name in each.split("_")]
    return f"; did you mean {longer[0]!r}?" if len(longer) == 1 else ""


def _shorter(name: str, known: Sequence[str]) -> str:
    """Return ``; did you mean 'id'?`` for ``reservation_id``, if it contains exactly one name as a word."""
    shorter = [each for each in known if each in name.split("_")]
    return f"; did you mean {shorter[0]!r}?" if len(shorter) == 1 else ""


def _kinds(annotation: str, module: Mapping[str, Any]) -> list[Any]:
    """Return the classes in an annotation, also as a part of a union such as ``Size = UpTo | Static``."""
    named = [module[word] for word in re.findall(r"\w+", annotation) if word in module]
    return [kind for each in named for kind in (each, *get_args(each))]


def _format_value(value: object) -> str:
    parts: Any = value if isinstance(value, (list, tuple)) else (value,)
    if isinstance(value, dict):
        parts = [*value, *value.values()]
    return repr(value) if all(isinstance(each, _PLAIN) for each in parts) else f"<{type(value).__name__}>"

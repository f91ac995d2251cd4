"""Wrong, missing and unnamed arguments, refused with the nearest right name instead of Python's bare TypeError."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Any, TypeVar

from gpu_constructs.refusals import did_you_mean

T = TypeVar("T")
_OF_A_CONSTRUCT = ["scope", "id"]
_PLAIN = (str, int, float, bool, type(None))


def named_arguments(cls: type[T]) -> type[T]:
    """Have a class say what is wrong with the names of its arguments. It stands above ``@dataclass``.

    Python itself binds the arguments, so that a right call costs no more than one call more.
    """
    kind: Any = cls
    own = kind.__init__
    parameters = tuple(inspect.signature(own).parameters.values())[1:]

    @functools.wraps(own)
    def init(self: Any, /, *args: Any, **kwargs: Any) -> None:
        try:
            own(self, *args, **kwargs)
        except TypeError as error:
            # Only of a call that Python could not make is there no frame.
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
            called = type(self) if type(self).__init__ is init else cls
            raise TypeError(_Call(called, parameters, args, kwargs).refusal) from None

    kind.__init__ = init
    return cls


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that Python could not make."""

    cls: type[Any]
    parameters: Sequence[Parameter]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]

    @property
    def refusal(self) -> str:
        """Who is called, and what is wrong first."""
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
        """What was given by its place."""
        return dict(zip(self._positional, self.args, strict=False))

    @property
    def _is_construct(self) -> bool:
        return self._names[:2] == _OF_A_CONSTRUCT

    @property
    def _who(self) -> str:
        """The path that a construct would have, or the name of the class."""
        given = {**self.kwargs, **self._placed}
        node: Any = getattr(given.get("scope"), "node", None)
        id = given.get("id")
        known = self._is_construct and node is not None and isinstance(id, str)
        return f"{node.path}/{id}".lstrip("/") if known else self.cls.__name__

    def _unknown(self) -> str:
        wrong = next((each for each in self.kwargs if each not in self._names), None)
        if wrong is None:
            return ""
        known = self._names[2:] if self._is_construct else self._names
        rule = f"argument must be one of {', '.join(known)}" if known else "number of arguments must be 0"
        return f"{rule}, got {wrong!r}{did_you_mean(wrong, known)}"

    def _unnamed(self) -> str:
        values = self.args[len(self._positional) :]
        names = [each for each in self._names if each not in (*self._positional, *self.kwargs)]
        if not values:
            return ""
        got = ", ".join(_shown(each) for each in values)
        if len(values) > len(names):
            return f"number of arguments must be at most {len(self._names)}, got {len(self.args) + len(self.kwargs)}"
        named = [f"{name}={_shown(value)}" for name, value in zip(names, values, strict=False)]
        return f"arguments must be named, got {got}; write {self.cls.__name__}({', '.join(self._positional + named)})"

    def _twice(self) -> str:
        return next(
            (
                f"{name} must be given once, got {_shown(value)} and {_shown(self.kwargs[name])}"
                for name, value in self._placed.items()
                if name in self.kwargs
            ),
            "",
        )

    def _missing(self) -> str:
        needed = [each.name for each in self.parameters if each.default is Parameter.empty]
        names = [each for each in needed if each not in self._placed and each not in self.kwargs]
        if self._is_construct and names[0] in _OF_A_CONSTRUCT:
            return f"scope and id must be given, got none; write {self.cls.__name__}(stack, 'Id', ...)"
        if len(names) > 1:
            return f"{', '.join(names[:-1])} and {names[-1]} must be given, got none"
        meaning = _meanings(self.cls).get(names[0])
        return f"{names[0]} must be given, got none" + (f"; it means: {meaning}" if meaning else "")


def _meanings(cls: type[Any]) -> dict[str, str]:
    """Return the first sentence of what the docstring of a class says of each argument."""
    return {name: re.split(r"\.\s+(?=[A-Z])", text)[0].rstrip(".") for name, text in _paragraphs(cls)}


def _paragraphs(cls: type[Any]) -> Iterator[tuple[str, str]]:
    for found in re.finditer(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", inspect.getdoc(cls) or "", re.MULTILINE):
        yield found[1], " ".join(found[2].replace("``", "").split())


def _shown(value: object) -> str:
    parts = value if isinstance(value, (list, tuple)) else (value,)
    return repr(value) if all(isinstance(each, _PLAIN) for each in parts) else f"<{type(value).__name__}>"

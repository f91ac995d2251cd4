"""Regular expressions for the command, which starts with about 200 of them and uses few."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

__all__ = ["regex"]

if TYPE_CHECKING:
    from re import compile as regex
else:

    class regex:
        """A regular expression that is compiled when it is first used."""

        def __init__(self, pattern: str, flags: int = 0) -> None:
            self._said = pattern, flags

        def __getattr__(self, name: str) -> Any:
            """Return an attribute of the compiled expression, and keep it."""
            value = getattr(re.compile(*self._said), name)
            setattr(self, name, value)
            return value

"""Values that crash code without checks, and the form that a good error has."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any, TypeVar

from hypothesis import strategies as st

_Made = TypeVar("_Made")
# Who, argument, rule, value, in one line; or an instance type that is none.
REFUSAL = re.compile(
    r"[^\n]+: [^\n]+ must ([^\n]+, got [^\n]+|not set [^\n]+)|instance type [^\n]+ is (unknown|retired)[^\n]+"
)
_TEXTS = (
    *(
        "",
        " ",
        "a b",
        "a\nb",
        "a\r\n\r\nb",
        "\x00",
        "\ud800",
        "\u0661",
        "\u65e5\u672c",
        "a" * 300,
        "-a",
        "a-",
        ".",
        "../a",
    ),
    *(
        "y",
        "08",
        "1e3",
        "null",
        "${a}",
        "{{ a }}",
        "$(id)",
        "`id`",
        "'; rm -rf / #",
        "--//gpu-constructs//--",
        "<!--",
        "'''",
        '"',
    ),
    *(
        "g6.xlarge",
        "p5.48xlarge",
        "1g.10gb",
        "us-east-1a",
        "cr-0123456789abcdef0",
        "NoSchedule",
        "10%",
        "1Gi",
        "-1",
        "1.5",
    ),
)
_NUMBERS = (-1, 0, 1, 2, 3, 7, 8, 64, 65, 100, 101, 2**31, 2**63, 10**400, 0.5, -0.0, 1e308, math.nan, math.inf)
_OTHERS: tuple[Any, ...] = (
    None,
    True,
    False,
    (),
    [],
    {},
    set(),
    b"a",
    object,
    ("g6.xlarge", 1),
    {"a": "b"},
    {1: 2},
    {"a": None},
    [[]],
)
_MOMENTS = (datetime(2026, 1, 1), datetime.min.replace(tzinfo=timezone.utc), datetime.max.replace(tzinfo=timezone.utc))

HOSTILE: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(_TEXTS),
    st.sampled_from(_NUMBERS),
    st.sampled_from(_OTHERS),
    st.sampled_from(_MOMENTS),
    st.text(max_size=20),
    st.lists(st.sampled_from(_TEXTS), max_size=3),
    st.dictionaries(st.sampled_from(_TEXTS), st.sampled_from((*_TEXTS, *_NUMBERS)), max_size=2),
)


def made_or_refused(make: Callable[[], _Made]) -> _Made | None:
    """Return the construct, or ``None`` if it is rejected in words and by one of the two documented errors."""
    try:
        return make()
    except (TypeError, ValueError) as error:
        said = error
    assert type(said) in (TypeError, ValueError), repr(said)
    assert REFUSAL.fullmatch(str(said)), str(said)
    return None

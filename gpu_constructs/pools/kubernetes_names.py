"""What Kubernetes takes as the name of an object, a label key and a label value.

Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/ and .../labels/
"""

from __future__ import annotations

import re

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def refuse_unless_object_name(who: object, argument: str, name: object) -> None:
    """Refuse what cannot be both the name of an object and a label value.

    Raises:
        TypeError: ``name`` is no string.
        ValueError: ``name`` is no DNS label.
    """
    if not isinstance(name, str):
        raise TypeError(f"{who}: {argument} must be a string, got {name!r}")
    if not _DNS_LABEL.fullmatch(name):
        raise ValueError(
            f"{who}: {argument} must be 1 to 63 lower-case letters, digits and '-', beginning and ending with a "
            f"letter or digit, got {name!r}"
        )

"""Names of volumes."""

from __future__ import annotations

# Max length of a label value.
_LONGEST = 63


def volume_name(name: str, namespace: str) -> str:
    """Return the name of a claim's volume. It is unique, because names of namespaces and claims have no dot."""
    return f"{namespace}.{name}"


def refuse_unless_short(who: object, name: str, namespace: str) -> None:
    """Reject a name and namespace whose volume name is too long for a label: drivers label their pods with it.

    Raises:
        ValueError: They are too long together.
    """
    if len(volume_name(name, namespace)) > _LONGEST:
        raise ValueError(
            f"{who}: name must be at most {_LONGEST - len(volume_name('', namespace))} characters in namespace "
            f"{namespace!r}, got {name!r}; shorten it"
        )

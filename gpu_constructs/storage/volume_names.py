"""Names of volumes."""

from __future__ import annotations

# Of a label value.
_LONGEST = 63


def volume_name(name: str, namespace: str) -> str:
    """Return the name of a claim's volume, unique in the cluster: no name of a namespace or claim has a dot."""
    return f"{namespace}.{name}"


def refuse_unless_short(who: object, name: str, namespace: str) -> None:
    """Refuse what makes no label value of both: drivers label their pods with the name of the volume.

    Raises:
        ValueError: They are too long together.
    """
    if len(volume_name(name, namespace)) > _LONGEST:
        raise ValueError(
            f"{who}: name must be at most {_LONGEST - len(volume_name('', namespace))} characters in namespace "
            f"{namespace!r}, got {name!r}"
        )

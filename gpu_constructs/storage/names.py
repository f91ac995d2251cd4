"""Names of volumes, and of what they show of a bucket."""

from __future__ import annotations

import re

# '*' and '?' would mean more than themselves in a policy, and a space ends a mount option.
_PREFIX = re.compile(r"((?![/*?])[!-~])((?![*?])[!-~])*/")
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


def refuse_unless_bucket(who: object, bucket: object) -> None:
    """Refuse what is no bucket.

    Raises:
        TypeError: ``bucket`` is something else, for example a name.
    """
    if not hasattr(bucket, "bucket_arn"):
        raise TypeError(
            f"{who}: bucket must be an s3.IBucket, got {bucket!r}; import one with s3.Bucket.from_bucket_name"
        )


def refuse_unless_prefix(who: object, prefix: object) -> None:
    """Refuse what no object's name begins with, and what a policy or a mount option would read otherwise.

    Raises:
        TypeError: ``prefix`` is no text.
        ValueError: It does not end with ``/``, begins with it, or has a space, ``*`` or ``?``.
    """
    if not isinstance(prefix, str):
        raise TypeError(f"{who}: prefix must be a string, got {prefix!r}")
    if prefix and not _PREFIX.fullmatch(prefix):
        raise ValueError(
            f"{who}: prefix must end with '/', not begin with it, and have no spaces, '*' or '?', got {prefix!r}"
            f"{_nearest_prefix(prefix)}"
        )


def _nearest_prefix(prefix: str) -> str:
    inner = prefix.strip("/")
    if not inner:
        return "; leave it out for all of the bucket"
    return f"; write '{inner}/'" if _PREFIX.fullmatch(f"{inner}/") else ""

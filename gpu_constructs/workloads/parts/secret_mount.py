"""Files of a Secret."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpu_constructs.workloads.parts.mount_path import (
    refuse_unless_mount_path,
    refuse_unless_sub_path,
    volume_mount,
    volume_name,
)
from gpu_facts.kubernetes import refuse_unless_dotted_name
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_whole_number

_ANY_MODE = 0o777
_READ_BY_OWNER = 0o400
# Modes that files of secrets are given, by the decimal number that has their digits.
_DECIMAL = {
    int(f"{each:o}"): each
    for each in (0o400, 0o440, 0o444, 0o500, 0o550, 0o555, 0o600, 0o640, 0o644, 0o700, 0o750, 0o755, 0o777)
}


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class SecretMount:
    """A Secret as files, one a key, in the node's memory.

    Attributes:
        path: Where they appear, absolute.
        secret: Name of an existing Secret in the pod's namespace; without it the pod does not start.
        mode: Permissions of the files, such as ``0o400``; the decimal 400 is refused, which says another. They belong
            to root, so that a container of another user needs ``0o444``, or an ``fsGroup`` by the pod's ``overlay``.
        sub_path: The one key that appears at the path, as a file, which does not change with the Secret any more.
            Default: all keys.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A path, the name or the mode cannot be.

    Source: https://kubernetes.io/docs/concepts/configuration/secret/#using-secrets-as-files-from-a-pod (2026-11)
    """

    path: str
    secret: str
    mode: int = 0o444
    sub_path: str | None = None

    def __post_init__(self) -> None:
        who = "secret mount"
        refuse_unless_mount_path(who, self.path)
        refuse_unless_dotted_name(who, "secret", self.secret)
        _refuse_decimal_mode(who, self.mode)
        refuse_unless_whole_number(who, "mode", self.mode, least=0, most=_ANY_MODE, fix="write it as 0o400")
        if not self.mode & _READ_BY_OWNER:
            raise ValueError(f"{who}: mode must let the owner read, got {self.mode:#o}; write 0o400")
        refuse_unless_sub_path(who, self.sub_path)

    def volume(self) -> dict[str, Any]:
        """Return the volume of the pod."""
        source = {"defaultMode": self.mode, "secretName": self.secret}
        return {"name": volume_name("secret", self.secret), "secret": source}

    def to_manifest(self) -> dict[str, Any]:
        """Return the mount of the container."""
        name = volume_name("secret", self.secret)
        return volume_mount(name, self.path, read_only=True, sub_path=self.sub_path)


def _refuse_decimal_mode(who: str, mode: object) -> None:
    if isinstance(mode, int) and mode in _DECIMAL:
        raise ValueError(f"{who}: mode must be octal, got {mode}, which is {mode:#o}; write {_DECIMAL[mode]:#o}")

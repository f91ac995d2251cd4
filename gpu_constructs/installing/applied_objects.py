"""Which construct applies which object of a cluster: what two apply under one name is one object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import aws_cdk as cdk

from gpu_constructs.installing.claims import PathOf

_Key = tuple[str, str, str, str]


class AppliedObjects:
    """The objects that constructs apply to one cluster, each with the construct that does."""

    def __init__(self) -> None:
        self._owners: dict[_Key, PathOf] = {}

    def take(self, who: PathOf, manifests: Sequence[Mapping[str, Any]]) -> None:
        """Make objects those of a construct, which may apply them as often as it likes.

        Raises:
            ValueError: Another construct applies one of the same group, kind, namespace and name.
        """
        keys = [_key(each) for each in manifests]
        for key in keys:
            self._refuse_unless_free(who, key)
        self._owners.update(dict.fromkeys(keys, who))

    def _refuse_unless_free(self, who: PathOf, key: _Key) -> None:
        owner = self._owners.get(key)
        if owner is None or owner.construct is who.construct:
            return
        _, kind, namespace, name = key
        # Asked last, as it crosses to the CDK. One token may read otherwise in another stack.
        if cdk.Token.is_unresolved(f"{namespace}{name}"):
            return
        place = f"namespace {namespace!r} of the cluster" if namespace else "the cluster"
        raise ValueError(
            f"{who}: {kind} must have a name of its own in {place}, got {name!r}, which is that of "
            f"{str(owner)!r}; kubectl apply would overwrite one with the other, give one of them another name "
            "[GPU452]"
        )


def _key(manifest: Mapping[str, Any]) -> _Key:
    """Return what tells an object from the others of its cluster; its version does not."""
    metadata = manifest["metadata"]
    group, slash, _ = manifest["apiVersion"].partition("/")
    return group if slash else "", manifest["kind"], metadata.get("namespace", ""), metadata["name"]

"""What a cluster can have one of, and who it is; who applies which of its objects."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import aws_cdk as cdk
from constructs import Construct

from gpu_facts.refusals import has_token

# Used as `claims.KARPENTER`: other modules have names like these for other things.
DEVICE_MANAGER = "device manager"
DRA_DRIVER = "DRA driver"
DRA_DRIVER_OF_OPERATOR = "DRA driver of the GPU Operator"
EFA_PLUGIN = "EFA device plugin"
CLUSTER_AUTOSCALER = "cluster autoscaler"
KARPENTER = "Karpenter"
GPU_OPERATOR = "GPU Operator"
DCGM_EXPORTER = "DCGM exporter"
EBS_CSI_DRIVER = "EBS CSI driver"
FSX_CSI_DRIVER = "FSx for Lustre CSI driver"
S3_CSI_DRIVER = "Mountpoint S3 CSI driver"
POD_NETWORK = "network of pods"
NETWORK_POLICIES = "enforcer of network policies"
_Holder = TypeVar("_Holder")
# API group, kind, namespace and name.
_Key = tuple[str, str, str, str]


class PathOf:
    """The path of a construct, asked for only when a message needs it."""

    def __init__(self, construct: Construct) -> None:
        self.construct = construct
        self._path: str | None = None

    def __str__(self) -> str:
        if self._path is None:
            self._path = self.construct.node.path
        return self._path


def pool_named(name: str) -> str:
    """Return the claim of a pool to its name."""
    return f"pool named {name!r}"


class Claims(Generic[_Holder]):
    """What a cluster can have one of, and who is it. Parts of who is it have a share in that."""

    def __init__(self) -> None:
        self._holders: dict[str, _Holder] = {}
        self._brought: set[str] = set()

    def holder(self, what: str) -> _Holder | None:
        """Return who is the only one of its kind; ``None`` where there is none."""
        return self._holders.get(what)

    def bring(self, what: str) -> None:
        """Note that nobody asked for the holder by name: somebody else brought it."""
        self._brought.add(what)

    def was_brought(self, what: str) -> bool:
        """Whether the holder was brought."""
        return what in self._brought

    def claim(self, who: _Holder, what: str, *, why: str) -> None:
        """Make ``who``, which reads as its path, the only one of its kind.

        Raises:
            ValueError: There is one.
        """
        first = self._holders.setdefault(what, who)
        if first is who:
            return
        path, holder = str(who), str(first)
        if path == holder or path.startswith(f"{holder}/"):
            return
        fix = "make yours before the first add_pool, which takes it then" if what in self._brought else "remove one"
        raise ValueError(f"{path}: cluster must have one {what}, got a second one beside {holder!r}; {why}, {fix}")


class AppliedObjects:
    """The objects that constructs apply to one cluster, each with the construct that does."""

    def __init__(self) -> None:
        self._owners: dict[_Key, PathOf] = {}

    def take(self, who: PathOf, manifests: Sequence[Mapping[str, Any]]) -> None:
        """Make objects those of a construct.

        Raises:
            ValueError: One of the same group, kind, namespace and name is applied already.
        """
        keys = [_in_stack(who, object_key(each)) for each in manifests]
        for key in keys:
            self._refuse_unless_free(who, key)
        self._owners.update(dict.fromkeys(keys, who))

    def _refuse_unless_free(self, who: PathOf, key: _Key) -> None:
        owner = self._owners.get(key)
        if owner is None:
            return
        _, kind, namespace, name = key
        place = f"namespace {namespace!r} of the cluster" if namespace else "the cluster"
        raise ValueError(
            f"{who}: {kind} must have a name of its own in {place}, got {name!r}, which is that of "
            f"{str(owner)!r}; kubectl apply would overwrite one with the other, give one of them another name "
            "[GPU452]"
        )


def _in_stack(who: PathOf, key: _Key) -> _Key:
    """Return a key with its tokens as the stack writes them: one token may read otherwise in another stack."""
    group, kind, namespace, name = key
    if not has_token(f"{namespace}{name}"):
        return key
    stack = cdk.Stack.of(who.construct)
    written = json.dumps(stack.resolve([namespace, name]), sort_keys=True)
    return group, kind, "", f"{written} of {stack.node.path}"


def object_key(manifest: Mapping[str, Any]) -> _Key:
    """Return what tells an object from the others of its cluster; its version does not."""
    metadata = manifest["metadata"]
    group, slash, _ = manifest["apiVersion"].partition("/")
    return group if slash else "", manifest["kind"], metadata.get("namespace", ""), metadata["name"]

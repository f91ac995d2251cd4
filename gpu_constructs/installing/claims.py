"""What a cluster can have one of, and who it is."""

from __future__ import annotations

from typing import Generic, TypeVar

from constructs import Construct

# Used as `claims.KARPENTER`: other modules have names like these for other things.
DEVICE_MANAGER = "device manager"
DRA_DRIVER = "DRA driver"
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


class PathOf:
    """The path of a construct, asked for only when a message needs it."""

    def __init__(self, construct: Construct) -> None:
        self.construct = construct

    def __str__(self) -> str:
        return self.construct.node.path


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
        path, holder = str(who), str(self._holders.setdefault(what, who))
        if path == holder or path.startswith(f"{holder}/"):
            return
        fix = "make yours before the first add_pool, which takes it then" if what in self._brought else "remove one"
        raise ValueError(f"{path}: cluster must have one {what}, got a second one beside {holder!r}; {why}, {fix}")

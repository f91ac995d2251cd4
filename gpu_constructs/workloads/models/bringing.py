"""What a model is brought to, and what comes of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from constructs import Construct

from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.pools.node_shape import NodeShape
from gpu_constructs.workloads.gpu_pod import GpuPod
from gpu_constructs.workloads.parts.environment import EnvValue
from gpu_constructs.workloads.parts.init_container import InitContainer
from gpu_constructs.workloads.parts.mounts import Mount
from gpu_constructs.workloads.parts.scratch_mount import ScratchMount
from gpu_facts.named_arguments import named_arguments

# Where weights appear, and what their scratch is called.
PATH = "/models"
_SCRATCH = "model"
# Beside the weights lie parts of files that are not whole yet, and what the downloader notes.
_ROOM = 1.1


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """The workload that a model is brought to.

    Attributes:
        scope: The construct of the workload.
        who: Who asks.
        cluster: Its cluster.
        name: Its name.
        namespace: Its namespace.
        pod: Its pod, so far.
        shape: Nodes it is for.
    """

    scope: Construct
    who: object
    cluster: ClusterRef
    name: str
    namespace: str
    pod: GpuPod
    shape: NodeShape


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Brought:
    """A pod with its model.

    Attributes:
        pod: The pod.
        needs: What must be there before it starts.
    """

    pod: GpuPod
    needs: Sequence[Construct] = ()


def pod_with(
    pod: GpuPod,
    *,
    env: Mapping[str, EnvValue] | None = None,
    mount: Mount | None = None,
    first: InitContainer | None = None,
    service_account: str | None = None,
) -> GpuPod:
    """Return a pod with what a model adds to it; what the pod says of a variable itself stays."""
    return replace(
        pod,
        env={**(env or {}), **pod.env},
        mounts=(*pod.mounts, *([mount] if mount is not None else [])),
        init_containers=(*([first] if first is not None else []), *pod.init_containers),
        service_account=service_account if service_account is not None else pod.service_account,
    )


def scratch(path: str, size_gib: int) -> ScratchMount:
    """Return scratch for weights of a size, and room beside them."""
    return ScratchMount(path=path, size_gib=math.ceil(size_gib * _ROOM), name=_SCRATCH)

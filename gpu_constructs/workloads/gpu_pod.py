"""What a pod that uses GPUs asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from gpu_constructs.pools.node_shape import NodeShape
from gpu_constructs.pools.sharing import Exclusive, GpuClaim, Mig, mig_resource
from gpu_constructs.workloads.init_container import (
    EnvSource,
    EnvValue,
    InitContainer,
    command_words,
    env_sources,
    parse_init_containers,
    refuse_unless_cpus,
    refuse_unless_env,
)
from gpu_constructs.workloads.mounts import Mount, parse_mounts, pod_volumes, refuse_shared_memory, scratch_gib
from gpu_constructs.workloads.overlay import parse_overlay
from gpu_facts.hardware.catalogue import InstanceType
from gpu_facts.kubernetes import refuse_unless_dotted_name, refuse_unless_object_name
from gpu_facts.named_arguments import named_arguments
from gpu_facts.quantities import millicores
from gpu_facts.refusals import (
    refuse_unless_choice,
    refuse_unless_image,
    refuse_unless_whole_number,
    suggest_attribute,
    words,
)
from gpu_facts.resources import EFA, EFA_HUGE_PAGES, HUGE_PAGE_MIB, HUGE_PAGES

# What pods of a node leave to the system, its daemons and DaemonSets.
_FOR_PODS = 0.8
# CPUs are fractions of 1000.
_ROUNDING = 1e-6


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class GpuPod:
    """One container on the GPUs of one node.

    Attributes:
        image: Image with tag or digest; a digest keeps what was tested.
        gpus: GPUs of the pod; shares or MIG instances where the pool has those, and of a share only one.
        command: Command instead of the image's.
        args: Arguments instead of the image's.
        env: Environment variables: each a string, a `SecretKey` or a `ConfigMapKey`. Access tokens are refused, here,
            in commands and in the overlay: everybody who may read the template or the pod would have them.
        cpus: Virtual CPUs it asks for. Default: the GPUs' part of four fifths of the smallest node, or
            what sidecars leave.
        memory_gib: Memory it asks for and may take, in GiB. Default: likewise.
        shm_gib: Size of ``/dev/shm`` in GiB, which counts as the pod's memory; loaders and NCCL pass data through it.
        efa: EFA interfaces, for pools with ``NodeShape(efa=True)``.
        claim: Name of a `SharedGpuClaim` whose GPU it uses with others, for pools with ``device_manager="dra"``.
            Default: GPUs of its own.
        mig_profile: Which MIG instances, e.g. ``1g.10gb``. Default: the only one of the pool.
        service_account: Service account. Default: none, and no token of one.
        priority_class: Existing priority class. Default: the cluster's.
        run_as_user: User id. Volumes of claims that a container may write to get a group of that number, but for those
            of FSx for Lustre. Default: the image's own.
        env_from: Secrets and ConfigMaps all of whose keys are variables: `SecretEnv`, `ConfigMapEnv`.
        mounts: Volumes, and where they appear: `VolumeClaimMount`, `ScratchMount`, `ConfigMapMount`, `SecretMount`,
            `ImageMount`. Folders of the node cannot be mounted: any pod on it could read them, and write over them.
        init_containers: Containers that end before this one starts, or stay beside it, in their order.
        image_pull_secrets: Names of existing Secrets in the pod's namespace that registries take.
        overlay: Fields of the pod's ``spec``, laid over it last, in Kubernetes' spelling. Mappings merge; ``None``
            takes a field away. Lists of named things merge as ``kubectl patch`` does: containers, volumes, variables
            and pull secrets by ``name``, mounts by ``mountPath``, ports by ``containerPort``, spreads by
            ``topologyKey``, host aliases by ``ip``; an item that is not there yet is added. A volume or variable
            becomes what is said here. Every other list, such as ``tolerations``, is replaced. The container is called
            as the job or deployment is.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: No such pod can exist.
    """

    image: str
    gpus: int = 1
    command: Sequence[str] = ()
    args: Sequence[str] = ()
    env: Mapping[str, EnvValue] = field(default_factory=dict, hash=False)
    cpus: float | None = None
    memory_gib: int | None = None
    shm_gib: int = 1
    efa: int = 0
    claim: str | None = None
    mig_profile: str | None = None
    service_account: str | None = None
    priority_class: str | None = None
    run_as_user: int | None = None
    env_from: Sequence[EnvSource] = ()
    mounts: Sequence[Mount] = ()
    init_containers: Sequence[InitContainer] = ()
    image_pull_secrets: Sequence[str] = ()
    overlay: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        who = "gpu pod"
        refuse_unless_image(who, "image", self.image)
        refuse_unless_whole_number(who, "gpus", self.gpus, least=1, fix="a pod without GPUs needs no GPU pool")
        refuse_unless_whole_number(who, "shm_gib", self.shm_gib, least=0)
        refuse_unless_whole_number(who, "efa", self.efa, least=0)
        for argument in ("command", "args"):
            object.__setattr__(self, argument, command_words(who, argument, getattr(self, argument)))
        for argument, least in (("memory_gib", 1), ("run_as_user", 0)):
            if getattr(self, argument) is not None:
                refuse_unless_whole_number(who, argument, getattr(self, argument), least=least)
        if self.cpus is not None:
            refuse_unless_cpus(who, self.cpus)
        refuse_unless_env(who, self.env)
        object.__setattr__(self, "env", MappingProxyType(dict(self.env)))
        # Which profiles there are the pool knows.
        if self.mig_profile is not None and not isinstance(self.mig_profile, str):
            raise TypeError(f"{who}: mig_profile must be a string, got {self.mig_profile!r}")
        for argument, fix in (
            ("service_account", suggest_attribute(self.service_account, "WorkloadIdentity", "service_account")),
            ("priority_class", ""),
            ("claim", suggest_attribute(self.claim, "SharedGpuClaim", "name")),
        ):
            if getattr(self, argument) is not None:
                refuse_unless_object_name(who, argument, getattr(self, argument), fix=fix)
        self._take_parts(who)
        self._refuse_contradictions(who)

    def _take_parts(self, who: str) -> None:
        object.__setattr__(self, "env_from", env_sources(who, self.env_from))
        object.__setattr__(self, "mounts", parse_mounts(who, self.mounts))
        object.__setattr__(self, "init_containers", parse_init_containers(who, self.init_containers))
        secrets = words(who, "image_pull_secrets", self.image_pull_secrets)
        for each in secrets:
            refuse_unless_dotted_name(who, "image_pull_secrets", each)
        object.__setattr__(self, "image_pull_secrets", secrets)
        object.__setattr__(self, "overlay", parse_overlay(who, self.overlay))

    def _refuse_contradictions(self, who: str) -> None:
        if self.claim is not None and self.gpus != 1:
            raise ValueError(f"{who}: gpus must be left out with claim, which says how many, got {self.gpus}")
        if self.memory_gib is not None and self.memory_gib <= self.shm_gib:
            raise ValueError(
                f"{who}: memory_gib must be above shm_gib, which is part of it, got {self.memory_gib} and "
                f"{self.shm_gib}"
            )
        if self.shm_gib:
            refuse_shared_memory(who, self.mounts)
        pod_volumes(who, self.every_mount)

    @property
    def every_mount(self) -> tuple[Mount, ...]:
        """Its mounts, and those of its init containers."""
        return (*self.mounts, *(mount for each in self.init_containers for mount in each.mounts))

    def limits(self, who: object, shape: NodeShape, *, huge_pages: bool) -> dict[str, str]:
        """Return what it may take of a node, by resource name.

        Args:
            who: Who asks.
            shape: Nodes it is for.
            huge_pages: Whether the autoscaler of these nodes counts huge pages; where it does not, a pod that asks for
                them never gets a node.

        Raises:
            ValueError: No node of the pool has so much.
        """
        gpus = {self._gpu_resource(who, shape): str(self.gpus)}
        found = ({} if shape.managed_by.by_claim else gpus) | {"memory": f"{self.memory_on(who, shape)}Gi"}
        if self.efa:
            most = shape.rows[0].max_efa if shape.efa else 0
            if self.efa > (most or 0):
                raise ValueError(
                    f"{who}: pod must have at most the {most} EFA interfaces of the pool's nodes, got {self.efa}; "
                    "write NodeShape(efa=True) for a type that has them"
                )
            found[EFA] = str(self.efa)
            if huge_pages:
                # Its part of the pages that the node sets aside for all interfaces.
                found[HUGE_PAGES] = f"{EFA_HUGE_PAGES * self.efa // (most or 1) * HUGE_PAGE_MIB}Mi"
        return found

    def gpu_claim(self, who: object, shape: NodeShape) -> GpuClaim | None:
        """Return the GPUs it claims; ``None`` where it asks for a resource.

        Raises:
            ValueError: Nobody claims GPUs of the pool.
        """
        if not shape.managed_by.by_claim:
            if self.claim is not None:
                raise ValueError(
                    f"{who}: pod must be without claim on a pool that has device_manager={shape.managed_by.name!r}, "
                    f"got {self.claim!r}"
                )
            return None
        self._gpu_resource(who, shape)
        only = next(iter(shape.sharing.geometry)) if isinstance(shape.sharing, Mig) else None
        return GpuClaim(count=self.gpus, mig_profile=self.mig_profile or only)

    def cpu_request(self, who: object, shape: NodeShape) -> str:
        """Return the virtual CPUs it asks for, as a quantity.

        Raises:
            ValueError: No node of the pool has so many.
        """
        if self.cpus is None:
            return str(self._usual_cpus(shape))
        if shape.vcpus and self.cpus > shape.pod_vcpus:
            raise ValueError(
                f"{who}: pod must have at most {shape.pod_vcpus:g} vCPUs, which kubelet leaves to pods of the "
                f"{shape.vcpus} of the pool's nodes, got {self.cpus}"
            )
        return millicores(self.cpus)

    def _usual_cpus(self, shape: NodeShape) -> int:
        part = shape.vcpus * self._part(shape) * _FOR_PODS
        return max(1, int(min(part, shape.pod_vcpus - self._sidecars("cpus"))))

    def _sidecars(self, argument: str) -> float:
        found: float = sum(getattr(each, argument) for each in self.init_containers if each.sidecar)
        return found

    def refuse_large_init_containers(self, who: object, shape: NodeShape) -> None:
        """Refuse init containers with which no node of the pool has room for the pod.

        Raises:
            ValueError: One alone, or the pod and its sidecars, ask for more than a node has.
        """
        for argument, own, most in (
            ("cpus", self._usual_cpus(shape) if self.cpus is None else self.cpus, shape.pod_vcpus),
            ("memory_gib", self.memory_on(who, shape), shape.pod_memory_gib),
        ):
            asked = [getattr(each, argument) for each in self.init_containers]
            wanted = max([own + self._sidecars(argument), *asked])
            if most and asked and wanted > most:
                raise ValueError(
                    f"{who}: pod must have at most {most:g} {argument}, which kubelet of the pool's nodes leaves to "
                    f"pods, for an init container, or for itself with its sidecars, got {wanted}"
                )

    def scratch_request(self, who: object, shape: NodeShape) -> str | None:
        """Return how much of the node's disk it asks for, as a quantity; ``None`` where it has no scratch.

        Raises:
            ValueError: No node of the pool has so much.
        """
        wanted, most = scratch_gib(self.every_mount), shape.ephemeral_storage_gib
        if wanted > most:
            raise ValueError(
                f"{who}: pod must have at most {most} GiB of scratch, which pods can use of the disk of the pool's "
                f"nodes, got {wanted}; write NodeShape(disk=Disk(size_gib=...)) or take types with local NVMe"
            )
        return f"{wanted}Gi" if wanted else None

    def per_node(self, who: object, shape: NodeShape) -> int:
        """Return how many such pods the GPUs of the smallest node are enough for.

        Raises:
            ValueError: No node of the pool has so many GPUs.
        """
        return shape.gpu_resources(shape.gpus)[self._gpu_resource(who, shape)] // self.gpus

    def room_on(self, who: object, shape: NodeShape, row: InstanceType) -> int:
        """Return how many such pods a node of one of the pool's types has room for at most.

        Raises:
            ValueError: No node of the pool has what the pod asks for.
        """
        cpus = (self._usual_cpus(shape) if self.cpus is None else self.cpus) + self._sidecars("cpus")
        memory = self.memory_request(who, shape)
        asked = [
            (shape.gpu_resources(row.gpus)[self._gpu_resource(who, shape)], self.gpus),
            (shape.kubelet.vcpus_left(row), cpus if row.vcpus else 0),
            (shape.kubelet.memory_gib_left(row), memory if row.memory_mib else 0),
            (row.max_efa or 0, self.efa),
        ]
        return min(int(has / each + _ROUNDING) for has, each in asked if each)

    def memory_request(self, who: object, shape: NodeShape) -> float:
        """Return the memory that it requests with its sidecars, in GiB.

        Raises:
            ValueError: No node of the pool has so much.
        """
        return self.memory_on(who, shape) + self._sidecars("memory_gib")

    def memory_on(self, who: object, shape: NodeShape) -> int:
        """Return the memory it asks for, in GiB.

        Raises:
            ValueError: No node of the pool has so much.
        """
        least = shape.memory_gib
        if least and self.shm_gib >= shape.pod_memory_gib:
            raise ValueError(
                f"{who}: shm_gib must be below {shape.pod_memory_gib}, the GiB of memory that kubelet of the pool's "
                f"nodes leaves to pods, which it is part of, got {self.shm_gib}"
            )
        if self.memory_gib is None:
            part = least * self._part(shape) * _FOR_PODS
            return max(self.shm_gib + 1, int(min(part, shape.pod_memory_gib - self._sidecars("memory_gib"))))
        if least and self.memory_gib > shape.pod_memory_gib:
            raise ValueError(
                f"{who}: pod must have at most {shape.pod_memory_gib} GiB of memory, which kubelet leaves to pods of "
                f"the {least} of the pool's nodes, got {self.memory_gib}"
            )
        return self.memory_gib

    def _part(self, shape: NodeShape) -> float:
        """Return the part of a node's GPUs, shares or instances that the pod takes."""
        units = sum(shape.gpu_resources(shape.gpus).values())
        return min(1.0, self.gpus / units)

    def _gpu_resource(self, who: object, shape: NodeShape) -> str:
        offered = shape.gpu_resources(shape.gpus)
        resource = self._named_resource(who, shape, list(offered))
        if self.gpus > offered[resource]:
            raise ValueError(
                f"{who}: pod must have at most the {offered[resource]} {resource} of a node of the pool, got "
                f"{self.gpus}"
            )
        if self.gpus > 1 and not isinstance(shape.sharing, (Exclusive, Mig)):
            raise ValueError(
                f"{who}: pod must have one {resource}, got {self.gpus}; several shares are neither more time nor more "
                "memory"
            )
        return resource

    def _named_resource(self, who: object, shape: NodeShape, offered: list[str]) -> str:
        if self.mig_profile is None:
            if len(offered) > 1:
                raise ValueError(
                    f"{who}: pod must have a mig_profile, because the pool offers {', '.join(offered)}, got None"
                )
            return offered[0]
        if not isinstance(shape.sharing, Mig):
            raise ValueError(
                f"{who}: pod must have no mig_profile, because the pool has no MIG, got {self.mig_profile!r}"
            )
        refuse_unless_choice(who, "mig_profile", self.mig_profile, shape.sharing.geometry)
        named = mig_resource(self.mig_profile)
        return named if named in offered else offered[0]

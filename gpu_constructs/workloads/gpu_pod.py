"""The resources and containers of a pod that uses GPUs, and the overlay: fields of a pod that the app sets itself."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

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
from gpu_facts.access_tokens import access_token_kind
from gpu_facts.hardware.catalogue import InstanceType
from gpu_facts.kubernetes import refuse_unless_dotted_name, refuse_unless_object_name
from gpu_facts.merging import merged
from gpu_facts.named_arguments import named_arguments
from gpu_facts.quantities import millicores
from gpu_facts.refusals import (
    did_you_mean,
    refuse_unless_choice,
    refuse_unless_image,
    refuse_unless_whole_number,
    suggest_attribute,
    words,
)
from gpu_facts.resources import EFA, EFA_HUGE_PAGES, HUGE_PAGE_MIB, HUGE_PAGES

# Keys that identify the items of a list, by the name of the list. Every other list is one value.
# Source: kubernetes/kubernetes v1.36.3 staging/src/k8s.io/api/core/v1/types.go (patchMergeKey)
_MERGE_KEYS: Final = MappingProxyType(
    {
        "containers": "name",
        "env": "name",
        "hostAliases": "ip",
        "imagePullSecrets": "name",
        "initContainers": "name",
        "ports": "containerPort",
        "resourceClaims": "name",
        "schedulingGates": "name",
        "topologySpreadConstraints": "topologyKey",
        "volumeDevices": "devicePath",
        "volumeMounts": "mountPath",
        "volumes": "name",
    }
)
# Lists whose items have exactly one kind, so that another kind replaces the first.
_OF_ONE_KIND = ("env", "resourceClaims", "volumes")
# Fields around the spec in a manifest.
_AROUND_THE_SPEC = ("apiVersion", "kind", "metadata", "spec", "status", "template")
_CONTAINERS = ("containers", "initContainers")
# Fraction of a node for its pods. The rest is for the system, its daemons and DaemonSets.
_FOR_PODS = 0.8
# CPUs are multiples of 1/1000.
_ROUNDING = 1e-6


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class GpuPod:
    """One container on the GPUs of one node.

    Attributes:
        image: Image with tag or digest. A digest keeps the image that you tested.
        gpus: GPUs of the pod, or shares or MIG instances if the pool has those. A pod can have only one share.
        command: Command that replaces the image's.
        args: Arguments that replace the image's.
        env: Environment variables: each a string, a `SecretKey` or a `ConfigMapKey`. Access tokens are rejected here,
            in commands and in the overlay, because everyone who may read the template or the pod could read them.
        cpus: Requested virtual CPUs. Default: the GPUs' share of four fifths of the smallest node, or the rest if
            sidecars leave less.
        memory_gib: Memory request and limit in GiB. Default: as for ``cpus``.
        shm_gib: Size of ``/dev/shm`` in GiB, which counts as the pod's memory. Data loaders and NCCL pass data through
            it.
        efa: EFA interfaces, for pools with ``NodeShape(efa=True)``.
        claim: Name of a `SharedGpuClaim` with a GPU that several pods use, for pools with ``device_manager="dra"``.
            Default: the pod has exclusive GPUs.
        mig_profile: MIG profile of its instances, e.g. ``1g.10gb``. Default: the only profile of the pool.
        service_account: Service account. Default: none, and no token.
        priority_class: Existing priority class. Default: the cluster's default.
        run_as_user: User id. Writable volumes of claims get a group with the same number, except volumes of FSx for
            Lustre. Default: the image's own.
        env_from: Secrets and ConfigMaps whose keys all become variables: `SecretEnv`, `ConfigMapEnv`.
        mounts: Volumes and their paths: `VolumeClaimMount`, `ScratchMount`, `ConfigMapMount`, `SecretMount`,
            `ImageMount`. You can't mount folders of the node, because any pod on it could read and overwrite them.
        init_containers: Containers that exit before this one starts, or sidecars that run next to it, in order.
        image_pull_secrets: Names of existing Secrets in the pod's namespace with credentials of registries.
        overlay: Fields of the pod's ``spec`` in Kubernetes' spelling, applied last. Mappings merge, and ``None``
            removes a field. Lists of named items merge as in ``kubectl patch``: containers, volumes, variables and pull
            secrets by ``name``, mounts by ``mountPath``, ports by ``containerPort``, spreads by ``topologyKey``, host
            aliases by ``ip``. A new item is added. An existing volume or variable is replaced. Every other list, such
            as ``tolerations``, is replaced. The container has the name of the job or deployment.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The pod is invalid.
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
        refuse_unless_whole_number(
            who, "gpus", self.gpus, least=1, fix="use a pool without GPUs for a pod without GPUs"
        )
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
        # Only the pool has the list of its profiles.
        if self.mig_profile is not None and not isinstance(self.mig_profile, str):
            raise TypeError(
                f"{who}: mig_profile must be a string, got {self.mig_profile!r}; write one such as '1g.10gb'"
            )
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
            raise ValueError(
                f"{who}: gpus must be left out with claim, got {self.gpus}; remove it, because the claim sets the "
                "number"
            )
        if self.memory_gib is not None and self.memory_gib <= self.shm_gib:
            raise ValueError(
                f"{who}: memory_gib must be above shm_gib, which is part of it, got {self.memory_gib} and "
                f"{self.shm_gib}; raise memory_gib"
            )
        if self.shm_gib:
            refuse_shared_memory(who, self.mounts)
        pod_volumes(who, self.every_mount)

    @property
    def every_mount(self) -> tuple[Mount, ...]:
        """Mounts of the pod and of its init containers."""
        return (*self.mounts, *(mount for each in self.init_containers for mount in each.mounts))

    def limits(self, who: object, shape: NodeShape, *, huge_pages: bool) -> dict[str, str]:
        """Return its limits on a node, by resource name.

        Args:
            who: Name of the construct in messages.
            shape: Nodes that the pod is for.
            huge_pages: Whether the autoscaler of these nodes counts huge pages. If it doesn't, a pod that requests them
                never gets a node.

        Raises:
            ValueError: No node of the pool has enough.
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
                # Its share of the huge pages that the node reserves for all interfaces.
                found[HUGE_PAGES] = f"{EFA_HUGE_PAGES * self.efa // (most or 1) * HUGE_PAGE_MIB}Mi"
        return found

    def gpu_claim(self, who: object, shape: NodeShape) -> GpuClaim | None:
        """Return the GPUs that it claims, or ``None`` if it requests an extended resource.

        Raises:
            ValueError: It names a claim, and GPUs of the pool aren't claimed.
        """
        if not shape.managed_by.by_claim:
            if self.claim is not None:
                raise ValueError(
                    f"{who}: pod must be without claim on a pool that has device_manager={shape.managed_by.name!r}, "
                    f"got {self.claim!r}; remove it, or use a pool with device_manager='dra'"
                )
            return None
        self._gpu_resource(who, shape)
        only = next(iter(shape.sharing.geometry)) if isinstance(shape.sharing, Mig) else None
        return GpuClaim(count=self.gpus, mig_profile=self.mig_profile or only)

    def cpu_request(self, who: object, shape: NodeShape) -> str:
        """Return the virtual CPUs that it requests, as a quantity.

        Raises:
            ValueError: No node of the pool has that many.
        """
        if self.cpus is None:
            return str(self._usual_cpus(shape))
        if shape.vcpus and self.cpus > shape.pod_vcpus:
            raise ValueError(
                f"{who}: pod must have at most {shape.pod_vcpus:g} vCPUs, which the kubelet leaves for pods on a node "
                f"with {shape.vcpus}, got {self.cpus}; request less"
            )
        return millicores(self.cpus)

    def _usual_cpus(self, shape: NodeShape) -> int:
        part = shape.vcpus * self._part(shape) * _FOR_PODS
        return max(1, int(min(part, shape.pod_vcpus - self._sidecars("cpus"))))

    def _sidecars(self, argument: str) -> float:
        found: float = sum(getattr(each, argument) for each in self.init_containers if each.sidecar)
        return found

    def refuse_large_init_containers(self, who: object, shape: NodeShape) -> None:
        """Reject init containers that make the pod too large for every node of the pool.

        Raises:
            ValueError: An init container alone, or the pod with its sidecars, requests more than a node has.
        """
        for argument, own, most in (
            ("cpus", self._usual_cpus(shape) if self.cpus is None else self.cpus, shape.pod_vcpus),
            ("memory_gib", self.memory_on(who, shape), shape.pod_memory_gib),
        ):
            asked = [getattr(each, argument) for each in self.init_containers]
            wanted = max([own + self._sidecars(argument), *asked])
            if most and asked and wanted > most:
                raise ValueError(
                    f"{who}: pod must request at most {most:g} {argument} for an init container, or for itself with "
                    f"its sidecars, got {wanted}; request less, because the kubelet leaves no more for pods"
                )

    def scratch_request(self, who: object, shape: NodeShape) -> str | None:
        """Return its request of the node's disk, as a quantity, or ``None`` if it has no scratch.

        Raises:
            ValueError: No node of the pool has that much.
        """
        wanted, most = scratch_gib(self.every_mount), shape.ephemeral_storage_gib
        if wanted > most:
            raise ValueError(
                f"{who}: pod must have at most {most} GiB of scratch, the disk space for pods on the pool's nodes, "
                f"got {wanted}; write NodeShape(disk=Disk(size_gib=...)) or use types with local NVMe"
            )
        return f"{wanted}Gi" if wanted else None

    def per_node(self, who: object, shape: NodeShape) -> int:
        """Return how many such pods fit on the GPUs of the smallest node.

        Raises:
            ValueError: No node of the pool has that many GPUs.
        """
        return shape.gpu_resources(shape.gpus)[self._gpu_resource(who, shape)] // self.gpus

    def room_on(self, who: object, shape: NodeShape, row: InstanceType) -> int:
        """Return the max number of such pods on a node of one of the pool's types.

        Raises:
            ValueError: No node of the pool has the resources that the pod requests.
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
            ValueError: No node of the pool has that much.
        """
        return self.memory_on(who, shape) + self._sidecars("memory_gib")

    def memory_on(self, who: object, shape: NodeShape) -> int:
        """Return the memory that it requests, in GiB.

        Raises:
            ValueError: No node of the pool has that much.
        """
        least = shape.memory_gib
        if least and self.shm_gib >= shape.pod_memory_gib:
            raise ValueError(
                f"{who}: shm_gib must be below {shape.pod_memory_gib}, the memory in GiB that the kubelet of the "
                f"pool's nodes leaves for pods, got {self.shm_gib}; lower it, because it counts as the pod's memory"
            )
        if self.memory_gib is None:
            part = least * self._part(shape) * _FOR_PODS
            return max(self.shm_gib + 1, int(min(part, shape.pod_memory_gib - self._sidecars("memory_gib"))))
        if least and self.memory_gib > shape.pod_memory_gib:
            raise ValueError(
                f"{who}: pod must have at most {shape.pod_memory_gib} GiB of memory, which the kubelet leaves for pods "
                f"on a node with {least}, got {self.memory_gib}; request less"
            )
        return self.memory_gib

    def _part(self, shape: NodeShape) -> float:
        """Return the fraction of a node's GPUs, shares or instances that the pod uses."""
        units = sum(shape.gpu_resources(shape.gpus).values())
        return min(1.0, self.gpus / units)

    def _gpu_resource(self, who: object, shape: NodeShape) -> str:
        offered = shape.gpu_resources(shape.gpus)
        resource = self._named_resource(who, shape, list(offered))
        if self.gpus > offered[resource]:
            raise ValueError(
                f"{who}: pod must have at most the {offered[resource]} {resource} of a node of the pool, got "
                f"{self.gpus}; request fewer, or use a pool of larger nodes"
            )
        if self.gpus > 1 and not isinstance(shape.sharing, (Exclusive, Mig)):
            raise ValueError(
                f"{who}: pod must have one {resource}, got {self.gpus}; request one, because several shares provide "
                "neither more time nor more memory"
            )
        return resource

    def _named_resource(self, who: object, shape: NodeShape, offered: list[str]) -> str:
        if self.mig_profile is None:
            if len(offered) > 1:
                raise ValueError(
                    f"{who}: pod must have a mig_profile, because the pool offers {', '.join(offered)}, got None; "
                    "choose one"
                )
            return offered[0]
        if not isinstance(shape.sharing, Mig):
            raise ValueError(
                f"{who}: pod must have no mig_profile, because the pool has no MIG, got {self.mig_profile!r}; remove it"
            )
        refuse_unless_choice(who, "mig_profile", self.mig_profile, shape.sharing.geometry)
        named = mig_resource(self.mig_profile)
        return named if named in offered else offered[0]


def parse_overlay(who: object, overlay: object) -> Mapping[str, Any]:
    """Return a checked overlay of a pod.

    Raises:
        TypeError: The value isn't a mapping that JSON can represent.
        ValueError: It removes the containers, an item of a list lacks its key, or it contains an access token.
    """
    if not isinstance(overlay, Mapping):
        raise TypeError(
            f"{who}: overlay must be a mapping of fields of a pod's spec, got {overlay!r}; write {{'field': value}}"
        )
    wrapped = next((each for each in _AROUND_THE_SPEC if each in overlay), None)
    if wrapped is not None:
        raise ValueError(
            f"{who}: overlay must have fields of a pod's spec, got {wrapped!r}; leave {wrapped!r} out, because the "
            "overlay applies to the spec"
        )
    for place, value in _leaves(overlay, "overlay"):
        if not _is_plain(value):
            raise TypeError(
                f"{who}: {place} must consist of mappings with names, lists, strings, finite numbers, true, false and "
                f"None, got {value!r}; convert it"
            )
        if isinstance(value, str) and (kind := access_token_kind(value)) is not None:
            raise ValueError(
                f"{who}: {place} must contain no secret in the template, got {kind}; put it into a Secret of the "
                "cluster, and write a secretKeyRef [GPU413]"
            )
    if "containers" in overlay and overlay["containers"] is None:
        raise ValueError(f"{who}: overlay must not remove the containers, got None; leave containers out")
    _refuse_items_without_key(who, overlay, "overlay")
    copied: Mapping[str, Any] = MappingProxyType(_copied(overlay))
    return copied


def with_overlay(who: object, pod: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of a pod with an overlay applied to it.

    Raises:
        ValueError: The overlay has a new container without image.
    """
    for kind in _CONTAINERS:
        _refuse_unknown(who, kind, pod.get(kind) or (), overlay.get(kind) or ())
    found: dict[str, Any] = _without_none(merged(pod, overlay, other=_merge_lists))
    return found


def _refuse_unknown(
    who: object, kind: str, there: Sequence[Mapping[str, Any]], said: Sequence[Mapping[str, Any]]
) -> None:
    names = [each["name"] for each in there]
    for each in said:
        if each["name"] not in names and not each.get("image"):
            known = ", ".join(names) or "none"
            raise ValueError(
                f"{who}: overlay must name one of the {kind}, {known}, or give a new one its image, got "
                f"{each['name']!r}{did_you_mean(str(each['name']), names)}"
            )


def _merge_lists(field: str, ours: Any, theirs: Any) -> Any:
    if field not in _MERGE_KEYS or not isinstance(ours, list) or not isinstance(theirs, list):
        return theirs
    key = _MERGE_KEYS[field]
    found = {each[key]: each for each in ours}
    for each in theirs:
        found[each[key]] = _item(field, found.get(each[key], {}), each)
    return list(found.values())


def _item(field: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in ours.items() if key in theirs} if field in _OF_ONE_KIND else ours
    return merged(kept, theirs, other=_merge_lists)


def _refuse_items_without_key(who: object, value: object, place: str) -> None:
    for name, inner in value.items() if isinstance(value, Mapping) else ():
        listed, key = isinstance(inner, (list, tuple)), _MERGE_KEYS.get(name)
        if key is not None and inner is not None and not listed:
            raise ValueError(f"{who}: {place}.{name} must be a list, got {inner!r}; write [...]")
        for at, each in enumerate(inner) if listed else ():
            if key is not None and (not isinstance(each, Mapping) or each.get(key) is None):
                raise ValueError(
                    f"{who}: {place}.{name} must have {key} in each item, got {each!r}; add it, because it identifies "
                    "the item"
                )
            _refuse_items_without_key(who, each, f"{place}.{name}[{at}]")
        _refuse_items_without_key(who, inner, f"{place}.{name}")


def _leaves(value: object, place: str) -> Iterator[tuple[str, object]]:
    """Yield each value that is neither a mapping with names nor a list, with its place."""
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        for key, inner in value.items():
            yield from _leaves(inner, f"{place}.{key}")
    elif isinstance(value, (list, tuple)):
        for at, inner in enumerate(value):
            yield from _leaves(inner, f"{place}[{at}]")
    else:
        yield place, value


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value))


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(each) for each in value] if isinstance(value, (list, tuple)) else value


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_none(inner) for key, inner in value.items() if inner is not None}
    return [_without_none(each) for each in value] if isinstance(value, list) else value

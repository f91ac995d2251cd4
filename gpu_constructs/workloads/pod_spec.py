"""A GPU pod in Kubernetes' spelling: requests, node selection, security context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdk8s_plus_28 import k8s

from gpu_constructs.pools.pool import Pool, counts_huge_pages, node_selector, tolerations
from gpu_constructs.pools.sharing import REQUEST
from gpu_constructs.workloads.gpu_pod import GpuPod
from gpu_constructs.workloads.init_container import env_manifest
from gpu_constructs.workloads.mounts import VolumeClaimMount, pod_volumes
from gpu_constructs.workloads.placement import refuse_unexpected_memory
from gpu_facts import labels
from gpu_facts.named_arguments import named_arguments
from gpu_facts.resources import DISK

# Karpenter doesn't replace a node with such a pod, and cluster autoscaler doesn't remove it.
DO_NOT_DISRUPT = {labels.DO_NOT_DISRUPT: "true", labels.SAFE_TO_EVICT: "false"}


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Probes:
    """The kubelet's probes of a container.

    Attributes:
        startup: Whether it has started. Before that, the other two don't run.
        readiness: Whether it accepts requests.
        liveness: Whether it must be restarted.
    """

    startup: k8s.Probe
    readiness: k8s.Probe
    liveness: k8s.Probe


def pod_spec(
    who: object,
    pod: GpuPod,
    pool: Pool,
    *,
    name: str,
    restart_policy: str | None = None,
    ports: Sequence[k8s.ContainerPort] = (),
    probes: Probes | None = None,
    spread: Sequence[k8s.TopologySpreadConstraint] = (),
) -> k8s.PodSpec:
    """Return the pod. It selects its nodes by the pool's label, which autoscalers can read before a node boots.

    Raises:
        ValueError: No node of the pool has the resources that it requests.
    """
    shm = k8s.VolumeMount(name="shm", mount_path="/dev/shm")
    return k8s.PodSpec(
        restart_policy=restart_policy,
        service_account_name=pod.service_account,
        automount_service_account_token=None if pod.service_account else False,
        priority_class_name=pod.priority_class,
        node_selector=node_selector(pool),
        tolerations=typed_tolerations(pool),
        topology_spread_constraints=list(spread) or None,
        security_context=_security_context(pod),
        containers=[
            k8s.Container(
                name=name,
                image=pod.image,
                command=list(pod.command) or None,
                args=list(pod.args) or None,
                ports=list(ports) or None,
                resources=_resources(who, pod, pool),
                security_context=k8s.SecurityContext(
                    allow_privilege_escalation=False,
                    # EFA's library pins the memory that it passes to the network card.
                    capabilities=k8s.Capabilities(drop=["ALL"], add=["IPC_LOCK"] if pod.efa else None),
                ),
                volume_mounts=[shm] if pod.shm_gib else None,
                startup_probe=probes.startup if probes else None,
                readiness_probe=probes.readiness if probes else None,
                liveness_probe=probes.liveness if probes else None,
            )
        ],
        volumes=[_shm(pod)] if pod.shm_gib else None,
    )


def _security_context(pod: GpuPod) -> k8s.PodSecurityContext:
    # On a new disk only root may write. If its top folder already has the group, the kubelet doesn't change all files
    # again.
    # Source: https://kubernetes.io/docs/tasks/configure-pod-container/security-context/ (2026-11)
    writes = any(isinstance(each, VolumeClaimMount) and not each.read_only for each in pod.every_mount)
    group = pod.run_as_user if pod.run_as_user and writes else None
    return k8s.PodSecurityContext(
        seccomp_profile=k8s.SeccompProfile(type="RuntimeDefault"),
        run_as_user=pod.run_as_user,
        run_as_non_root=True if pod.run_as_user else None,
        fs_group=group,
        fs_group_change_policy="OnRootMismatch" if group else None,
    )


def with_parts(who: object, spec: Mapping[str, Any], pod: GpuPod) -> dict[str, Any]:
    """Return a spec with all parts of a pod except its GPUs. Its container has the name of its workload.

    Raises:
        ValueError: An init container has the same name.
    """
    [container] = spec["containers"]
    if container["name"] in {each.name for each in pod.init_containers}:
        raise ValueError(
            f"{who}: pod must have init_containers with other names than the container, got {container['name']!r} "
            "twice; rename it"
        )
    of_container = {
        "env": env_manifest(pod.env),
        "envFrom": [each.to_manifest() for each in pod.env_from],
        "volumeMounts": [each.to_manifest() for each in pod.mounts],
    }
    of_pod = {
        "imagePullSecrets": [{"name": each} for each in pod.image_pull_secrets],
        "initContainers": [each.to_manifest() for each in pod.init_containers],
        "volumes": pod_volumes(who, pod.every_mount),
    }
    return _extended(spec, of_pod) | {"containers": [_extended(container, of_container)]}


def _extended(part: Mapping[str, Any], more: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Return a part with more items in some of its lists, after the existing items, which cdk8s sorts."""
    longer = {key: [*part.get(key, ()), *items] for key, items in more.items() if items}
    return dict(sorted({**part, **longer}.items()))


def typed_tolerations(pool: Pool) -> list[k8s.Toleration]:
    """Return the tolerations for the nodes of a pool, typed."""
    return [
        k8s.Toleration(key=each["key"], operator=each["operator"], value=each["value"], effect=each["effect"])
        for each in tolerations(pool)
    ]


def _resources(who: object, pod: GpuPod, pool: Pool) -> k8s.ResourceRequirements:
    limits = pod.limits(who, pool.shape, huge_pages=counts_huge_pages(pool))
    pod.refuse_large_init_containers(who, pool.shape)
    refuse_unexpected_memory(who, pod, pool)
    # For memory and devices the scheduler counts the limit. CPU use may exceed the request.
    requests = limits | {"cpu": pod.cpu_request(who, pool.shape)}
    # No limit: the kubelet would count logs and the container's own files against it, and evict the pod.
    # Source: kubernetes/kubernetes v1.36.3 pkg/kubelet/eviction/eviction_manager.go
    if (scratch := pod.scratch_request(who, pool.shape)) is not None:
        requests[DISK] = scratch
    quantity = k8s.Quantity.from_string
    return k8s.ResourceRequirements(
        claims=[k8s.ResourceClaim(name=REQUEST)] if pool.shape.managed_by.by_claim else None,
        requests={key: quantity(value) for key, value in requests.items()},
        limits={key: quantity(value) for key, value in limits.items()},
    )


def _shm(pod: GpuPod) -> k8s.Volume:
    size = k8s.Quantity.from_string(f"{pod.shm_gib}Gi")
    return k8s.Volume(name="shm", empty_dir=k8s.EmptyDirVolumeSource(medium="Memory", size_limit=size))

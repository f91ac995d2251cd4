"""The parts of a workload other than its pods: permissions, storage, a model, clients outside the cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from aws_cdk import aws_s3 as s3

from gpu_constructs.exposure import Internal, LoadBalancerController
from gpu_constructs.identity import WorkloadIdentity
from gpu_constructs.storage import S3Volume
from gpu_constructs.workloads import CopiedModel, HubModel, MountedModel, StreamedModel, VolumeClaimMount
from tests.random_apps.drawn_values import sometimes
from tests.random_apps.parts import Part, World, part


@dataclass
class Extras:
    """Parts added to a workload.

    Attributes:
        parts: The parts to create before it.
        pod: Arguments of its pod.
        given: Arguments of the workload that are values.
        late: Arguments of the workload that use those parts.
    """

    parts: list[Part] = field(default_factory=list)
    pod: dict[str, Any] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)
    late: dict[str, Callable[[World], Any]] = field(default_factory=dict)


def extras(random: Random, name: str, namespace: str, *, serves: bool) -> Extras:
    """Return what is added to a workload, often nothing.

    Args:
        random: Where it is drawn from.
        name: Name of the workload.
        namespace: Its namespace.
        serves: Whether it is a `GpuDeployment`.
    """
    found = Extras()
    within = (namespace,) if namespace != "default" else ()
    if random.random() < 0.15:
        account = {"service_account": f"{name}-account", "namespace": namespace}
        found.parts.append(part(WorkloadIdentity, f"{name}account", account, within))
        found.pod["service_account"] = f"{name}-account"
    if random.random() < 0.15:
        found.parts.append(_volume(name, namespace, within))
        found.pod["mounts"] = (VolumeClaimMount(path="/data", claim=f"{name}-data", read_only=True),)
    if random.random() < 0.2:
        found.parts.append(_bucket(f"{name}models"))
        found.late["model"] = _model(random, f"{name}models")
    if serves and random.random() < 0.2:
        found.parts.append(part(LoadBalancerController, f"{name}controller"))
        found.given["expose"] = Internal(**sometimes(random, 0.3, idle_seconds=60))
    return found


def _bucket(name: str) -> Part:
    return Part(name, lambda world: s3.Bucket(world.stack, name.title()))


def _volume(name: str, namespace: str, within: tuple[str, ...]) -> Part:
    def make(world: World) -> Any:
        bucket = s3.Bucket(world.stack, f"{name}Files".title())
        given: dict[str, Any] = {"name": f"{name}-data", "namespace": namespace, "bucket": bucket}
        return S3Volume(world.stack, f"{name}Data".title(), cluster=world.cluster, **given)

    return Part(f"{name}data", make, ("cluster", *within), "S3Volume")


def _model(random: Random, bucket: str) -> Callable[[World], Any]:
    kinds: tuple[Callable[..., Any], ...] = (HubModel, CopiedModel, MountedModel, StreamedModel)
    size, kind = random.choice((5, 30, 150)), random.choice(kinds)
    if kind is HubModel:
        return lambda world: HubModel(repo="example/model", revision="a" * 40, size_gib=size)
    sized = {"size_gib": size} if kind is CopiedModel else {}
    return lambda world: kind(bucket=world.made[bucket], prefix="model/", **sized)

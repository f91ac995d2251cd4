"""Values that an app is made of: shapes, sizes, ways of buying, pods."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from random import Random
from typing import Any

from gpu_constructs import (
    CapacityBlock,
    Disk,
    GpuPod,
    Mig,
    Mps,
    NodeShape,
    Reservation,
    Spot,
    Static,
    Taint,
    TimeSlicing,
    UpTo,
)
from gpu_constructs.pools import Disruption, Kubelet, NodeRepair, ScalingOptions
from gpu_constructs.pools.disruption import Consolidation
from gpu_constructs.workloads import InitContainer, ScratchMount
from gpu_facts.hardware.catalogue import InstanceType, catalogue
from gpu_facts.hardware.gpu_models import PROFILES

TYPES = (
    "g4dn.xlarge",
    "g4dn.12xlarge",
    "g5.xlarge",
    "g5.2xlarge",
    "g5.12xlarge",
    "g5.48xlarge",
    "g5g.2xlarge",
    "g6.xlarge",
    "g6.12xlarge",
    "g6e.xlarge",
    "g6e.12xlarge",
    "g6f.xlarge",
    "gr6.4xlarge",
    "g7.2xlarge",
    "g7e.2xlarge",
    "g7e.24xlarge",
    "p4d.24xlarge",
    "p4de.24xlarge",
    "p5.4xlarge",
    "p5.48xlarge",
    "p5en.48xlarge",
    "p6-b200.48xlarge",
)
_STARTS = datetime(2027, 6, 1, 11, 30, tzinfo=timezone.utc)
_IMAGE = "registry.example.com/app@sha256:" + "a" * 64


def sometimes(random: Random, chance: float, **values: Any) -> dict[str, Any]:
    """Return arguments, or none."""
    return values if random.random() < chance else {}


def shape_arguments(random: Random, manager: str, *, auto: bool) -> dict[str, Any]:
    """Return the arguments of a `NodeShape`, whose GPUs a manager tells Kubernetes of."""
    several = random.random() < 0.25
    first = random.choice(TYPES)
    row = catalogue()[first]
    alike = [each for each in TYPES if _is_alike(catalogue()[each], row) or random.random() < 0.05]
    names = tuple(dict.fromkeys((first, random.choice(alike)))) if several and alike else (first,)
    system = random.choices((None, "al2023", "bottlerocket"), (7, 1, 3))[0]
    manager = random.choices((manager, "dra"), (9, 1))[0]
    claims = manager == "dra" and random.random() < 0.9
    managed = manager != "device-plugin" and (system != "bottlerocket" or random.random() < 0.1)
    simple = auto and random.random() < 0.9
    own = {
        **({"operating_system": system} if system else {}),
        **({"device_manager": manager} if managed else {}),
        **sometimes(random, 0.05 if claims or not row.ec2_gpus else 0.4, sharing=_sharing(random, first)),
        **sometimes(random, 0.2, kubelet=_kubelet(random)),
        **sometimes(random, 0.15, raid0=False),
        **sometimes(random, 0.1, soci=True, disk=Disk(iops=16000, throughput_mib_s=random.choice((125, 1000)))),
        **sometimes(random, 0.1, storage_drivers=(random.choice(("ebs", "fsx", "s3")),)),
    }
    return {
        "instance_types": names,
        **({} if simple else own),
        **sometimes(random, 0.2, disk=Disk(size_gib=random.choice((20, 50, 200, 1000)))),
        **sometimes(random, 0.25, efa=bool(catalogue()[first].max_efa) and not several),
        **sometimes(random, 0.2, purpose=random.choice(("training", "inference"))),
        **sometimes(random, 0.2, labels={"example.com/team": "a"}),
        **sometimes(random, 0.2, taints=(Taint(key="example.com/team", value="a"),)),
        **sometimes(random, 0.1, gpu_taint=False),
    }


def _is_alike(one: InstanceType, other: InstanceType) -> bool:
    return (one.architecture, one.gpus) == (other.architecture, other.gpus)


def _sharing(random: Random, name: str) -> TimeSlicing | Mps | Mig:
    profiles = PROFILES.get(name.partition(".")[0])
    way = random.choice((TimeSlicing, Mps, Mig))
    if way is Mig and profiles:
        profile = random.choice([each for each in profiles if "+" not in each])
        geometry = {profile: random.choice((profiles[profile], random.randint(1, profiles[profile])))}
        return Mig(geometry=geometry | sometimes(random, 0.3, **{random.choice(list(profiles)): 1}))
    return (TimeSlicing if way is TimeSlicing else Mps)(replicas=random.choice((2, 4, 10)))


def _kubelet(random: Random) -> Kubelet:
    return Kubelet(
        **sometimes(random, 0.7, max_pods=random.choice((1, 3, 20, 30, 110))),
        **sometimes(random, 0.5, kube_reserved={"memory": random.choice(("500Mi", "4Gi", "12Gi"))}),
        **sometimes(random, 0.3, system_reserved={"cpu": random.choice(("200m", "2"))}),
    )


def capacity(random: Random, zone: str) -> Any:
    """Return how instances are bought; on demand mostly.

    Args:
        random: Where it is drawn from.
        zone: Zone of the reservation.
    """
    block = CapacityBlock(
        id="cr-0123456789abcdef0",
        availability_zone=zone,
        starts=_STARTS,
        ends=_STARTS + timedelta(days=2),
        instances=2,
    )
    reserved = Reservation(id="cr-0123456789abcdef0", availability_zone=zone)
    return random.choices((None, Spot(), reserved, block), (7, 2, 1, 1))[0]


def group_size(random: Random, shaped: dict[str, Any]) -> dict[str, Any]:
    """Return the size of a node group."""
    most = random.choice((1, 2, 2, 4, 8))
    claimed = shaped.get("device_manager") == "dra" and random.random() < 0.9
    return {
        "max_nodes": most,
        **sometimes(random, 1 if claimed else 0.3, min_nodes=1 if claimed else random.choice((0, 1, 2))),
    }


def karpenter_size(random: Random, shaped: dict[str, Any]) -> dict[str, Any]:
    """Return the size of a pool of Karpenter."""
    each = max(catalogue()[name].gpus for name in shaped["instance_types"])
    gpus = each * random.choice((1, 1, 2, 4)) + random.choice((0, 0, 0, 1))
    up_to = UpTo(gpus=gpus, **sometimes(random, 0.2, weight=random.randint(1, 100)))
    return {"size": random.choice((up_to, up_to, up_to, Static(nodes=random.randint(1, 3))))}


def group_options(random: Random) -> dict[str, Any]:
    """Return what only a managed group takes."""
    return {
        **sometimes(random, 0.2, node_repair=NodeRepair(max_parallel=1)),
        **sometimes(random, 0.2, scaling_options=ScalingOptions(unneeded_minutes=random.choice((5, 30)))),
    }


def disruption(random: Random) -> dict[str, Any]:
    """Return when Karpenter removes nodes, or nothing."""
    when: Consolidation = random.choice(("WhenEmpty", "WhenEmptyOrUnderutilized"))
    made = Disruption(consolidation=when, consolidate_after_minutes=random.choice((1, 30)))
    return sometimes(random, 0.2, disruption=made)


def pod_arguments(random: Random, shape: NodeShape, *, whole: bool) -> dict[str, Any]:
    """Return the arguments of a `GpuPod` that mostly fits on a node."""
    units = sum(shape.gpu_resources(shape.gpus).values())
    most = 1 if isinstance(shape.sharing, (TimeSlicing, Mps)) else units
    several = isinstance(shape.sharing, Mig) and len(shape.sharing.geometry) > 1
    sidecar = random.random() < 0.3
    return {
        "image": _IMAGE,
        "gpus": most
        if whole
        else random.choice((1, 1, most, random.randint(1, most), most + random.choice((0, 0, 1)))),
        **sometimes(random, 0.3, cpus=random.choice((0.5, 1.005, 2, 2.5, 3.5, 8, 40))),
        **sometimes(random, 0.3, memory_gib=random.choice((2, 4, 8, 12, 60, 400))),
        **sometimes(random, 0.2, shm_gib=random.choice((0, 2, 8))),
        **sometimes(random, 0.9, efa=(shape.rows[0].max_efa or 0) if shape.efa else 0),
        **({"mig_profile": random.choice(list(shape.sharing.geometry))} if several else {}),  # type: ignore[union-attr]
        **sometimes(random, 0.2, run_as_user=1000),
        **sometimes(random, 0.15, mounts=(ScratchMount(path="/scratch", size_gib=random.choice((5, 40, 300))),)),
        **sometimes(
            random,
            0.15,
            init_containers=(InitContainer(name="side", image=_IMAGE, cpus=0.5, sidecar=sidecar),),
        ),
    }


def pod_of(random: Random, shape: NodeShape, own: dict[str, Any], *, whole: bool) -> GpuPod:
    """Return a pod for a node, or for a whole one, with its own arguments."""
    claimed = {"gpus": 1} if "claim" in own else {}
    return GpuPod(**pod_arguments(random, shape, whole=whole) | own | claimed)

"""Pods that nearly fit a pool, or just do: drawn by a seed, so that two runs ask the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

Json = dict[str, Any]
GPU, SHARED, EFA = "nvidia.com/gpu", "nvidia.com/gpu.shared", "vpc.amazonaws.com/efa"
DEVICES = {
    "sliced": SHARED,
    "mps": SHARED,
    "bottlerocket-sliced": SHARED,
}
PROFILES = ("nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb")
ZONES = ("us-east-1a", "us-east-1b", "us-east-1f", "eu-west-1a")
_TYPES = ("g6.xlarge", "g6e.2xlarge", "g5.12xlarge", "g6.2xlarge", "p4d.24xlarge", "g5g.xlarge", "p5.48xlarge")
_LABELS: Mapping[str, tuple[str, ...]] = {
    "team": ("vision", "speech", "17"),
    "tier": ("gold",),
    "example.com/rank": ("17", "5"),
    "kubernetes.io/arch": ("amd64", "arm64"),
    "kubernetes.io/os": ("linux", "windows"),
    "node.kubernetes.io/instance-type": _TYPES,
    "topology.kubernetes.io/zone": ZONES,
    "topology.kubernetes.io/region": ("us-east-1", "eu-west-1"),
    "karpenter.sh/capacity-type": ("spot", "on-demand", "reserved"),
    "karpenter.k8s.aws/instance-family": ("g6", "g6e", "g5", "p4d"),
    "karpenter.k8s.aws/instance-gpu-count": ("1", "4", "8"),
    "karpenter.k8s.aws/instance-gpu-memory": ("24576", "22888"),
    "karpenter.k8s.aws/instance-gpu-name": ("l4", "a10g", "a100"),
    "karpenter.k8s.aws/instance-cpu": ("4", "8", "48"),
    "gpu-constructs.io/pool": ("l4", "mig", "vision"),
    "nvidia.com/gpu.present": ("true",),
    "nvidia.com/gpu.product": ("NVIDIA-L4",),
    "unheard.of/label": ("yes",),
}
_AMOUNTS = {
    "cpu": (
        "100m",
        "1",
        "3",
        "3600m",
        "3700m",
        "3800m",
        "3900m",
        "3920m",
        "4",
        "7",
        "7900m",
        "15",
        "47",
        "47800m",
        "95",
    ),
    "memory": ("1Gi", "8Gi", "13Gi", "13500Mi", "14Gi", "14500Mi", "15Gi", "29Gi", "30Gi", "60Gi", "180Gi", "1100Gi"),
    "ephemeral-storage": ("1Gi", "10Gi", "80Gi", "88Gi", "90Gi", "95Gi", "100Gi", "356Gi", "376Gi", "380Gi", "400Gi"),
}
_TAINTS = (GPU, "team")


def pod(random: random.Random, pool: str) -> Json:
    """Draw a pod that suits a pool except for some of its requirements."""
    spec: Json = {
        "containers": [{"name": "main", "image": "app:1", "resources": {"limits": _devices(random, pool)}}],
        "tolerations": [{"key": GPU, "operator": "Exists"}],
    }
    if random.random() < 0.8:
        spec["tolerations"].append({"key": "team", "operator": "Exists"})
    for change in random.choices(_CHANGES, k=random.choice((0, 1, 1, 2))):
        change(random, spec)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"app": "pod"}}, "spec": spec}


def _devices(random: random.Random, pool: str) -> Json:
    own = random.choice(PROFILES) if pool == "mig" else DEVICES.get(pool, GPU)
    if random.random() < 0.06:
        own = random.choice((GPU, SHARED, *PROFILES))
    found = {own: str(random.choice((1, 1, 1, 1, 2, 4, 8)))}
    if pool == "efa" and random.random() < 0.7:
        found[EFA] = "1"
    return found


def _amount(random: random.Random, spec: Json) -> None:
    container = random.choice(spec["containers"])
    name = random.choice(list(_AMOUNTS))
    container["resources"].setdefault("requests", {})[name] = random.choice(_AMOUNTS[name])


def _selector(random: random.Random, spec: Json) -> None:
    key = random.choice(list(_LABELS))
    spec.setdefault("nodeSelector", {})[key] = random.choice(_LABELS[key])


def _affinity(random: random.Random, spec: Json) -> None:
    key = random.choice(list(_LABELS))
    operator = random.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    expression: Json = {"key": key, "operator": operator}
    if operator in ("In", "NotIn"):
        expression["values"] = random.sample(_LABELS[key], k=min(len(_LABELS[key]), random.choice((1, 2))))
    elif operator in ("Gt", "Lt"):
        expression["values"] = [random.choice(("3", "4", "17", "30000"))]
    terms = [{"matchExpressions": [expression]}]
    required = {"nodeSelectorTerms": terms}
    spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def _tolerations(random: random.Random, spec: Json) -> None:
    spec["tolerations"] = random.choice(
        (
            [],
            [{"operator": "Exists"}],
            [{"key": GPU, "operator": "Equal", "value": random.choice(("true", "present")), "effect": "NoSchedule"}],
            [
                {
                    "key": random.choice(_TAINTS),
                    "operator": "Exists",
                    "effect": random.choice(("NoSchedule", "NoExecute")),
                }
            ],
            [{"key": "team", "value": random.choice(("vision", "speech"))}, {"key": GPU, "operator": "Exists"}],
        )
    )


def _second_container(random: random.Random, spec: Json) -> None:
    made: Json = {"name": f"second-{len(spec['containers'])}", "image": "app:1", "resources": {}}
    spec["containers"].append(made)
    _amount(random, spec)


def _init_container(random: random.Random, spec: Json) -> None:
    name = random.choice(("cpu", "memory"))
    made: Json = {"name": "first", "image": "app:1"}
    made["resources"] = {"requests": {name: random.choice(_AMOUNTS[name])}}
    spec["initContainers"] = [made | random.choice(({}, {"restartPolicy": "Always"}))]


def _spread(random: random.Random, spec: Json) -> None:
    key = random.choice(("topology.kubernetes.io/zone", "kubernetes.io/hostname", "team"))
    spec["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": random.choice(("DoNotSchedule", "ScheduleAnyway")),
            "labelSelector": {"matchLabels": {"app": random.choice(("pod", "other"))}},
        }
    ]


def _beside(random: random.Random, spec: Json) -> None:
    term = {
        "topologyKey": random.choice(("kubernetes.io/hostname", "topology.kubernetes.io/zone")),
        "labelSelector": {"matchLabels": {"app": random.choice(("pod", "other"))}},
    }
    kind = random.choice(("podAffinity", "podAntiAffinity"))
    spec["affinity"] = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


_CHANGES: tuple[Callable[[random.Random, Json], None], ...] = (
    _amount,
    _amount,
    _amount,
    _selector,
    _selector,
    _affinity,
    _affinity,
    _tolerations,
    _second_container,
    _init_container,
    _spread,
    _beside,
)

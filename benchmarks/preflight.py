"""Time preflight: many pods against many pools, and how the time grows with each.

Prints seconds of this machine, and ratios between runs of the same process, which hold on any machine.
"""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any

from gpu_preflight.case import Case
from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.judging.explain import explain
from gpu_preflight.reading.inputs import Input
from gpu_preflight.reading.objects import Object, Origin

TYPES = ("g6.xlarge", "g6.12xlarge", "g5.2xlarge", "g6e.48xlarge", "p5.48xlarge", "g4dn.xlarge")
ORIGIN = Origin("benchmark", "benchmark")
LIMIT_SECONDS = 2.0
LIMIT_CHECK = 0.5
# Of 12 s and 2 s, which hold for one machine.
LARGE_RATIO = 6


def node_pool(number: int) -> Object:
    """A NodePool with two instance types and taint and label of its own."""
    types = [TYPES[number % len(TYPES)], TYPES[(number + 1) % len(TYPES)]]
    requirements = [
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    ]
    spec = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
        "requirements": requirements,
        "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}],
    }
    template = {"metadata": {"labels": {"team": f"team-{number % 50}"}}, "spec": spec}
    content = {"template": template, "limits": {"nvidia.com/gpu": "64"}}
    return _object("karpenter.sh/v1", "NodePool", f"pool-{number}", content)


def pod(number: int, shapes: int) -> Object:
    """A pod of one of some shapes."""
    shape = number % shapes
    requests = {"nvidia.com/gpu": str(1 + shape % 8), "cpu": str(1 + shape % 7), "memory": f"{4 + shape}Gi"}
    spec = {
        "nodeSelector": {"team": f"team-{shape % 60}"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "containers": [{"name": "main", "image": "x", "resources": {"limits": requests}}],
    }
    return _object("v1", "Pod", f"pod-{number}", spec)


def _object(version: str, kind: str, name: str, spec: dict[str, Any]) -> Object:
    return Object({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}, ORIGIN)


def node_class() -> Object:
    """The EC2NodeClass of every pool."""
    spec = {"amiSelectorTerms": [{"alias": "al2023@v20260714"}]}
    return _object("karpenter.k8s.aws/v1", "EC2NodeClass", "gpu", spec)


def device_plugin() -> Object:
    """A device plugin that runs everywhere."""
    template = {
        "spec": {
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "plugin", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"}],
        }
    }
    return _object("apps/v1", "DaemonSet", "nvidia-device-plugin", {"template": template})


def judging(pods: int, shapes: int, pools: int) -> Callable[[], object]:
    """Return what judges so many pods of so many shapes against so many pools."""
    objects = [
        *map(node_pool, range(pools)),
        *(pod(each, shapes) for each in range(pods)),
        node_class(),
        device_plugin(),
    ]
    given = Input({}, tuple(objects), ())
    return lambda: [explain(Case(cluster)) for cluster in clusters(given)]


def seconds(work: Callable[[], object], rounds: int = 3) -> float:
    """Return the shortest of some rounds."""
    taken = []
    for _ in range(rounds):
        gc.collect()
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return min(taken)


def command(*words: str) -> Callable[[], object]:
    """Return what runs Python with some words, as a process of its own."""
    return lambda: subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=False)


def own_seconds() -> float:
    """Return how much longer `check` of the default template takes than Python's start."""
    with TemporaryDirectory() as folder:
        environment = {**os.environ, "CDK_OUTDIR": folder}
        subprocess.run([sys.executable, "app.py"], env=environment, check=True, capture_output=True)
        checked = command("-m", "gpu_constructs", "check", f"{folder}/GpuClusterStack.template.json")
        return seconds(checked, rounds=7) - seconds(command("-c", "pass"), rounds=7)


def main() -> None:
    """Print the figures."""
    print(f"check of the default template: {own_seconds():.2f} s over Python's start (limit {LIMIT_CHECK} s)")
    whole = seconds(judging(10_000, 200, 300))
    print(f"10,000 pods of 200 shapes against 300 pools: {whole:.2f} s (limit {LIMIT_SECONDS} s)")
    large = seconds(judging(100_000, 200, 1_000), rounds=1)
    print(
        f"100,000 pods of 200 shapes against 1,000 pools: {large:.1f} s, {large / whole:.1f} times as long "
        f"(limit {LARGE_RATIO}), {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB (limit 1)"
    )
    half = seconds(judging(10_000, 200, 150))
    print(f"growth with pools: 300 take {whole / half:.2f} times what 150 take")
    fewer = seconds(judging(10_000, 100, 300))
    print(f"growth with shapes: 200 take {whole / fewer:.2f} times what 100 take")
    single = seconds(judging(1_000, 200, 300))
    print(f"growth with pods: 10,000 take {whole / single:.2f} times what 1,000 take")


if __name__ == "__main__":
    main()

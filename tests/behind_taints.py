"""Six pods and the taints of GPU pools, one of which EKS tolerates: questions for preflight and for Kubernetes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aws_cdk as cdk

from gpu_constructs import GpuCluster, Mig, NodeShape, TimeSlicing
from gpu_constructs.pools import Taint

# Each pod's requests, its pool, and whether it runs there without its own toleration.
PLAIN, SHARED, SLICE, CLAIM, EXPELLED, DAEMON = "plain", "shared", "slice", "claim", "expelled", "daemon"
RUNS = {PLAIN: True, SHARED: False, SLICE: False, CLAIM: False, EXPELLED: False, DAEMON: False}
POOL_OF = {PLAIN: "l4", SHARED: "sliced", SLICE: "cut", CLAIM: "l4", EXPELLED: "strict", DAEMON: "l4"}
_ASKED = {
    PLAIN: "nvidia.com/gpu",
    SHARED: "nvidia.com/gpu.shared",
    SLICE: "nvidia.com/mig-1g.5gb",
    EXPELLED: "nvidia.com/gpu",
    DAEMON: "nvidia.com/gpu",
}
DEVICE_CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu.nvidia.com"},
    "spec": {},
}
CLAIMED = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "gpu", "namespace": "default"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
}


def synthesized(folder: Path) -> Path:
    """Write the assembly of a cluster whose pools have the taint of every GPU node, and one of them another."""
    app = cdk.App(outdir=str(folder))
    gpu = GpuCluster(cdk.Stack(app, "Inference"), "Gpu")
    gpu.add_pool("l4", "g6.xlarge", max_nodes=8)
    gpu.add_pool("sliced", NodeShape(instance_types=["g6.xlarge"], sharing=TimeSlicing(replicas=4)), max_nodes=2)
    gpu.add_pool("cut", NodeShape(instance_types=["p4d.24xlarge"], sharing=Mig(geometry={"1g.5gb": 7})), max_nodes=1)
    strict = (Taint(key="nvidia.com/gpu", value="true", effect="NoExecute"),)
    gpu.add_pool("strict", NodeShape(instance_types=["g6.xlarge"], taints=strict), max_nodes=2)
    app.synth()
    return folder


def manifest(name: str, *, tolerating: bool = False) -> dict[str, Any]:
    """The pod, or the DaemonSet, of a name, on its pool and no other."""
    container: dict[str, Any] = {"name": "main", "image": "registry.example.com/main:1"}
    spec: dict[str, Any] = {"containers": [container], "nodeSelector": {"gpu-constructs.io/pool": POOL_OF[name]}}
    if name == CLAIM:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "gpu"}]
        container["resources"] = {"claims": [{"name": "gpu"}]}
    else:
        container["resources"] = {"limits": {_ASKED[name]: "1"}}
    if tolerating:
        spec["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    metadata = {"name": name, "namespace": "default"}
    if name != DAEMON:
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    whole = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": whole}

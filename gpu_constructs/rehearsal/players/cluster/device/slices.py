"""Devices that NVIDIA's DRA driver publishes.

Source: https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/blob/v0.4.1/cmd/gpu-kubelet-plugin/deviceinfo.go and
https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/resource-slice-v1/
"""

from __future__ import annotations

from typing import Any

from gpu_constructs.rehearsal.players.cluster.client import Object
from gpu_constructs.rehearsal.players.cluster.device.gpus import Gpus

DRIVER = "gpu.nvidia.com"
PATH = "/apis/resource.k8s.io/v1/resourceslices"


def slice_of(node: Object, gpus: Gpus) -> Object:
    """Render the devices of a node.

    Attributes that EC2 does not tell are left out: a claim that asks for one is not allocated, and the scheduler says
    why.

    Args:
        node: The node.
        gpus: Its GPUs.
    """
    metadata = node["metadata"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": metadata["name"], "uid": metadata["uid"], "controller": True}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{metadata['name']}-{DRIVER}", "ownerReferences": [owner]},
        "spec": {
            "driver": DRIVER,
            "nodeName": metadata["name"],
            "pool": {"name": metadata["name"], "generation": 1, "resourceSliceCount": 1},
            "devices": [_device(metadata["uid"], number, gpus) for number in range(gpus.count)],
        },
    }


def _device(node: str, number: int, gpus: Gpus) -> dict[str, Any]:
    return {
        "name": f"gpu-{number}",
        "attributes": {"type": {"string": "gpu"}, "uuid": {"string": f"GPU-{node}-{number}"[:64]}},
        "capacity": {"memory": {"value": f"{gpus.memory_mib}Mi"}},
    }

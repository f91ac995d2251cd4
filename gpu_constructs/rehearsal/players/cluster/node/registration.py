"""A node as it is when its kubelet registers it, and as the cloud controller makes it then.

Source: https://kubernetes.io/docs/reference/labels-annotations-taints/ and
https://github.com/kubernetes/cloud-provider-aws/blob/master/pkg/providers/v1/instances_v2.go
"""

from __future__ import annotations

from datetime import datetime, timezone

from gpu_constructs.rehearsal.players.cluster.client import Object
from gpu_constructs.rehearsal.players.cluster.node.instances import Instance
from gpu_constructs.rehearsal.players.cluster.node.node_size import allocatable, capacity

# Until the cloud controller has named its zone and type.
UNINITIALIZED = {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}
_ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}
_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")


def name_of(instance: Instance) -> str:
    """Return the name of the node that an instance becomes.

    Source: https://github.com/awslabs/amazon-eks-ami/pull/1264
    """
    return str(instance.said["PrivateDnsName"])


def registered(instance: Instance, *, version: str) -> Object:
    """Render a node as its kubelet makes it.

    Args:
        instance: The instance.
        version: Minor version of Kubernetes.
    """
    name, told = name_of(instance), instance.told
    machine = _ARCHITECTURES[instance.kind["ProcessorInfo"]["SupportedArchitectures"][-1]]
    has = capacity(instance.kind, told, volume_gib=instance.volume_gib)
    own = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": machine}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**told.labels, **own}},
        "spec": {
            "providerID": f"aws:///{instance.zone}/{instance.id}",
            "taints": [*map(dict, told.taints), UNINITIALIZED],
        },
        "status": {
            "capacity": has,
            "allocatable": allocatable(has, instance.kind, told),
            "conditions": [_condition(each, "False", "KubeletHasNo" + each) for each in _PRESSURES] + [not_ready()],
            "addresses": [
                {"type": "InternalIP", "address": instance.said["PrivateIpAddress"]},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": _info(machine, version),
        },
    }


def cloud_labels(instance: Instance, *, region: str, zone_id: str) -> dict[str, str]:
    """Return the labels that the cloud controller adds."""
    return {
        "node.kubernetes.io/instance-type": instance.said["InstanceType"],
        "beta.kubernetes.io/instance-type": instance.said["InstanceType"],
        "topology.kubernetes.io/zone": instance.zone,
        "failure-domain.beta.kubernetes.io/zone": instance.zone,
        "topology.kubernetes.io/region": region,
        "failure-domain.beta.kubernetes.io/region": region,
        "topology.k8s.aws/zone-id": zone_id,
    }


def ready() -> Object:
    """Render the condition of a node that takes pods."""
    return _condition("Ready", "True", "KubeletReady", "kubelet is posting ready status")


def not_ready() -> Object:
    """Render the condition of a node whose network is not up."""
    return _condition(
        "Ready", "False", "KubeletNotReady", "container runtime network not ready: cni plugin not initialized"
    )


def now() -> str:
    """Return the time as Kubernetes writes it."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def lease(name: str) -> Object:
    """Render the lease that says that the kubelet of a node lives."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": renewed()},
    }


def renewed() -> str:
    """Return the time as leases write it."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _condition(kind: str, status: str, reason: str, message: str = "") -> Object:
    at = now()
    said = {"type": kind, "status": status, "reason": reason, "message": message}
    return said | {"lastHeartbeatTime": at, "lastTransitionTime": at}


def _info(machine: str, version: str) -> dict[str, str]:
    ids = {each: "" for each in ("machineID", "systemUUID", "bootID", "kernelVersion", "osImage")}
    runtime = {"containerRuntimeVersion": "containerd://2.1.0", "kubeProxyVersion": ""}
    return ids | runtime | {"kubeletVersion": f"v{version}.0", "operatingSystem": "linux", "architecture": machine}

"""Nodes that exist only as objects, their kubelets' heartbeats, and the workloads that every EKS cluster has."""

from __future__ import annotations

import hashlib
import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from moto.ec2.models.instance_types import INSTANCE_TYPES

from gpu_rehearsal.cluster.bootstrap import Bootstrap
from gpu_rehearsal.cluster.client import Client, Loop, Object
from gpu_rehearsal.cluster.instances import (
    UNINITIALIZED,
    Instance,
    Node,
    cloud_labels,
    lease_time,
    node_name,
    render_lease,
    render_node,
)
from gpu_rehearsal.cluster.nodes import Kubelet
from gpu_rehearsal.processes import wait_until

GPU = "nvidia.com/gpu"
REGION = "us-east-1"
GPU_TAINT = {"key": GPU, "value": "true", "effect": "NoSchedule"}
_SECONDS_BETWEEN_HEARTBEATS = 5.0
_PACE = 0.1
_INFO = {
    "machineID": "ec2b5c9a1f0e4f0f8c5d1f6e6c1d7a55",
    "systemUUID": "ec2b5c9a-1f0e-4f0f-8c5d-1f6e6c1d7a55",
    "bootID": "6f5b1f0c-2a5e-4a55-9a0a-5a1b8e1f9f5d",
    "kernelVersion": "6.12.55-74.119.amzn2023.x86_64",
    "osImage": "Amazon Linux 2023.9.20260714",
    "kubeletVersion": "v1.36.3-eks-1a2b3c4",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeSpec:
    """A node of a managed node group.

    Attributes:
        kind: Its instance type.
        group: Its node group.
        zone: Letter of its Availability Zone.
        labels: Labels in addition to the ones that EKS sets.
        taints: Its taints.
        devices: Devices as ``(capacity, allocatable)`` by resource. Default: the GPUs of the type, all of them free.
        max_pods: Its max pods. Default: by the network interfaces of the type.
        cordoned: Whether it is cordoned.
        pressure: The pressure that its kubelet reports, as in ``DiskPressure``; empty for none.
    """

    kind: str
    group: str
    zone: str = "a"
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    devices: Mapping[str, tuple[int, int]] | None = None
    max_pods: int | None = None
    cordoned: bool = False
    pressure: str = ""


def gpu_node(kind: str = "g6.12xlarge", **fields: object) -> NodeSpec:
    """Return a node with GPUs, the GPU taint and the label that the device plugin selects."""
    labels: Mapping[str, str] = fields.pop("labels", {})  # type: ignore[assignment]
    chosen: dict[str, object] = {"group": "gpu", "taints": (GPU_TAINT,), **fields}
    return NodeSpec(kind=kind, labels={"nvidia.com/gpu.present": "true", **labels}, **chosen)  # type: ignore[arg-type]


def cpu_node(**fields: object) -> NodeSpec:
    """Return a node without GPUs."""
    return NodeSpec(kind="m6i.xlarge", group="system", **fields)  # type: ignore[arg-type]


FLEET = (cpu_node(), gpu_node())


def gpu_count(kind: str) -> int:
    """Return the number of NVIDIA GPUs of an instance type."""
    return sum(int(each["Count"]) for each in INSTANCE_TYPES[kind].get("GpuInfo", {}).get("Gpus", ()))


class Fleet:
    """The nodes of a control plane, their kubelets and their leases.

    Attributes:
        nodes: The nodes whose kubelets manage pods, by name. Remove one to let its kubelet hang.
        beating: Names of the nodes whose leases are renewed.
    """

    def __init__(self, client: Client) -> None:
        self._client, self.nodes, self.beating = client, dict[str, Node](), set[str]()
        self._numbers = itertools.count(11)
        self.kubelet = Kubelet(client, self.nodes, pace=_PACE)
        self._heartbeats = Loop("heartbeats", self._renew, seconds=_SECONDS_BETWEEN_HEARTBEATS)

    def __enter__(self) -> Fleet:
        self.kubelet.loop.start()
        self._heartbeats.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._heartbeats.stop()
        self.kubelet.__exit__()

    def _renew(self) -> None:
        for name in sorted(self.beating):
            self._client.patch(_lease(name), {"spec": {"renewTime": lease_time()}})

    def join(self, specs: Sequence[NodeSpec]) -> list[str]:
        """Register nodes, wait until the lifecycle controller has set their taints, and return their names."""
        names = [self._join(each) for each in specs]
        wait_until(lambda: all(map(self._has_own_taints, names, specs)), "the taints of new nodes")
        return names

    def _join(self, spec: NodeSpec) -> str:
        instance = _instance(spec, next(self._numbers))
        name = node_name(instance)
        manifest = render_node(instance, version="1.36")
        manifest["metadata"]["labels"] |= cloud_labels(
            instance, region=REGION, zone_id=f"use1-az{'abcdef'.index(spec.zone) + 1}"
        )
        manifest["metadata"]["labels"] |= {"topology.ebs.csi.aws.com/zone": instance.zone}
        manifest["spec"]["taints"].remove(UNINITIALIZED)
        manifest["spec"] |= {"unschedulable": True} if spec.cordoned else {}
        manifest["status"]["nodeInfo"] |= _INFO
        manifest["status"]["conditions"] = _conditions(manifest["status"]["conditions"], spec.pressure)
        devices = {GPU: (gpu_count(spec.kind),) * 2} if spec.devices is None and gpu_count(spec.kind) else spec.devices
        for resource, (there, free) in (devices or {}).items():
            manifest["status"]["capacity"][resource] = str(there)
            manifest["status"]["allocatable"][resource] = str(free)
        self._client.delete(_lease(name))
        self._client.create(render_lease(name))
        self._client.create(manifest)
        kubelet = self._client.impersonating(f"system:node:{name}", ["system:nodes"])
        self.beating.add(name)
        self.nodes[name] = Node(name, instance, kubelet, time.monotonic(), ready=True)
        return name

    def _has_own_taints(self, name: str, spec: NodeSpec) -> bool:
        taints = self._client.get(f"/api/v1/nodes/{name}")["spec"].get("taints", ())
        expected = {"node.kubernetes.io/unschedulable"} if spec.cordoned else set()
        pressure = {"DiskPressure": "disk-pressure", "MemoryPressure": "memory-pressure"}
        expected |= {f"node.kubernetes.io/{pressure[spec.pressure]}"} if spec.pressure else set()
        return {each["key"] for each in taints if each["key"].startswith("node.kubernetes.io/")} == expected

    def leave(self) -> None:
        """Remove all nodes."""
        names = [each["metadata"]["name"] for each in self._client.list("/api/v1/nodes")]
        self.nodes.clear()
        self.beating.clear()
        self._client.delete("/api/v1/nodes")
        for each in names:
            self._client.delete(_lease(each))


def _lease(node: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}"


def _instance(spec: NodeSpec, number: int) -> Instance:
    subnet = {"a": 1, "b": 2, "c": 3}[spec.zone]
    address = f"10.0.{subnet}.{number}"
    labels = {
        "eks.amazonaws.com/nodegroup": spec.group,
        "eks.amazonaws.com/capacityType": "ON_DEMAND",
        "k8s.io/cloud-provider-aws": hashlib.sha256(b"cluster").hexdigest()[:32],
    }
    kubelet = {} if spec.max_pods is None else {"maxPods": spec.max_pods}
    return Instance(
        description={
            "InstanceId": "i-0" + hashlib.sha256(address.encode()).hexdigest()[:16],
            "InstanceType": spec.kind,
            "Placement": {"AvailabilityZone": f"{REGION}{spec.zone}"},
            "PrivateIpAddress": address,
            "PrivateDnsName": f"ip-{address.replace('.', '-')}.ec2.internal",
        },
        kind=INSTANCE_TYPES[spec.kind],
        bootstrap=Bootstrap(
            cluster="cluster",
            endpoint="",
            certificate_authority="",
            labels={**labels, **spec.labels},
            taints=spec.taints,
            kubelet=kubelet,
        ),
        volume_gib=200,
        role="",
    )


def _conditions(conditions: Sequence[Object], pressure: str) -> list[Object]:
    """Return the conditions of a ready node, in the words of the kubelet.

    Source: kubernetes 1.36 pkg/kubelet/nodestatus/setters.go
    """
    texts = {
        "MemoryPressure": ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        "DiskPressure": ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        "PIDPressure": ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        "Ready": ("KubeletReady", "kubelet is posting ready status"),
    }
    bad = {
        "MemoryPressure": ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
        "DiskPressure": ("KubeletHasDiskPressure", "kubelet has disk pressure"),
    }
    return [
        each
        | dict(zip(("reason", "message"), (bad if each["type"] == pressure else texts)[each["type"]], strict=True))
        | {"status": "True" if each["type"] in ("Ready", pressure) else "False"}
        for each in conditions
    ]


def container(image: str, limits: Mapping[str, str] | None = None, /, **requests: str) -> Object:
    """Return a container with an image."""
    resources: Object = {"requests": requests} if requests else {}
    if limits:
        resources["limits"] = dict(limits)
    return {"name": "main", "image": image, "resources": resources}


def _daemon_set(name: str, pod: Object) -> Object:
    labels = {"app.kubernetes.io/name": name}
    template = {"metadata": {"labels": labels}, "spec": {"priorityClassName": "system-node-critical", **pod}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "kube-system", "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def deployment(name: str, pod: Object, *, namespace: str = "", replicas: int = 1, **labels: str) -> Object:
    """Return a Deployment. Without a namespace, it goes to the namespace of the cause."""
    own = {"app": name, **labels}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": own} | ({"namespace": namespace} if namespace else {}),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": own}, "spec": pod},
        },
    }


_ANY = [{"operator": "Exists"}]


def device_plugin(
    *, key: str = "nvidia.com/gpu.present", tolerations: Sequence[Object] | None = None, **requests: str
) -> Object:
    """Return NVIDIA's device plugin as its chart renders it, as far as doctor and scheduler read it.

    Source: NVIDIA/k8s-device-plugin v0.20.0 deployments/helm/nvidia-device-plugin/templates/daemonset-device-plugin.yml
    """
    plugin = container("nvcr.io/nvidia/k8s-device-plugin:v0.20.0", **requests) | {
        "name": "nvidia-device-plugin-ctr",
        "securityContext": {"privileged": True},
        "volumeMounts": [{"name": "device-plugins", "mountPath": "/var/lib/kubelet/device-plugins"}],
    }
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": ["true"]}]}
    return _daemon_set(
        "nvidia-device-plugin",
        {
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
            },
            "tolerations": [
                {"key": "CriticalAddonsOnly", "operator": "Exists"},
                *([{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}] if tolerations is None else tolerations),
            ],
            "containers": [plugin],
            "volumes": [{"name": "device-plugins", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}],
        },
    )


# It also runs on nodes with other taints.
TOLERANT_PLUGIN = device_plugin(tolerations=_ANY)


def background(plugin: Object | None, *, serving: bool = True) -> list[Object]:
    """Return the workloads that run in every dump: the CNI, kube-proxy, CoreDNS and a healthy GPU server."""
    host = {"hostNetwork": True, "tolerations": _ANY}
    found = [
        _daemon_set("aws-node", host | {"containers": [container("amazon-k8s-cni:v1.21.1", cpu="50m")]}),
        _daemon_set("kube-proxy", host | {"containers": [container("kube-proxy:v1.36.3", cpu="100m")]}),
        deployment(
            "coredns",
            {"containers": [container("coredns:v1.13.1", cpu="100m", memory="70Mi")]},
            namespace="kube-system",
        ),
    ]
    if serving:
        server: Object = {
            "containers": [container("vllm/vllm-openai:v0.17.0", {GPU: "1"}, cpu="4", memory="16Gi")],
            "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        }
        found.append(deployment("llm", server, namespace="serving"))
    return [*found, *([plugin] if plugin else [])]

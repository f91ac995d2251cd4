"""Causes in the state of the cluster: ids S1 to S14, C15, D1, G1 to G10 and H5."""

from __future__ import annotations

from gpu_rehearsal.cluster.client import Object
from tests.e2e.doctor.cause import UNTOLERATED, Cause, job, pod, trainer
from tests.e2e.doctor.fleet import GPU, container, cpu_node, deployment, device_plugin, gpu_node
from tests.e2e.doctor.world import World

_INSUFFICIENT = r"FailedScheduling: .*Insufficient nvidia\.com/gpu"
_FOUR = gpu_node("g6.12xlarge")
_DRA = "gpu.nvidia.com"


def _not_ready(world: World) -> None:
    """Report a broken network on the GPU node, in the words of the kubelet."""
    world.set_ready(
        "gpu",
        "False",
        "KubeletNotReady",
        "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin "
        "returns error: cni plugin not initialized",
    )


def _stop_kubelet(world: World) -> None:
    """Stop the kubelet of the GPU node, and wait until the lifecycle controller notices."""
    world.stop_kubelet("gpu")


def _evict_holder(world: World) -> None:
    """Evict the pod that has the GPUs; its containers don't end."""
    world.evict_from_hung_kubelet("holder")


def _device_class(name: str = _DRA) -> Object:
    selector = {"cel": {"expression": f"device.driver == '{_DRA}'"}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [selector]},
    }


def _publish_devices(world: World) -> None:
    """Publish the GPUs of each GPU node as the DRA driver does."""
    for name in world.nodes_of_group("gpu"):
        devices = [
            {
                "name": f"gpu-{number}",
                "attributes": {
                    "type": {"string": "gpu"},
                    "productName": {"string": "NVIDIA L4"},
                    "driverVersion": {"version": "580.126.9"},
                },
                "capacity": {"memory": {"value": "23034Mi"}},
            }
            for number in range(4)
        ]
        world.create(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": f"{name}-{_DRA}"},
                "spec": {
                    "driver": _DRA,
                    "nodeName": name,
                    "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
                    "devices": devices,
                },
            }
        )


def _claim(name: str, *, kind: str = "ResourceClaimTemplate", device_class: str = _DRA, cel: str = "") -> Object:
    selectors = {"selectors": [{"cel": {"expression": cel}}]} if cel else {}
    request = {"name": "gpu", "exactly": {"deviceClassName": device_class, **selectors}}
    devices: Object = {"devices": {"requests": [request]}}
    spec = {"spec": devices} if kind == "ResourceClaimTemplate" else devices
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _claimer(template: str = "", claim: str = "", **spec: object) -> Object:
    source = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim}
    main = container("registry.example.com/train:v3", cpu="4", memory="16Gi")
    main["resources"]["claims"] = [{"name": "gpu"}]
    return {
        "containers": [main],
        "resourceClaims": [{"name": "gpu", **source}],
        "tolerations": [{"key": GPU, "operator": "Exists"}],
        **spec,
    }


def _hold_claim(world: World) -> None:
    """Publish devices, and let a pod in us-east-1a have the claim."""
    _publish_devices(world)
    world.create(
        pod(_claimer(claim="shared", nodeSelector={"topology.kubernetes.io/zone": "us-east-1a"}), name="holder")
    )
    world.wait_until_running("holder")


_DRA_NODES = (cpu_node(), gpu_node(devices={}))


def _autoscaler() -> Object:
    flags = ["./cluster-autoscaler", "--cloud-provider=aws", "--expendable-pods-priority-cutoff=-10"]
    main = container("registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.1", cpu="100m") | {"command": flags}
    return deployment("cluster-autoscaler", {"containers": [main]}, namespace="kube-system")


def _budget() -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "chat"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "chat"}}},
    }


def _try_to_drain(world: World) -> None:
    """Cordon the node of the pod and try to evict it, as kubectl drain does."""
    world.wait_until_running("chat")
    world.drain("gpu", "chat")


STATE_CAUSES = (
    Cause(
        name="s1-all-gpus-taken",
        why="Four pods have the four GPUs of the only GPU node.",
        first=("S1",),
        never=("P3", "S2", "G1", "P2"),
        before=(deployment("notebooks", trainer(cpu="2", memory="4Gi"), replicas=3),),
        until=(_INSUFFICIENT,),
        objects=(job(trainer()),),
    ),
    Cause(
        name="s2-fragmented",
        why="Each of two GPU nodes has two free GPUs, and the Job requests three in one pod.",
        first=("S2",),
        never=("S1", "P3", "P4"),
        serving=False,
        nodes=(cpu_node(), _FOUR, _FOUR),
        before=(
            deployment(
                "notebooks",
                trainer(
                    cpu="2",
                    memory="4Gi",
                    nodeSelector={"nvidia.com/gpu.present": "true"},
                    topologySpreadConstraints=[
                        {
                            "maxSkew": 1,
                            "topologyKey": "kubernetes.io/hostname",
                            "whenUnsatisfiable": "DoNotSchedule",
                            "labelSelector": {"matchLabels": {"app": "notebooks"}},
                        }
                    ],
                ),
                replicas=4,
            ),
        ),
        until=(_INSUFFICIENT,),
        objects=(job(trainer(3)),),
    ),
    Cause(
        name="s3-cordoned",
        why="The only node with free GPUs is cordoned.",
        first=("S3",),
        never=("S1", "P5", "S4"),
        nodes=(cpu_node(), _FOUR, gpu_node(zone="b", cordoned=True)),
        before=(deployment("notebooks", trainer(cpu="2", memory="4Gi"), replicas=3),),
        until=(r"FailedScheduling: .*node\(s\) were unschedulable",),
        objects=(job(trainer()),),
    ),
    Cause(
        name="s4-network-not-ready",
        why="The kubelet of the only GPU node reports that its network isn't ready.",
        first=("S4", "J8"),
        never=("P5", "S1", "H5"),
        change=_not_ready,
        until=(rf"FailedScheduling: .*{UNTOLERATED}",),
        objects=(job(trainer()),),
        sources=("kubernetes 1.36 pkg/kubelet/kubelet.go and container-runtime status of containerd 2.1 (cni)",),
    ),
    Cause(
        name="s4-h5-kubelet-is-silent",
        why="The kubelet of the only GPU node stopped, and the lifecycle controller set its status to Unknown.",
        first=("S4", "H5"),
        never=("P5", "S1", "J8"),
        change=_stop_kubelet,
        until=(rf"FailedScheduling: .*{UNTOLERATED}",),
        objects=(job(trainer()),),
    ),
    Cause(
        name="s5-disk-pressure",
        why="The only GPU node reports DiskPressure.",
        first=("S5",),
        never=("P17", "P5", "S1", "S4"),
        serving=False,
        nodes=(cpu_node(), gpu_node(pressure="DiskPressure")),
        until=(rf"FailedScheduling: .*{UNTOLERATED}",),
        objects=(job(trainer()),),
    ),
    Cause(
        name="s7-pod-slots-full",
        why="The GPU node allows four pods, and three DaemonSets and a server use them.",
        first=("S7",),
        never=("S1", "J9", "R1", "P4"),
        nodes=(cpu_node(), gpu_node(max_pods=4)),
        until=(r"FailedScheduling: .*Too many pods",),
        objects=(job(trainer()),),
    ),
    Cause(
        name="s8-no-device-fits-the-claim",
        why="The claim requires an NVIDIA H100, and the nodes publish NVIDIA L4.",
        first=("S8",),
        never=("S9", "G17", "S1", "G1", "P1"),
        nodes=_DRA_NODES,
        plugin=None,
        serving=False,
        before=(
            _device_class(),
            _claim("h100", cel=f"device.attributes['{_DRA}'].productName == 'NVIDIA H100 80GB HBM3'"),
        ),
        change=_publish_devices,
        until=(r"FailedScheduling: .*cannot allocate all claims",),
        objects=(pod(_claimer(template="h100")),),
    ),
    Cause(
        name="s9-missing-device-class",
        why="The claim names the DeviceClass gpu.nvidia.com, which doesn't exist.",
        first=("S9",),
        never=("S8", "G17", "P1", "G1"),
        nodes=_DRA_NODES,
        plugin=None,
        serving=False,
        before=(_claim("one-gpu"),),
        change=_publish_devices,
        until=(r"FailedScheduling: .*device class gpu\.nvidia\.com does not exist",),
        objects=(pod(_claimer(template="one-gpu")),),
    ),
    Cause(
        name="s10-claim-is-on-another-node",
        why="A running pod has the ResourceClaim on its node, and the Job may only run on another node.",
        first=("S10",),
        never=("S8", "S9", "S1", "P6"),
        nodes=(cpu_node(), gpu_node(devices={}), gpu_node(devices={}, zone="b")),
        plugin=None,
        serving=False,
        before=(_device_class(), _claim("shared", kind="ResourceClaim")),
        change=_hold_claim,
        until=(r"FailedScheduling: .*resourceclaim not available on the node",),
        objects=(job(_claimer(claim="shared", nodeSelector={"topology.kubernetes.io/zone": "us-east-1b"})),),
    ),
    Cause(
        name="s10-missing-claim",
        why="The pod names a ResourceClaim that doesn't exist.",
        first=("S10",),
        never=("S8", "S9", "S1", "P8"),
        confidence="likely",
        nodes=_DRA_NODES,
        plugin=None,
        serving=False,
        before=(_device_class(),),
        change=_publish_devices,
        # The scheduler's queue keeps it back, without a condition and without an event.
        until=(),
        objects=(pod(_claimer(claim="training-gpu")),),
        age_seconds=75.0,
    ),
    Cause(
        name="g17-no-resource-slice",
        why="The DRA driver doesn't run on the GPU node, so no ResourceSlice exists.",
        first=("G17",),
        never=("S9", "S1", "G1", "P1"),
        nodes=_DRA_NODES,
        plugin=None,
        serving=False,
        before=(_device_class(), _claim("one-gpu")),
        until=(r"FailedScheduling: .*cannot allocate all claims",),
        objects=(pod(_claimer(template="one-gpu")),),
    ),
    Cause(
        name="s14-held-by-a-terminating-pod",
        why="An evicted pod keeps three GPUs, because its kubelet doesn't end its containers.",
        first=("S14", "S1"),
        also=("S14",),
        never=("P3", "S2", "G9"),
        confidence="likely",
        before=(pod(trainer(3), name="holder"),),
        change=_evict_holder,
        until=(_INSUFFICIENT,),
        objects=(job(trainer(2)),),
        age_seconds=60.0,
    ),
    Cause(
        name="s1-s3-two-faults",
        why="The GPUs of one node are in use, and the other GPU node is cordoned and has none free either.",
        first=("S1",),
        never=("P5", "P3", "G1"),
        nodes=(cpu_node(), _FOUR, gpu_node(zone="b", cordoned=True, devices={GPU: (4, 4)})),
        before=(
            deployment("notebooks", trainer(cpu="2", memory="4Gi"), replicas=3),
            deployment(
                "batch",
                trainer(
                    4, tolerations=[{"operator": "Exists"}], nodeSelector={"topology.kubernetes.io/zone": "us-east-1b"}
                ),
            ),
        ),
        until=(_INSUFFICIENT,),
        objects=(job(trainer()),),
    ),
    Cause(
        name="c15-priority-below-the-cutoff",
        why="The GPUs are in use, and cluster autoscaler ignores the pod because its priority is below -10.",
        first=("C15", "S1"),
        also=("C15",),
        never=("C6", "C4", "P8"),
        confidence="likely",
        before=(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "best-effort"},
                "value": -100,
                "description": "Jobs that only use spare GPUs",
            },
            _autoscaler(),
            deployment("notebooks", trainer(cpu="2", memory="4Gi"), replicas=3),
        ),
        until=(_INSUFFICIENT,),
        objects=(job(trainer(priorityClassName="best-effort")),),
    ),
    Cause(
        name="d1-disruption-budget",
        why="The node of the server is cordoned for a drain, and the budget of its only replica allows no eviction.",
        first=("D1",),
        never=("D7", "D9"),
        confidence="likely",
        serving=False,
        until=(r"Scheduled: Successfully assigned",),
        objects=(deployment("chat", trainer()), _budget()),
        after=_try_to_drain,
        pod="",
    ),
    Cause(
        name="g1-no-device-plugin",
        why="No device plugin is installed, so the GPU node advertises no GPU.",
        first=("G1",),
        never=("S1", "P2", "G2", "G3", "P3"),
        plugin=None,
        serving=False,
        nodes=(cpu_node(), gpu_node(devices={})),
        until=(_INSUFFICIENT,),
        objects=(job(trainer()),),
    ),
    Cause(
        name="g2-plugin-selects-another-label",
        why="The device plugin selects feature.node.kubernetes.io/pci-10de.present, and the GPU node doesn't have it.",
        first=("G2",),
        never=("S1", "G1", "G3", "P2"),
        plugin=device_plugin(key="feature.node.kubernetes.io/pci-10de.present"),
        serving=False,
        nodes=(cpu_node(), gpu_node(devices={})),
        until=(_INSUFFICIENT,),
        objects=(job(trainer()),),
    ),
    Cause(
        name="g3-plugin-lacks-a-toleration",
        why="The GPU node has the taint dedicated=training, which the Job tolerates and the device plugin doesn't.",
        first=("G3",),
        never=("S1", "G1", "G2", "P5"),
        serving=False,
        nodes=(
            cpu_node(),
            gpu_node(
                devices={},
                taints=(
                    {"key": GPU, "value": "true", "effect": "NoSchedule"},
                    {"key": "dedicated", "value": "training", "effect": "NoSchedule"},
                ),
            ),
        ),
        until=(_INSUFFICIENT,),
        objects=(job(trainer(tolerations=[{"key": "dedicated", "operator": "Exists"}])),),
    ),
    Cause(
        name="g4-plugin-is-pending-itself",
        why="The pod of the device plugin requests more memory than the GPU node has left.",
        first=("G4",),
        never=("S1", "G1", "G2", "G3"),
        plugin=device_plugin(memory="400Gi"),
        plugin_runs=False,
        serving=False,
        nodes=(cpu_node(), gpu_node(devices={})),
        until=(_INSUFFICIENT,),
        objects=(job(trainer()),),
    ),
    Cause(
        name="g8-endpoint-is-gone",
        why="The GPU node has capacity 0 after a restart of its kubelet, and the device plugin runs.",
        first=("G8",),
        never=("S1", "G1", "P2", "G9"),
        confidence="likely",
        serving=False,
        nodes=(cpu_node(), gpu_node(devices={GPU: (0, 0)})),
        until=(_INSUFFICIENT,),
        objects=(job(trainer()),),
    ),
    Cause(
        name="g9-all-devices-unhealthy",
        why="The GPU node has capacity 4 and allocatable 0, because all its devices are unhealthy.",
        first=("G9",),
        never=("S1", "G1", "G8", "P3"),
        serving=False,
        nodes=(cpu_node(), gpu_node(devices={GPU: (4, 0)})),
        until=(_INSUFFICIENT,),
        objects=(job(trainer()),),
    ),
    Cause(
        name="g9-one-device-unhealthy",
        why="One of four devices is unhealthy, and the Job requests all four.",
        first=("G9",),
        never=("S1", "G1", "G8", "S2"),
        serving=False,
        nodes=(cpu_node(), gpu_node(devices={GPU: (4, 3)})),
        until=(_INSUFFICIENT,),
        objects=(job(trainer(4)),),
    ),
    Cause(
        name="g10-shared-name",
        why="The GPU node advertises nvidia.com/gpu.shared, and the Job requests nvidia.com/gpu.",
        first=("G10",),
        never=("S1", "G1", "G8", "P3"),
        serving=False,
        nodes=(cpu_node(), gpu_node(devices={"nvidia.com/gpu.shared": (16, 16)})),
        until=(_INSUFFICIENT,),
        objects=(job(trainer()),),
    ),
    Cause(
        name="none-runs-after-a-wait",
        why="The pod runs; its event FailedScheduling is from the time before a GPU was free.",
        first=(),
        never=("S1", "G1", "P5"),
        before=(deployment("notebooks", trainer(cpu="2", memory="4Gi"), replicas=3),),
        until=(_INSUFFICIENT,),
        objects=(deployment("chat", trainer()),),
        after=lambda world: world.free_gpus("notebooks", "chat"),
        pod="chat",
    ),
)

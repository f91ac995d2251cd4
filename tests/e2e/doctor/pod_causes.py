"""Causes in the pod itself: ids P1 to P17, which only the scheduler decides."""

from __future__ import annotations

from gpu_rehearsal.cluster.client import Object
from tests.e2e.doctor.cause import UNTOLERATED, Cause, job, pod, required_node_affinity, stateful_set, trainer
from tests.e2e.doctor.fleet import GPU, TOLERANT_PLUGIN, cpu_node, deployment, gpu_node
from tests.e2e.doctor.world import World

_DEDICATED = {"key": "dedicated", "value": "training", "effect": "NoSchedule"}
_GPU_TAINT = {"key": GPU, "value": "true", "effect": "NoSchedule"}
_HOST = "kubernetes.io/hostname"
_ZONE = "topology.kubernetes.io/zone"


def _end_without_cuda(world: World) -> None:
    """Let the container end as a program without a GPU does."""
    terminated = {"exitCode": 1, "reason": "Error"}
    world.report("train", "Failed", {"state": {"terminated": terminated}})


def _reject_by_kubelet(world: World) -> None:
    """Reject the pod as the kubelet does when its node's GPUs are in use."""
    text = f"Pod was rejected: Node didn't have enough resource: {GPU}, requested: 1, used: 4, capacity: 4"
    world.report("train", "Failed", None, reason=f"OutOf{GPU}", message=text)


def _bind_by_hand(world: World) -> None:
    world.create(pod(trainer(nodeName=world.node_of_group("gpu"), restartPolicy="Never")))


def _anti_affinity(key: str, *, labels: dict[str, str], namespace: str = "") -> Object:
    term: Object = {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
    term |= {"namespaces": [namespace]} if namespace else {}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _spread(key: str) -> Object:
    constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [constraint | {"labelSelector": {"matchLabels": {"app": "chat"}}}]}


_TRACEBACK = """\
Traceback (most recent call last):
  File "/app/train.py", line 12, in <module>
    torch.cuda.init()
RuntimeError: CUDA error: no CUDA-capable device is detected
"""


POD_CAUSES = (
    Cause(
        name="p1-no-gpu-requested",
        why="The Job requests no GPU, so its pod runs on the CPU node and its program finds no device.",
        first=("P1",),
        never=("P2", "S1", "G1", "G5"),
        until=(r"Scheduled: Successfully assigned",),
        objects=(job(trainer(0, cpu="1", memory="2Gi")),),
        after=_end_without_cuda,
        logs={("train", "main"): _TRACEBACK},
        sources=("cudaErrorNoDevice in the CUDA Runtime API: no CUDA-capable device is detected",),
    ),
    Cause(
        name="p2-misspelled-resource",
        why="The Job requests nvidia.com/gpus, which no node advertises.",
        first=("P2",),
        never=("S1", "S2", "P3", "G1", "G10"),
        until=(r"FailedScheduling: .*Insufficient nvidia\.com/gpus",),
        objects=(job(trainer(resource="nvidia.com/gpus", tolerations=[{"key": GPU, "operator": "Exists"}])),),
    ),
    Cause(
        name="p2-mig-profile-that-no-node-has",
        why="The Deployment requests nvidia.com/mig-1g.10gb, and no node is partitioned.",
        first=("P2", "G10"),
        never=("S1", "P3", "G1"),
        until=(r"FailedScheduling: .*Insufficient nvidia\.com/mig-1g\.10gb",),
        objects=(
            deployment(
                "chat", trainer(resource="nvidia.com/mig-1g.10gb", tolerations=[{"key": GPU, "operator": "Exists"}])
            ),
        ),
        pod="chat",
    ),
    Cause(
        name="p3-more-gpus-than-any-node",
        why="The Job requests 8 GPUs in one pod, and the largest node has 4.",
        first=("P3",),
        never=("S1", "S2", "P2", "P4"),
        nodes=(cpu_node(), gpu_node(), gpu_node(zone="b")),
        until=(r"FailedScheduling: .*Insufficient nvidia\.com/gpu",),
        objects=(job(trainer(8)),),
    ),
    Cause(
        name="p4-more-cpu-than-the-gpu-node",
        why="The Job requests one GPU and 64 CPUs, and the GPU node with three free GPUs has 48 CPUs.",
        first=("P4",),
        never=("S1", "S2", "P3", "P2"),
        until=(r"FailedScheduling: .*Insufficient cpu",),
        objects=(job(trainer(cpu="64")),),
    ),
    Cause(
        name="p4-more-memory-than-the-gpu-node",
        why="The Deployment requests one GPU and 200Gi of memory, and the GPU node has 192 GiB minus the reserves.",
        first=("P4",),
        never=("S1", "S2", "P3"),
        until=(r"FailedScheduling: .*Insufficient memory",),
        objects=(deployment("chat", trainer(memory="200Gi")),),
        pod="chat",
    ),
    Cause(
        name="p5-dedicated-taint",
        why="The GPU nodes have the taint dedicated=training, which the Job doesn't tolerate.",
        first=("P5",),
        never=("S4", "S5", "P6", "S1"),
        nodes=(cpu_node(), gpu_node(taints=(_GPU_TAINT, _DEDICATED))),
        plugin=TOLERANT_PLUGIN,
        until=(rf"FailedScheduling: .*{UNTOLERATED}",),
        objects=(job(trainer()),),
    ),
    Cause(
        name="p5-toleration-of-another-value",
        why="The StatefulSet tolerates dedicated=research, and the taint has the value training.",
        first=("P5",),
        never=("S4", "P6", "S1"),
        nodes=(cpu_node(), gpu_node(taints=(_DEDICATED,))),
        plugin=TOLERANT_PLUGIN,
        until=(rf"FailedScheduling: .*{UNTOLERATED}",),
        objects=(
            stateful_set(
                trainer(
                    tolerations=[{"key": "dedicated", "operator": "Equal", "value": "research", "effect": "NoSchedule"}]
                )
            ),
        ),
    ),
    Cause(
        name="p6-instance-type-that-no-node-has",
        why="The Job selects p5.48xlarge, and the GPU nodes are g6.12xlarge.",
        first=("P6",),
        never=("S1", "P5", "P7", "P3"),
        until=(r"FailedScheduling: .*node\(s\) didn't match Pod's node affinity/selector",),
        objects=(job(trainer(nodeSelector={"node.kubernetes.io/instance-type": "p5.48xlarge"})),),
    ),
    Cause(
        name="p6-wrong-value-of-a-label",
        why="The Deployment requires accelerator=nvidia-l4 by node affinity, and the nodes carry accelerator=l4.",
        first=("P6",),
        never=("S1", "P5", "P7"),
        nodes=(cpu_node(), gpu_node(labels={"accelerator": "l4"})),
        until=(r"FailedScheduling: .*node\(s\) didn't match Pod's node affinity/selector",),
        objects=(
            deployment(
                "chat",
                trainer(**required_node_affinity({"key": "accelerator", "operator": "In", "values": ["nvidia-l4"]})),
            ),
        ),
        pod="chat",
    ),
    Cause(
        name="p8-scheduler-that-nobody-serves",
        why="The pod names the scheduler volcano, which isn't installed.",
        first=("P8",),
        never=("S15", "S1", "C15", "A14"),
        confidence="likely",
        until=(),
        objects=(pod(trainer(schedulerName="volcano")),),
        age_seconds=75.0,
    ),
    Cause(
        name="p9-scheduling-gate",
        why="The pod has a scheduling gate that no controller removes.",
        first=("P9",),
        never=("P8", "S1", "A11"),
        until=(r"PodScheduled=False: .*",),
        objects=(pod(trainer(schedulingGates=[{"name": "example.com/quota-approval"}])),),
    ),
    Cause(
        name="p9-gate-of-kueue",
        why="The pod has the scheduling gate of Kueue, and Kueue isn't installed.",
        first=("P9",),
        never=("P8", "S1"),
        until=(r"PodScheduled=False: .*",),
        objects=(
            pod(
                trainer(schedulingGates=[{"name": "kueue.x-k8s.io/admission"}]),
                **{"kueue.x-k8s.io/queue-name": "research"},
            ),
        ),
    ),
    Cause(
        name="p10-node-name-set-by-hand",
        why="The pod sets nodeName to a node whose GPUs are all in use, and its kubelet rejects it.",
        first=("P10",),
        never=("P8", "G18", "G20"),
        until=(),
        before=(deployment("batch", trainer(), replicas=3),),
        change=_bind_by_hand,
        objects=(),
        after=_reject_by_kubelet,
        sources=(
            "kubernetes 1.36 pkg/kubelet/lifecycle/predicate.go: Node didn't have enough resource",
            "kubernetes 1.36 pkg/kubelet/kubelet.go: Pod was rejected",
        ),
    ),
    Cause(
        name="p13-anti-affinity-to-itself",
        why="The second replica may not share a host with the first, and there is one GPU node.",
        first=("P13",),
        never=("S1", "P14", "P6"),
        until=(r"FailedScheduling: .*node\(s\) didn't match pod anti-affinity rules",),
        objects=(deployment("chat", trainer(affinity=_anti_affinity(_HOST, labels={"app": "chat"})), replicas=2),),
        pod="chat",
    ),
    Cause(
        name="p13-anti-affinity-of-another-pod",
        why="A running pod of the namespace rejects every other pod of its app's tier on its host.",
        first=("P13",),
        never=("S1", "P14", "P6"),
        before=(deployment("exclusive", trainer(affinity=_anti_affinity(_HOST, labels={"tier": "gpu"}))),),
        until=(r"FailedScheduling: .*node\(s\) didn't satisfy existing pods anti-affinity rules",),
        objects=(deployment("chat", trainer(), tier="gpu"),),
        pod="chat",
    ),
    Cause(
        name="p13-affinity-to-a-missing-pod",
        why="The Job requires a host with a pod of app=cache, and there is none.",
        first=("P13",),
        never=("S1", "P14", "P6"),
        until=(r"FailedScheduling: .*node\(s\) didn't match pod affinity rules",),
        objects=(
            job(
                trainer(
                    affinity={
                        "podAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": [
                                {"topologyKey": _HOST, "labelSelector": {"matchLabels": {"app": "cache"}}}
                            ]
                        }
                    }
                )
            ),
        ),
    ),
    Cause(
        name="p14-spread-over-zones",
        why="The replicas must spread over zones, and GPU nodes exist in one of two zones.",
        first=("P14",),
        never=("S1", "P13"),
        nodes=(cpu_node(), gpu_node(), cpu_node(zone="b", labels={"nvidia.com/gpu.present": "false"})),
        until=(r"FailedScheduling: .*node\(s\) didn't match pod topology spread constraints",),
        objects=(deployment("chat", trainer(tolerations=[{"operator": "Exists"}], **_spread(_ZONE)), replicas=3),),
        pod="chat",
    ),
    Cause(
        name="p14-spread-over-a-missing-label",
        why="The replicas must spread over a label that no node has.",
        first=("P14",),
        never=("S1", "P13", "P6"),
        until=(r"FailedScheduling: .*topology spread constraints \(missing required label\)",),
        objects=(deployment("chat", trainer(**_spread("topology.k8s.aws/network-node-layer-3")), replicas=2),),
        pod="chat",
    ),
    Cause(
        name="p16-huge-pages",
        why="The Job requests hugepages-2Mi, and no node reserves huge pages.",
        first=("P16",),
        never=("P4", "S1", "P2"),
        until=(r"FailedScheduling: .*Insufficient hugepages-2Mi",),
        objects=(
            job(
                {
                    "containers": [
                        {
                            "name": "main",
                            "image": "registry.example.com/train:v3",
                            "resources": {
                                "requests": {"cpu": "4", "memory": "16Gi"},
                                "limits": {GPU: "1", "hugepages-2Mi": "5120Mi", "memory": "16Gi"},
                            },
                        }
                    ]
                }
            ),
        ),
    ),
    Cause(
        name="p16-efa-without-its-plugin",
        why="The Job requests vpc.amazonaws.com/efa, and no EFA device plugin runs.",
        first=("P16", "G24"),
        never=("P2", "S1", "G1"),
        until=(r"FailedScheduling: .*Insufficient vpc\.amazonaws\.com/efa",),
        objects=(
            job(
                {
                    "containers": [
                        {
                            "name": "main",
                            "image": "registry.example.com/train:v3",
                            "resources": {
                                "requests": {"cpu": "4", "memory": "16Gi"},
                                "limits": {GPU: "3", "vpc.amazonaws.com/efa": "1"},
                            },
                        }
                    ]
                }
            ),
        ),
    ),
    Cause(
        name="p17-ephemeral-storage",
        why="The Job requests 2Ti of ephemeral storage, and the volumes of the nodes have 200 GiB.",
        first=("P17",),
        never=("S5", "S1", "P4"),
        until=(r"FailedScheduling: .*Insufficient ephemeral-storage",),
        objects=(
            job(
                {
                    "containers": [
                        {
                            "name": "main",
                            "image": "registry.example.com/train:v3",
                            "resources": {
                                "requests": {"cpu": "4", "memory": "16Gi", "ephemeral-storage": "2Ti"},
                                "limits": {GPU: "1"},
                            },
                        }
                    ]
                }
            ),
        ),
    ),
    Cause(
        name="p5-p4-two-faults",
        why="The Job doesn't tolerate dedicated=training, and it requests more CPUs than the GPU node has.",
        first=("P5", "P4"),
        also=("P5", "P4"),
        never=("S1", "S4", "P3"),
        nodes=(cpu_node(), gpu_node(taints=(_GPU_TAINT, _DEDICATED))),
        plugin=TOLERANT_PLUGIN,
        until=(rf"FailedScheduling: .*{UNTOLERATED}",),
        objects=(job(trainer(cpu="64")),),
    ),
)

"""The causes that are known, the question that each answers, and which causes are only an effect of another one.

The ids name a group and a number: P the pod's spec, A admission and owners, Q queues, S scheduler and nodes, V volumes,
C cluster autoscaler, K Karpenter, M EKS Auto Mode, E launch by EC2, J join, G GPU software on the node, I image,
R start of containers, H health of nodes, D removal of nodes, H- scaling of pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpu_facts.light import dataclass
from gpu_preflight.doctor.cause import CONFIDENCES, Cause

_TITLES = """
P1 The pod requests no GPU
P2 The pod requests a resource that no node has
P3 The pod requests more GPUs than any node has
P4 The pod requests more CPU or memory than a GPU node has
P5 The pod lacks a toleration
P6 No node has the labels that the pod selects
P7 The pod selects a label that nodes get only after boot
P8 No scheduler of that name runs
P9 A scheduling gate holds the pod
P10 The pod names a node itself
P11 The image is for another CPU architecture
P13 The pod's affinity or anti-affinity to pods matches no node
P14 A topology spread constraint matches no node
P16 The pod requests hugepages or EFA devices that no node has
P17 The pod requests more ephemeral storage than a node has
A0 The API server rejects the pod
A1 A ResourceQuota rejects the pod
A3 A LimitRange rejects the pod
A4 Pod Security rejects the pod
A5 An admission policy or webhook rejects the pod
A6 An admission webhook can't be reached
A9 The RuntimeClass of the pod doesn't exist
A11 The Job is suspended
A12 The owner wants no pod
A14 A Fargate profile takes the pod
Q1 Kueue doesn't manage the suspended Job
Q2 The queue doesn't exist
Q3 The queue is stopped
Q4 The ClusterQueue can't admit anything
Q5 The workload can never fit the quota of its ClusterQueue
Q6 The quota of the ClusterQueue is in use
Q7 No flavor of the ClusterQueue fits
Q8 The ClusterQueue doesn't accept the namespace
Q9 No topology domain has room
Q11 An admission check isn't ready
Q12 The pods weren't ready in time
Q13 Another workload is first in the queue
Q15 The KAI queue doesn't exist
Q16 The pod can't be preempted, and its KAI queue is over quota
Q17 The KAI queue has reached its limit
Q18 KAI finds no node with enough GPUs
Q19 Volcano waits for the whole gang
S1 All GPUs are in use
S2 GPUs are free, but not enough on one node
S3 The nodes that fit are cordoned
S4 The nodes that fit aren't ready
S5 A node is short of disk, memory or process ids
S7 The nodes have no free pod slot
S8 No device matches the resource claim
S9 The DeviceClass doesn't exist
S10 The resource claim is in use or absent
S14 Pods that don't end hold the GPUs
S15 The scheduler of the cluster doesn't work
C1 Cluster Autoscaler doesn't run
C2 Cluster Autoscaler never starts its loop
C3 Cluster Autoscaler discovers no node group
C4 The template of the node group lacks the resource
C5 The template of the node group has another taint or label
C6 The node group is at its max size
C7 The node group is in backoff after a failed scale-up
C8 The node group isn't healthy
C9 A limit of the whole cluster stops the scale-up
C10 Cluster Autoscaler stops because the cluster is unhealthy
C11 AWS has no capacity for the node group
C12 The new nodes didn't register in time
C13 AWS rejects the call of Cluster Autoscaler
C15 The priority of the pod is too low for a scale-up
C16 Cluster Autoscaler waits for the GPUs of a new node
C19 The new node isn't like the template of its group
C20 Cluster Autoscaler uses an old template of the node group
C21 The node group has no node, and the pod uses resource claims
K1 Karpenter doesn't run
K2 No NodePool is usable
K3 The node class isn't ready
K4 The node class is invalid
K5 The pod selects a label that no NodePool knows
K6 The NodePools exclude a value that the pod selects
K7 The pod doesn't tolerate a taint of the NodePool
K8 No instance type of the NodePool is large enough
K9 The NodePool excludes all instance types that fit
K10 No offering of the instance types is available now
K11 The NodePool has reached its limits
K14 Karpenter doesn't support the resource claims of the pod
K15 Karpenter waits for reserved capacity
K16 The zones of topology or volumes match no NodePool
K17 A node is ordered
K18 EC2 has no capacity for the NodeClaim
K19 EC2 rejects the launch of the NodeClaim
K20 The node of the NodeClaim never registered
K23 The GPUs of the new node never registered
K24 A startup taint stays on the node
K26 The device driver of the new node publishes no devices
K28 Spot or reserved capacity was taken back
M1 The built-in pools of EKS Auto Mode have no GPU
M2 The pod selects Karpenter labels that EKS Auto Mode doesn't have
M3 The NodeClass of EKS Auto Mode isn't ready
M4 A second device plugin runs on nodes of EKS Auto Mode
E1 EC2 has no capacity for the instance type
E2 The vCPU quota of the account is too low
E3 The Spot quota of the account is too low
E4 The zone doesn't offer the instance type
E6 The AMI doesn't exist or isn't accessible
E8 The KMS key of the disk isn't usable
E9 The capacity reservation is full or not active
E11 The service-linked role for Spot doesn't exist
E12 IAM denies the launch
E13 The subnet has no free addresses
E20 The Auto Scaling group doesn't launch instances
J1 The instance doesn't join the cluster
J2 The node role isn't authorized in the cluster
J3 The instance can't reach the API server
J4 The isolated VPC lacks endpoints
J5 Security groups block the instance
J6 The user data of the instance is wrong
J8 The network plugin of the node isn't ready
J9 The network plugin has no addresses
J10 The instance fails its status checks or boots slowly
G1 No device plugin runs in the cluster
G2 The device plugin doesn't select the node
G3 The device plugin doesn't tolerate a taint of the node
G4 The pod of the device plugin doesn't run
G5 The device plugin finds no NVIDIA driver
G7 The device plugin finds no GPU
G8 The device plugin isn't registered with the kubelet
G9 GPUs are unhealthy
G10 The node offers GPUs under another resource name
G14 Two device plugins run on the node
G15 GPU Operator installs a driver on an image that has one
G16 Fabric Manager doesn't run
G17 The DRA driver publishes no devices
G18 The kubelet rejected the pod before the device plugin was registered
G19 The kubelet rejected the pod because its GPU is unhealthy
G20 The kubelet has fewer free GPUs than the scheduler assumed
G21 The device plugin rejected the allocation
G23 The kubelet can't prepare the claimed devices
G24 The EFA device plugin doesn't run on the node
I1 The image is pulled slowly
I2 The registry denies the pull
I3 The image doesn't exist
I5 The registry can't be reached
I6 The disk of the node is full
V1 The PersistentVolumeClaim doesn't exist
V2 The PersistentVolumeClaim isn't bound
V3 The PersistentVolumeClaim waits for the pod
V5 The volume is in another zone
V7 Another node or pod uses the volume
V8 The volume can't be attached
V9 The volume can't be mounted
R1 The node has no address for the pod
R3 The node has no runtime of that name
R4 A Secret or ConfigMap of a container doesn't exist
R5 NVIDIA's container hook fails
R6 The driver is too old for the image
R7 The host memory limit killed the container
R8 The GPU memory is too small for the program
R9 The shared memory of the container is too small
R11 A probe killed the container
R12 The kubelet evicted the pod
R14 The container fails again and again
R15 An init container hasn't finished
R16 The pod has a node, and nothing is reported about it
H1 A GPU has a fatal XID error
H2 A GPU of the node is missing
H3 A GPU has memory, NVLink or DCGM errors
H4 The health of the GPUs isn't monitored
H5 The kubelet of the node is silent
H6 The repair of the node is blocked
H-1 The metric of the autoscaler of pods is missing
H-2 The autoscaler of pods is at its max
D1 A pod keeps the node
D2 The node group or a delay keeps the node
D4 Karpenter may not disrupt the node
D5 A disruption budget keeps the node
D6 A removal of the node saves nothing
D7 The drain of the node hangs
D9 A finalizer keeps the node
D10 The update of the node group hangs
"""
TITLES: Mapping[str, str] = dict(line.split(" ", 1) for line in _TITLES.strip().splitlines())
# The order of questions, by the beginning of an id; the longest beginning counts.
# Source: the scheduling and start of a pod, https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/ (2026-11)
_STAGES = (
    ("H-",),
    ("A", "P11"),
    ("P9", "A11", "A12", "Q"),
    ("P8", "A14", "S15"),
    ("P", "V1", "V2", "V5", "S", "G10"),
    ("C", "K", "M"),
    ("E",),
    ("J",),
    ("G", "H"),
    ("P10", "G18", "G19", "G20", "G21", "G23"),
    ("R1", "R3"),
    ("V",),
    ("I",),
    ("R",),
    ("D",),
)
# Causes that are an effect of another one, if both are found.
_EFFECTS: Mapping[str, tuple[str, ...]] = {
    "A": ("R16",),
    "Q": ("A11", "P9", "Q1"),
    "P": ("S", "C4", "C5", "C19", "G20", "H5", "R14"),
    "S": ("C4",),
    "V": ("K16", "R16"),
    "C": ("S1", "S2", "S4", "P3", "P4", "P5", "P6", "P17"),
    "C11": ("C7", "S1", "S2", "S4"),
    "C12": ("C7", "C8", "S1", "S2", "S4"),
    "C13": ("C7", "S1", "S2", "S4"),
    "C21": ("S1", "S2", "S4", "S8", "P3", "P4", "P5", "P6", "P17"),
    "K": ("S1", "S2", "S4", "K2", "K10", "K17", "P3", "P4", "P5", "P6", "P17"),
    "P2": ("S", "C4", "K8", "K9"),
    "P7": ("S", "C5", "K5"),
    "M": ("S1", "S2", "K", "P6"),
    "E": (
        "C7",
        "C8",
        "C11",
        "C12",
        "C13",
        "K4",
        "K9",
        "K10",
        "K17",
        "K18",
        "K19",
        "J1",
        "S1",
        "S2",
        "P3",
        "P4",
        "P5",
        "P6",
    ),
    "J": (
        "C8",
        "C10",
        "C12",
        "C7",
        "K17",
        "K20",
        "S1",
        "S2",
        "S4",
        "J1",
        "H5",
        "J8",
        "R1",
        "G4",
        "P3",
        "P4",
        "P5",
        "P6",
    ),
    "K23": ("K17", "S1", "S2"),
    "K24": ("K17", "S1", "S2", "S3"),
    "G": ("C16", "K17", "K23", "K26", "S1", "S2", "S8", "P2", "P3", "P16", "C19", "C4", "G1", "R14", "R16", "Q12"),
    "H": ("S1", "S2", "S3", "S4", "P3", "G7", "G8", "G9", "G16", "G19", "C8", "H6", "R14"),
    # Neither stops a pod.
    "H4": (),
    "H6": (),
    "I": ("R14", "R16", "S5", "R12"),
    "R": ("R14", "R16"),
    "H-": ("A12",),
}


# Reports that only repeat another cause in other words.
_ECHOES = ("R14", "R16")


@dataclass(frozen=True, slots=True)
class Ranking:
    """Causes in order: first the roots, by confidence and by the order of questions, then their effects.

    A root is followed by the cause of the pod on which it rests.
    """

    roots: tuple[Cause, ...]
    effects: tuple[Cause, ...]


def stage(id: str) -> int:
    """Return the place of a cause in the order of questions."""
    found = ((len(part), place) for place, parts in enumerate(_STAGES) for part in parts if id.startswith(part))
    return max(found, default=(0, len(_STAGES)))[1]


def is_effect(id: str, of: str) -> bool:
    """Whether a cause is an effect of another one, if both are found. Two causes that explain each other are roots."""
    return _explains(of, id) and not _explains(id, of)


def _explains(of: str, id: str) -> bool:
    parts = max((part for part in _EFFECTS if of.startswith(part)), key=len, default="")
    return id != of and any(id == each or (len(each) == 1 and id.startswith(each)) for each in _EFFECTS.get(parts, ()))


def ranked(causes: Iterable[Cause]) -> Ranking:
    """Return causes in order. A cause that is only possible has no effects."""
    unlike: dict[tuple[str, str], Cause] = {}
    for each in sorted(causes, key=lambda each: CONFIDENCES.index(each.confidence)):
        unlike.setdefault((each.id, each.subject), each)
    every = sorted(unlike.values(), key=lambda each: (CONFIDENCES.index(each.confidence), stage(each.id)))
    strong = [each.id for each in every if each.confidence != "possible"]
    effects = tuple(each for each in every if any(is_effect(each.id, one) for one in strong))
    shown = tuple(each for each in effects if each.id not in _ECHOES)
    roots = (one for each in every if each not in effects for one in (each, each.because) if one is not None)
    return Ranking(tuple({(each.id, each.subject): each for each in roots}.values()), shown)

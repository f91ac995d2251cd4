"""Causes in Karpenter, its pools and EC2: ids K2 to K24, P7, M2, D1 and E1 to E13."""

from __future__ import annotations

from gpu_rehearsal.cluster.client import Object
from tests.e2e.doctor.cause import job, pod, required_node_affinity, trainer
from tests.e2e.doctor.fleet import GPU, container, deployment
from tests.e2e.doctor.karpenter_world import KarpenterCause, KarpenterWorld

_TYPE = "node.kubernetes.io/instance-type"
_CAPACITY = "karpenter.sh/capacity-type"
_ZONE = "topology.kubernetes.io/zone"
_POD = r"karpenter: Pod: FailedScheduling: .*"
UNSCHEDULABLE = r"default-scheduler: Pod: FailedScheduling: "
SMALL = {"cpu": "2", "memory": "8Gi"}


def pool_requirements(*types: str, capacity: str = "on-demand", more: tuple[Object, ...] = ()) -> Object:
    return {
        "requirements": [
            {"key": _TYPE, "operator": "In", "values": list(types)},
            {"key": _CAPACITY, "operator": "In", "values": [capacity]},
            *more,
        ]
    }


def _in(key: str, *values: str) -> Object:
    return {"key": key, "operator": "In", "values": list(values)}


def _dedicated(value: str) -> Object:
    return {
        "taints": [
            {"key": GPU, "value": "true", "effect": "NoSchedule"},
            {"key": "dedicated", "value": value, "effect": "NoSchedule"},
        ]
    }


def _volume_in_a_zone_without_subnet(world: KarpenterWorld) -> None:
    """Create a claim that is bound to a volume in us-east-1f."""
    expression = {"key": _ZONE, "operator": "In", "values": ["us-east-1f"]}
    world.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "pv-datasets"},
            "spec": {
                "capacity": {"storage": "500Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "gp3",
                "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-0a1b2c3d4e5f60718"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
            },
        }
    )
    world.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "datasets"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "gp3",
                "volumeName": "pv-datasets",
                "resources": {"requests": {"storage": "500Gi"}},
            },
        }
    )


def _run_first(world: KarpenterWorld) -> None:
    """Let a pod take the only node that the limit of the pool allows."""
    world.create(pod(trainer(**SMALL), name="first"))
    world.wait_until_running("first")


def _mounting(claim: str) -> Object:
    made = trainer(**SMALL)
    made["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    made["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    return made


def _dra() -> list[Object]:
    main = container("registry.example.com/train:v3", **SMALL)
    main["resources"]["claims"] = [{"name": "gpu"}]
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "gpu.nvidia.com"},
            "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]},
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "one-gpu"},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        },
        pod(
            {
                "containers": [main],
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
                "tolerations": [{"key": GPU, "operator": "Exists"}],
            }
        ),
    ]


def _budget() -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "chat"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "chat"}}},
    }


GPU_POOL: dict[str, Object] = {"gpu": {}}


KARPENTER_CAUSES = (
    KarpenterCause(
        name="k2-no-node-pool",
        why="Karpenter runs, and there is no NodePool.",
        first=("K2",),
        never=("K1", "K3", "K11", "C3"),
        until=(UNSCHEDULABLE + r".*Insufficient nvidia\.com/gpu",),
        pools={},
        objects=(job(trainer(**SMALL)),),
        age_seconds=15.0,
    ),
    KarpenterCause(
        name="k3-no-image-matches",
        ready=False,
        why="The EC2NodeClass selects an AMI by a name that doesn't exist.",
        first=("K3",),
        also=(),
        never=("K2", "K1", "K4", "E6"),
        until=(r"AMIsReady=False: AMINotFound", r"NodeClassReady=False", UNSCHEDULABLE),
        pools=GPU_POOL,
        node_class={"amiSelectorTerms": [{"name": "gpu-image-2026-*", "owner": "self"}], "amiFamily": "AL2023"},
        objects=(job(trainer(**SMALL)),),
        age_seconds=12.0,
    ),
    KarpenterCause(
        name="k3-no-subnet-matches",
        ready=False,
        why="The EC2NodeClass selects subnets by a tag that none has.",
        first=("K3",),
        never=("K2", "K1", "K4", "E13"),
        until=(r"SubnetsReady=False: SubnetsNotFound", r"NodeClassReady=False", UNSCHEDULABLE),
        pools=GPU_POOL,
        node_class={"subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "another-cluster"}}]},
        objects=(job(trainer(**SMALL)),),
        age_seconds=12.0,
    ),
    KarpenterCause(
        name="k3-no-security-group-matches",
        ready=False,
        why="The EC2NodeClass selects security groups by a tag that none has.",
        first=("K3",),
        never=("K2", "K1", "K4", "J5"),
        until=(r"SecurityGroupsReady=False: SecurityGroupsNotFound", r"NodeClassReady=False", UNSCHEDULABLE),
        pools=GPU_POOL,
        node_class={"securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "another-cluster"}}]},
        objects=(job(trainer(**SMALL)),),
        age_seconds=12.0,
    ),
    KarpenterCause(
        name="k3-missing-node-class",
        ready=False,
        why="The NodePool refers to an EC2NodeClass that doesn't exist.",
        first=("K3",),
        never=("K2", "K1", "K4"),
        until=(r"NodeClassReady=(False|Unknown)|Failed resolving NodeClass", UNSCHEDULABLE),
        pools={"gpu": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "missing"}}},
        objects=(job(trainer(**SMALL)),),
        age_seconds=12.0,
    ),
    KarpenterCause(
        name="k5-misspelled-label",
        why="The pod selects karpenter.sh/capacity-typ, a typo of karpenter.sh/capacity-type.",
        first=("K5",),
        never=("P7", "K6", "K7", "M2"),
        until=(_POD + r"using label karpenter\.sh/capacity-typ is not allowed",),
        pools=GPU_POOL,
        objects=(job(trainer(**SMALL, nodeSelector={"karpenter.sh/capacity-typ": "on-demand"})),),
    ),
    KarpenterCause(
        name="k5-label-of-a-team",
        why="The pod selects example.com/team, which no NodePool sets.",
        first=("K5",),
        never=("K6", "K7", "K8", "M2"),
        until=(_POD + r"label .*does not have known values",),
        pools=GPU_POOL,
        objects=(job(trainer(**SMALL, nodeSelector={"example.com/team": "vision"})),),
    ),
    KarpenterCause(
        name="p7-label-of-running-nodes-only",
        why="The pod selects nvidia.com/gpu.product, which GPU feature discovery sets on running nodes only.",
        first=("P7",),
        also=(),
        never=("K6", "K7", "M2", "K2"),
        until=(_POD + r"label .*nvidia\.com/gpu\.product.* does not have known values",),
        pools=GPU_POOL,
        before=lambda world: world.label_node("nvidia.com/gpu.product", "NVIDIA-L4"),
        objects=(job(trainer(**SMALL, nodeSelector={"nvidia.com/gpu.product": "NVIDIA-L4"})),),
    ),
    KarpenterCause(
        name="m2-label-of-auto-mode",
        why="The pod selects eks.amazonaws.com/instance-gpu-name, and the NodePools are of self-managed Karpenter.",
        first=("K5", "M2"),
        never=("P7", "K6", "K2"),
        until=(_POD + r"label .*eks\.amazonaws\.com/instance-gpu-name.* does not have known values",),
        pools=GPU_POOL,
        objects=(job(trainer(**SMALL, nodeSelector={"eks.amazonaws.com/instance-gpu-name": "l4"})),),
    ),
    KarpenterCause(
        name="k6-type-outside-the-pool",
        why="The pod requires g6.2xlarge, and the NodePool allows g6.xlarge.",
        first=("K6",),
        never=("K5", "K7", "K8", "K18"),
        until=(_POD + r"key node\.kubernetes\.io/instance-type, .* not in",),
        pools=GPU_POOL,
        objects=(job(trainer(**SMALL, **required_node_affinity(_in(_TYPE, "g6.2xlarge")))),),
    ),
    KarpenterCause(
        name="k6-spot-only-pod",
        why="The pod selects karpenter.sh/capacity-type=spot, and both NodePools allow on-demand.",
        first=("K6",),
        never=("K5", "K7", "K8", "K18"),
        until=(_POD + r"key karpenter\.sh/capacity-type, .* not in",),
        pools={"gpu": {}, "gpu-large": pool_requirements("g6.12xlarge")},
        objects=(job(trainer(**SMALL, nodeSelector={_CAPACITY: "spot"})),),
    ),
    KarpenterCause(
        name="k7-dedicated-taint",
        why="The NodePool has the taint dedicated=training, which the pod doesn't tolerate.",
        first=("K7", "P5"),
        never=("K6", "K5", "S4", "K11"),
        until=(_POD + r"did not tolerate taint \(taint=dedicated=training:NoSchedule\)",),
        pools={"training": _dedicated("training")},
        objects=(job(trainer(**SMALL)),),
    ),
    KarpenterCause(
        name="k8-more-gpus-than-the-types",
        why="The pod requests 8 GPUs, and the types of both NodePools have 1 and 4.",
        first=("K8", "P3"),
        never=("K9", "K10", "K11", "S2", "K7"),
        until=(_POD + r"no instance type has enough resources",),
        pools={"gpu": {}, "gpu-large": pool_requirements("g6.12xlarge")},
        objects=(job(trainer(8, **SMALL)),),
    ),
    KarpenterCause(
        name="k8-unknown-resource",
        why="The pod requests nvidia.com/gpu.shared, which Karpenter doesn't expect of any instance type.",
        first=("K8", "P2", "G10"),
        never=("K9", "K10", "K11", "P3"),
        until=(_POD + r"no instance type has enough resources",),
        pools=GPU_POOL,
        objects=(
            job(
                trainer(1, resource="nvidia.com/gpu.shared", **SMALL, tolerations=[{"key": GPU, "operator": "Exists"}])
            ),
        ),
    ),
    KarpenterCause(
        name="k8-cpu-of-the-type",
        why="The pod requests one GPU and 16 CPUs, and g6.xlarge has 4.",
        first=("K8", "P4"),
        never=("K9", "K10", "K11", "P3"),
        until=(_POD + r"no instance type has enough resources",),
        pools=GPU_POOL,
        objects=(job(trainer(cpu="16", memory="8Gi")),),
    ),
    KarpenterCause(
        name="k9-gpu-name-excluded",
        why="The pod requires instance-gpu-name=h100, and the NodePool's family g6 has L4.",
        first=("K9",),
        never=("K6", "K8", "K10", "K5", "K11"),
        until=(_POD + r"no instance type met all requirements",),
        pools={
            "gpu": {
                "requirements": [
                    _in("karpenter.k8s.aws/instance-family", "g6"),
                    _in(_CAPACITY, "on-demand"),
                ]
            }
        },
        objects=(job(trainer(**SMALL, nodeSelector={"karpenter.k8s.aws/instance-gpu-name": "h100"})),),
    ),
    KarpenterCause(
        name="k9-arm-pool",
        why="The NodePool requires arm64, and its only type g6.xlarge is amd64.",
        first=("K9", "K8", "K2"),
        never=("K10", "K11", "K7"),
        until=(UNSCHEDULABLE,),
        pools={"gpu": pool_requirements("g6.xlarge", more=(_in("kubernetes.io/arch", "arm64"),))},
        objects=(job(trainer(**SMALL)),),
        age_seconds=12.0,
    ),
    KarpenterCause(
        name="k10-zone-without-a-subnet",
        why="The pod requires us-east-1f, where the EC2NodeClass has no subnet.",
        first=("K10", "K6", "K9"),
        never=("K7", "K8", "K11", "K18"),
        until=(_POD,),
        pools=GPU_POOL,
        objects=(job(trainer(**SMALL, nodeSelector={_ZONE: "us-east-1f"})),),
    ),
    KarpenterCause(
        name="k11-limit-reached",
        why="The NodePool allows one GPU, and a running pod has it.",
        first=("K11",),
        never=("K8", "K10", "K18", "E2", "A1"),
        until=(_POD + r"exceed limits for nodepool|" + _POD + r"limits have been exhausted",),
        pools={"gpu": {"limits": {GPU: "1"}}},
        before=_run_first,
        objects=(job(trainer(**SMALL)),),
    ),
    KarpenterCause(
        name="k11-limit-zero",
        why="The NodePool is switched off with limits of 0 GPUs.",
        first=("K11",),
        never=("K8", "K10", "K18", "E2", "A1"),
        until=(_POD + r"exceed limits for nodepool|" + _POD + r"limits have been exhausted",),
        pools={"gpu": {"limits": {GPU: "0"}}},
        objects=(job(trainer(**SMALL)),),
    ),
    KarpenterCause(
        name="k11-k7-two-pools",
        why="One NodePool has reached its limit, and the other has a taint that the pod doesn't tolerate.",
        first=("K11", "K7"),
        also=("K11", "K7"),
        never=("K8", "K18", "E2"),
        until=(_POD + r"limit", _POD + r"did not tolerate taint"),
        pools={"gpu": {"limits": {GPU: "0"}}, "training": _dedicated("training")},
        objects=(job(trainer(**SMALL)),),
    ),
    KarpenterCause(
        name="k14-dynamic-resource-allocation",
        why="The pod claims a GPU by DRA, and this Karpenter doesn't start nodes for such pods.",
        first=("K14",),
        never=("K2", "S9", "K8", "P1", "G1"),
        until=(r"karpenter: .*Dynamic Resource Allocation",),
        pools=GPU_POOL,
        objects=tuple(_dra()),
    ),
    KarpenterCause(
        name="k16-volume-in-a-zone-without-a-subnet",
        why="The volume of the pod is in us-east-1f, where the EC2NodeClass has no subnet.",
        first=("K16", "V5", "K10"),
        never=("K7", "K8", "K11", "V2", "V1"),
        until=(_POD,),
        pools=GPU_POOL,
        before=_volume_in_a_zone_without_subnet,
        objects=(job(_mounting("datasets")),),
    ),
    KarpenterCause(
        name="k16-spread-over-a-missing-label",
        why="The pods must spread over a label that no NodePool sets.",
        first=("K16", "P14"),
        never=("K7", "K8", "K11", "K5"),
        until=(_POD + r"unsatisfiable topology constraint",),
        pools=GPU_POOL,
        objects=(
            deployment(
                "chat",
                trainer(
                    **SMALL,
                    topologySpreadConstraints=[
                        {
                            "maxSkew": 1,
                            "topologyKey": "example.com/rack",
                            "whenUnsatisfiable": "DoNotSchedule",
                            "labelSelector": {"matchLabels": {"app": "chat"}},
                        }
                    ],
                ),
            ),
        ),
        pod="chat",
    ),
    KarpenterCause(
        name="k17-node-ordered",
        why="The instance was launched seconds ago and is still booting.",
        first=("K17",),
        never=("K20", "K18", "K2", "K23"),
        confidence="likely",
        no_nodes=True,
        until=(r"karpenter: Pod: Nominated", r"Registered=Unknown: NodeNotFound"),
        pools=GPU_POOL,
        objects=(job(trainer(**SMALL)),),
    ),
    KarpenterCause(
        name="k23-gpus-never-registered",
        why="The node is ready, and its GPUs never appear. It is so young that this may still be usual.",
        first=("K23", "G7", "G8", "K17"),
        never=("K20", "K24", "K18", "S1", "G1", "G2", "G3"),
        confidence="likely",
        no_devices=True,
        until=(r"Initialized=Unknown: ResourceNotRegistered",),
        pools=GPU_POOL,
        objects=(job(trainer(**SMALL)),),
        age_seconds=10.0,
    ),
    KarpenterCause(
        name="k23-g2-plugin-selects-another-label",
        why="The template of the NodePool lacks the label that the device plugin selects, so its node shows no GPU.",
        first=("K23", "G2"),
        also=("G2",),
        never=("K20", "K24", "K18", "S1", "G1", "G3"),
        until=(r"Initialized=Unknown: ResourceNotRegistered",),
        pools={"gpu": {"labels": {}}},
        objects=(job(trainer(**SMALL)),),
        age_seconds=10.0,
    ),
    KarpenterCause(
        name="k24-startup-taint-stays",
        why="The NodePool sets a startup taint of a network agent that isn't installed.",
        first=("K24",),
        never=("K20", "K23", "P5", "K7"),
        until=(r"Initialized=Unknown: StartupTaintsExist",),
        pools={
            "gpu": {
                "startupTaints": [{"key": "node.cilium.io/agent-not-ready", "value": "true", "effect": "NoExecute"}]
            }
        },
        objects=(job(trainer(**SMALL)),),
        age_seconds=5.0,
    ),
    KarpenterCause(
        name="d1-budget-blocks-consolidation",
        why="Karpenter doesn't remove the node, because the budget of its only replica allows no eviction.",
        first=("D1", "D4"),
        never=("D6", "D7", "K11"),
        # Karpenter holds back a second event of a node for minutes.
        patience_seconds=240.0,
        until=(r"DisruptionBlocked.*[Pp]db",),
        pools={"gpu": {"disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"}}},
        objects=(deployment("chat", trainer(**SMALL)), _budget()),
        pod="",
    ),
    KarpenterCause(
        name="d4-annotation-blocks-consolidation",
        why="Karpenter doesn't remove the node, because its pod has the annotation do-not-disrupt.",
        first=("D4",),
        never=("D1", "D6", "D7", "K11"),
        patience_seconds=240.0,
        until=(r"DisruptionBlocked.*do-not-disrupt",),
        pools={"gpu": {"disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"}}},
        objects=(
            pod(trainer(**SMALL), name="notebook")
            | {
                "metadata": {
                    "name": "notebook",
                    "labels": {"app": "notebook"},
                    "annotations": {"karpenter.sh/do-not-disrupt": "true"},
                }
            },
        ),
        pod="",
    ),
)

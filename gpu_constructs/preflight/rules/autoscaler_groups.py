"""What cluster autoscaler expects of a node of an empty group, and what the node then is.

Source: kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/cloudprovider/aws/aws_manager.go
``buildNodeFromTemplate``
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpu_constructs.hardware.catalogue import catalogue
from gpu_constructs.preflight.answer import Answer
from gpu_constructs.preflight.gpu_devices import declared
from gpu_constructs.preflight.model import GPU, Cluster, Pool
from gpu_constructs.preflight.nodes import gpu_types, nodes_to_be, reaches
from gpu_constructs.preflight.pools import LABEL_TAG, RESOURCE_TAG, TAINT_TAG, group_tags
from gpu_constructs.preflight.rules.rule import Problem, Rule
from gpu_constructs.preflight.unknown import Unknown, mapping, mappings

_SOURCE = "kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/cloudprovider/aws/README.md"
_MANAGER = "kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/cloudprovider/aws/aws_manager.go"
_ACCELERATOR = "k8s.amazonaws.com/accelerator"
_MIG_CONFIG = "nvidia.com/mig.config"
_TAINT_VALUE = re.compile(r".*:(NoSchedule|NoExecute|PreferNoSchedule)")
_NOT_TOLD = ("eks.amazonaws.com/", "alpha.eksctl.io/")
_DRA_CHARTS = ("dra-driver-nvidia-gpu", "nvidia-dra-driver-gpu")


def _scales(pool: Pool, cluster: Cluster) -> Answer:
    """Say whether cluster autoscaler makes the nodes of a group."""
    if not pool.is_group or (pool.min_nodes is not None and pool.min_nodes == pool.max_nodes):
        return Answer.NO
    if cluster.autoscaler("cluster-autoscaler"):
        return Answer.YES
    known = cluster.sees_software or bool(cluster.autoscalers)
    return Answer.NO if known else Answer.UNKNOWN


def _from_zero(cluster: Cluster, *, surely: bool = False) -> Iterator[tuple[Pool, bool]]:
    """Yield the GPU groups that cluster autoscaler starts from no node, and whether that is not known."""
    for pool in cluster.gpu_pools:
        answer = _scales(pool, cluster) if pool.min_nodes == 0 else Answer.NO
        if answer is Answer.YES or (answer is Answer.UNKNOWN and not surely):
            yield pool, answer is Answer.UNKNOWN


def _unseen(cluster: Cluster) -> Iterator[Problem]:
    for pool, unknown in _from_zero(cluster):
        labels, taints = _unseen_labels(pool), _unseen_taints(pool)
        told = [*(f"label {each}" for each in labels), *(f"taint {each}" for each in taints)]
        if told:
            text = f"pool {pool.name}: cluster autoscaler does not know {', '.join(told)} of its nodes"
            yield Problem(pool.origin, text, unknown=unknown)


def _unseen_labels(pool: Pool) -> list[str]:
    """Return the labels that only the node's user data says."""
    managed = mapping(pool.properties.get("Labels"))
    tags = {} if pool.kind == "managed" else group_tags(pool.properties)
    return [
        key
        for key in pool.labels
        if key not in managed and f"{LABEL_TAG}{key}" not in tags and not key.startswith(_NOT_TOLD)
    ]


def _unseen_taints(pool: Pool) -> list[str]:
    if pool.kind == "managed":
        known = {str(each.get("Key")) for each in mappings(pool.properties.get("Taints"))}
    else:
        known = {key.removeprefix(TAINT_TAG) for key in group_tags(pool.properties) if key.startswith(TAINT_TAG)}
    return [str(each) for each in pool.taints if each.key not in known]


def _misplaced(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.pools:
        if pool.kind == "managed":
            tags = mapping(pool.properties.get("Tags"))
            labels = mapping(pool.properties.get("Labels"))
            taints = {each.key for each in pool.taints}
            lost = [key for key in tags if key.startswith(LABEL_TAG) and key.removeprefix(LABEL_TAG) not in labels]
            lost += [key for key in tags if key.startswith(TAINT_TAG) and key.removeprefix(TAINT_TAG) not in taints]
            for key in lost:
                yield Problem(pool.origin, f"pool {pool.name}: nobody reads tag {key} of a managed node group")


def _without_effect(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.pools:
        if pool.kind != "self-managed":
            continue
        for key, value in group_tags(pool.properties).items():
            if key.startswith(TAINT_TAG) and not isinstance(value, Unknown) and not _TAINT_VALUE.fullmatch(str(value)):
                text = f"pool {pool.name}: tag {key} is {str(value)!r}, not <value>:<effect>"
                yield Problem(pool.origin, text)


def _without_value(cluster: Cluster) -> Iterator[Problem]:
    for pool, unknown in _from_zero(cluster):
        for taint in pool.taints:
            if pool.kind == "managed" and taint.written_without_value:
                text = f"pool {pool.name}: taint {taint} has no value, so cluster autoscaler drops it"
                yield Problem(pool.origin, text, unknown=unknown)


def _fraction(cluster: Cluster) -> Iterator[Problem]:
    for pool, unknown in _from_zero(cluster):
        first = catalogue().get(pool.instance_types[0]) if pool.instance_types else None
        if first is not None and first.ec2_gpus == 0 and not _declares_gpus(pool):
            text = f"pool {pool.name}: EC2 counts no GPU in {first.name}, and tag {RESOURCE_TAG}{GPU} is missing"
            yield Problem(pool.origin, text, unknown=unknown)


def _declares_gpus(pool: Pool) -> bool:
    return any(name.startswith("nvidia.com/") and amount for name, amount in declared(pool).items())


def _offered(cluster: Cluster) -> Iterator[tuple[Pool, str, int, int]]:
    """Yield what a node of each pool offers of each device resource, and what is expected of it."""
    for pool, _ in _from_zero(cluster, surely=True):
        node = nodes_to_be(pool, cluster)[0]
        for name, amount in node.most.items():
            whole = name == GPU and node.row is not None and node.row.ec2_gpus == 0
            if name.startswith("nvidia.com/") and not whole:
                yield pool, name, amount, node.believed.get(name, 0)


def _shared(cluster: Cluster) -> Iterator[Problem]:
    for pool, name, amount, expected in _offered(cluster):
        if amount and not expected:
            text = f"its nodes offer {amount} {name}, cluster autoscaler expects none"
            yield Problem(pool.origin, f"pool {pool.name}: {text}")
    for pool, _ in _from_zero(cluster, surely=True):
        yield from _sliced(pool)


def _fewer(cluster: Cluster) -> Iterator[Problem]:
    for pool, name, amount, expected in _offered(cluster):
        if 0 < expected < amount:
            text = f"its nodes offer {amount} {name}, cluster autoscaler expects {expected}"
            yield Problem(pool.origin, f"pool {pool.name}: {text}")


def _sliced(pool: Pool) -> Iterator[Problem]:
    label = pool.labels.get(_MIG_CONFIG)
    profile = getattr(label, "only", None)
    if profile and profile != "all-disabled" and not any("mig-" in each or each == GPU for each in declared(pool)):
        text = f"{_MIG_CONFIG}={profile} slices its GPUs, and no tag says how many slices a node has"
        yield Problem(pool.origin, f"pool {pool.name}: {text}", unknown=True)


def _mixed(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.gpu_pools:
        answer = _scales(pool, cluster)
        counts = {each: catalogue()[each].gpus if each in catalogue() else 0 for each in pool.instance_types}
        if answer is not Answer.NO and len(set(counts.values())) > 1:
            shown = ", ".join(f"{name} {count}" for name, count in counts.items())
            text = f"pool {pool.name}: GPUs differ ({shown}), and cluster autoscaler counts on {pool.instance_types[0]}"
            yield Problem(pool.origin, text, unknown=answer is Answer.UNKNOWN)


def _whole_gpus(pool: Pool, cluster: Cluster) -> Answer:
    """Say whether the nodes of a pool register nvidia.com/gpu, which cluster autoscaler waits for."""
    node = nodes_to_be(pool, cluster)[0]
    if node.most.get(GPU, 0) > 0:
        return Answer.YES
    other = any(name.startswith("nvidia.com/") and amount for name, amount in node.most.items())
    return Answer.NO if other or _claims_only(pool, cluster) else Answer.UNKNOWN


def _claims_only(pool: Pool, cluster: Cluster) -> bool:
    plugins = [each for each in cluster.daemon_sets if GPU in each.advertises]
    claimed = any(cluster.chart(each) for each in _DRA_CHARTS) and pool.operating_system == "al2023"
    return claimed and all(reaches(each, pool, cluster) is Answer.NO for each in plugins)


def _mislabelled(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.gpu_pools:
        labelled = _ACCELERATOR in pool.labels and _scales(pool, cluster) is Answer.YES
        if labelled and _whole_gpus(pool, cluster) is Answer.NO:
            yield Problem(pool.origin, f"pool {pool.name}: has label {_ACCELERATOR}, and its nodes register no {GPU}")


def _unlabelled(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.gpu_pools:
        bare = _ACCELERATOR not in pool.labels and _scales(pool, cluster) is Answer.YES
        if bare and _whole_gpus(pool, cluster) is Answer.YES:
            yield Problem(pool.origin, f"pool {pool.name}: its nodes have no label {_ACCELERATOR}")


def _both(cluster: Cluster) -> Iterator[Problem]:
    groups = [pool for pool in cluster.gpu_pools if _scales(pool, cluster) is Answer.YES]
    for pool in cluster.gpu_pools:
        if pool.kind not in ("karpenter", "auto-mode") or cluster.autoscaler(pool.autoscaler) is None:
            continue
        for group in groups:
            alike = set(gpu_types(group)) & set(gpu_types(pool))
            if alike and set(map(str, group.taints)) == set(map(str, pool.taints)):
                text = f"pools {group.name} and {pool.name} have the same taints and types, and different autoscalers"
                yield Problem(pool.origin, text)


RULES = (
    Rule(
        id="GPU149",
        severity="warning",
        title="More shares than cluster autoscaler expects",
        why="It counts whole GPUs and starts a node for each, where one would take several pods.",
        source=_SOURCE,
        fix=f"Tag the group {RESOURCE_TAG}{GPU} with the shares that a node offers.",
        causes=("F10",),
        check=_fewer,
    ),
    Rule(
        id="GPU157",
        severity="warning",
        title="Labels or taints that cluster autoscaler cannot know",
        why="Of an empty group it knows what the node group or its tags say, not what user data says: "
        "pods that select the label start no node, pods kept off by the taint start useless ones.",
        source=_SOURCE,
        fix="Give them to the managed node group, or tag the group with node-template/label/ and node-template/taint/.",
        causes=("F6", "P020"),
        check=_unseen,
    ),
    Rule(
        id="GPU155",
        severity="warning",
        title="Node-template tag where nobody reads it",
        why="Tags of a managed node group do not reach its Auto Scaling group, and cluster autoscaler reads only "
        "node-template/resources/ from the group itself.",
        source="https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html",
        fix="Write the label or taint into the node group's Labels or Taints.",
        causes=("F6", "P020"),
        check=_misplaced,
    ),
    Rule(
        id="GPU158",
        severity="warning",
        title="Taint tag without effect",
        why="Cluster autoscaler ignores the tag and starts nodes for pods that then cannot land on them.",
        source=_SOURCE,
        fix="Write the value as <value>:NoSchedule, with nothing before the colon for an empty value.",
        causes=("F7",),
        check=_without_effect,
    ),
    Rule(
        id="GPU159",
        severity="warning",
        title="Taint of a managed node group without value",
        why="Cluster autoscaler leaves out such a taint: it starts nodes for pods that then cannot land on them.",
        source=_MANAGER,
        fix='Give the taint a value, for instance "true".',
        causes=("F8",),
        check=_without_value,
    ),
    Rule(
        id="GPU160",
        severity="error",
        title="Fraction of a GPU that cluster autoscaler does not count",
        why="EC2 reports no whole GPU for g6f and gr6f, so that a pod that asks for one starts no node.",
        source=_MANAGER,
        fix=f"Tag the group {RESOURCE_TAG}{GPU} with 1.",
        causes=("F9",),
        check=_fraction,
    ),
    Rule(
        id="GPU161",
        severity="error",
        title="Shares or slices that cluster autoscaler does not know",
        why="It counts the GPUs of the instance type; of an empty group it knows shares and slices from tags only.",
        source=_SOURCE,
        fix=f"Tag the group {RESOURCE_TAG}<resource> with what a node offers.",
        causes=("F10",),
        check=_shared,
    ),
    Rule(
        id="GPU163",
        severity="warning",
        title="Instance types with different GPUs in one group",
        why="Cluster autoscaler takes every node of the group for one of the first type.",
        source=_MANAGER,
        fix="Make one group for each number of GPUs.",
        causes=("F12",),
        check=_mixed,
    ),
    Rule(
        id="GPU165",
        severity="warning",
        title="Accelerator label on nodes without nvidia.com/gpu",
        why="Cluster autoscaler waits for nvidia.com/gpu on nodes with that label and takes them as never ready.",
        source="kubernetes/autoscaler cluster-autoscaler 1.36.1 "
        "cluster-autoscaler/cloudprovider/aws/aws_cloud_provider.go GetNodeGpuConfig",
        fix=f"Remove {_ACCELERATOR} from pools whose GPUs are claimed, sliced or offered under another name.",
        causes=("F17",),
        check=_mislabelled,
    ),
    Rule(
        id="GPU166",
        severity="warning",
        title="GPU nodes without accelerator label",
        why="A node is Ready before its device plugin runs: without the label the pod counts as still "
        "waiting, and cluster autoscaler starts a second node.",
        source="kubernetes/autoscaler cluster-autoscaler 1.36.1 "
        "cluster-autoscaler/cloudprovider/aws/aws_cloud_provider.go GPULabel",
        fix=f"Label the nodes {_ACCELERATOR}, for instance nvidia-l4.",
        causes=("F18",),
        check=_unlabelled,
    ),
    Rule(
        id="GPU168",
        severity="warning",
        title="Two autoscalers for the same pods",
        why="Both see the same Pending pod and both make a node for it.",
        source="https://karpenter.sh/docs/getting-started/migrating-from-cas/",
        fix="Give the pools different taints, or leave one of the autoscalers out.",
        causes=("F25",),
        check=_both,
    ),
)

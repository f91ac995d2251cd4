"""Rules for the nodes that cluster autoscaler expects from an empty group, compared with the nodes that start.

Source: kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/cloudprovider/aws/aws_manager.go
``buildNodeFromTemplate``
"""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.charts import DRA_DRIVERS
from gpu_facts.hardware.catalogue import catalogue
from gpu_facts.labels import ACCELERATOR, EKS_DOMAIN, LABEL_TAG, MIG_CONFIG, RESOURCE_TAG, TAINT_TAG
from gpu_facts.light import regex
from gpu_facts.resources import GPU, MIG, NVIDIA
from gpu_facts.storage import INSTALLED_BY, STARTUP_TAINTS, TAINT_REMOVED_SINCE, keeps_its_taint
from gpu_preflight.case import Case
from gpu_preflight.cluster.pools import group_tags
from gpu_preflight.cluster.software import unremoved_taints
from gpu_preflight.cluster.storage import claim_source, node_daemons
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.cluster_autoscaler import REMOVERS, goes_by_itself
from gpu_preflight.model.software import DaemonSet
from gpu_preflight.model.taints import Taint
from gpu_preflight.node.daemon_reach import refusing_taints
from gpu_preflight.node.devices import declared, single_label_value
from gpu_preflight.node.nodes import gpu_types, surely_launches
from gpu_preflight.reading.unknown import Unknown, known_text, mapping, mappings
from gpu_preflight.rule import Problem, rule

_SOURCE = "kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/cloudprovider/aws/README.md"
_MANAGER = "kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/cloudprovider/aws/aws_manager.go"
_WAITS = (
    "kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/processors/customresources/gpu_processor.go"
)
_EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
_TAINT_VALUE = regex(rf".*:({'|'.join(_EFFECTS)})")
_NOT_TOLD = (f"{EKS_DOMAIN}/", "alpha.eksctl.io/")
_NODE_POOLS = "https://karpenter.sh/docs/concepts/nodepools/#spectemplatespecstartuptaints"
_FAQ = "kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/FAQ.md"
_DRIVER_OF = {key: driver for driver, key in STARTUP_TAINTS.items()}


def _scales(pool: Pool, cluster: Cluster) -> Answer:
    """Return whether cluster autoscaler creates the nodes of a group."""
    if not pool.is_group or (pool.min_nodes is not None and pool.min_nodes == pool.max_nodes):
        return Answer.NO
    if cluster.autoscaler("cluster-autoscaler"):
        return Answer.YES
    known = cluster.sees_programs or bool(cluster.autoscalers)
    return Answer.NO if known else Answer.UNKNOWN


def _from_zero(case: Case, *, surely: bool = False) -> Iterator[tuple[Pool, bool]]:
    """Yield the GPU groups that cluster autoscaler scales up from zero nodes, and whether this is unknown."""
    for pool in case.gpu_pools:
        answer = _scales(pool, case.cluster) if pool.min_nodes == 0 else Answer.NO
        if answer is Answer.YES or (answer is Answer.UNKNOWN and not surely):
            yield pool, answer is Answer.UNKNOWN


@rule("GPU157", "warning", source=_SOURCE)
def labels_or_taints_that_cluster_autoscaler_cannot_know(case: Case) -> Iterator[Problem]:
    """Cluster autoscaler doesn't know labels or taints of an empty group.

    For an empty group, cluster autoscaler reads labels and taints from the node group or its tags, not from user data.
    Pods that select the label start no node. Pods that don't tolerate the taint start nodes that they can't use.

    Fix: Set them in Labels and Taints of the managed node group, or tag the Auto Scaling group with them.
    """
    for pool, unknown in _from_zero(case):
        labels, taints = _unseen_labels(pool), _unseen_taints(pool)
        unseen = [*(f"label {each}" for each in labels), *(f"taint {each}" for each in taints)]
        if unseen:
            text = f"cluster autoscaler can't see {', '.join(unseen)} of its nodes while the group is empty"
            tags = [f"{LABEL_TAG}{each}={single_label_value(pool, each) or '<value>'}" for each in labels]
            values = ["<value>" if each.value is None else each.value for each in taints]
            pairs = zip(taints, values, strict=True)
            tags += [f"{TAINT_TAG}{each.key}={value}:{each.effect or '<effect>'}" for each, value in pairs]
            own = f"Tag the Auto Scaling group with {' and '.join(tags)}."
            fix = "Set them in Labels and Taints of the node group." if pool.kind == "managed" else own
            yield Problem.from_subject(pool, text, fix=fix, unknown=unknown)


def _unseen_labels(pool: Pool) -> list[str]:
    """Return the labels that only the node's user data sets."""
    managed = mapping(pool.properties.get("Labels"))
    tags = {} if pool.kind == "managed" else group_tags(pool.properties)
    return [
        key
        for key in pool.labels
        if key not in managed and f"{LABEL_TAG}{key}" not in tags and not key.startswith(_NOT_TOLD)
    ]


def _unseen_taints(pool: Pool) -> list[Taint]:
    if pool.kind == "managed":
        known = {str(each.get("Key")) for each in mappings(pool.properties.get("Taints"))}
    else:
        known = {key.removeprefix(TAINT_TAG) for key in group_tags(pool.properties) if key.startswith(TAINT_TAG)}
    return [each for each in pool.taints if each.key not in known]


@rule("GPU155", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html")
def node_template_tag_where_nobody_reads_it(case: Case) -> Iterator[Problem]:
    """Node-template tag is on a managed node group, where cluster autoscaler doesn't read it.

    Tags of a managed node group aren't copied to its Auto Scaling group, and cluster autoscaler reads only
    node-template/resources/ from the node group itself.

    Fix: Write the label or taint into the node group's Labels or Taints.
    """
    for pool in case.cluster.pools:
        if pool.kind == "managed":
            tags = mapping(pool.properties.get("Tags"))
            labels = mapping(pool.properties.get("Labels"))
            taints = {each.key for each in (*pool.taints, *pool.startup_taints)}
            lost = [key for key in tags if key.startswith(LABEL_TAG) and key.removeprefix(LABEL_TAG) not in labels]
            lost += [key for key in tags if key.startswith(TAINT_TAG) and key.removeprefix(TAINT_TAG) not in taints]
            for key in lost:
                where = "Labels" if key.startswith(LABEL_TAG) else "Taints"
                name = key.removeprefix(LABEL_TAG).removeprefix(TAINT_TAG)
                text = f"cluster autoscaler doesn't read tag {key} of a managed node group"
                yield Problem.from_subject(pool, text, fix=f"Set {name} in {where} of the node group.")


@rule("GPU158", "warning", source=_SOURCE)
def taint_tag_without_effect(case: Case) -> Iterator[Problem]:
    """Taint tag has no effect.

    Cluster autoscaler ignores the tag and starts nodes for pods that then can't run on them.

    Fix: Write the value as <value>:NoSchedule; for an empty value write :NoSchedule.
    """
    for pool in case.cluster.pools:
        if pool.kind != "self-managed":
            continue
        for key, value in group_tags(pool.properties).items():
            if key.startswith(TAINT_TAG) and not isinstance(value, Unknown) and not _TAINT_VALUE.fullmatch(str(value)):
                text = f"tag {key} must have the form <value>:<effect>, got {str(value)!r}"
                written = known_text(value) or ""
                plain = written.replace("-", "").isalnum() or not written
                effect = f":{written}" if written in _EFFECTS else f"{written}:NoSchedule"
                fix = f"Set the value of the tag to {effect}." if plain else ""
                yield Problem.from_subject(pool, text, fix=fix)


@rule("GPU159", "warning", source=_MANAGER)
def taint_of_a_managed_node_group_without_value(case: Case) -> Iterator[Problem]:
    """Taint of a managed node group has no value.

    Cluster autoscaler ignores a taint without value. It starts nodes for pods that then can't run on them.

    Fix: Set Value of the taint in Taints of the node group, for example to "true".
    """
    for pool, unknown in _from_zero(case):
        for taint in pool.taints:
            if pool.kind == "managed" and taint.written_without_value:
                text = f"taint {taint} has no value, so cluster autoscaler ignores it"
                yield Problem.from_subject(pool, text, unknown=unknown)


@rule("GPU160", "error", source=_MANAGER)
def fraction_of_a_gpu_that_cluster_autoscaler_does_not_count(case: Case) -> Iterator[Problem]:
    """Cluster autoscaler doesn't count fractional GPUs.

    EC2 reports no whole GPU for g6f and gr6f, so a pod that requests a GPU starts no node.

    Fix: Tag the group with k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/gpu=1.
    """
    for pool, unknown in _from_zero(case):
        first = catalogue().get(pool.instance_types[0]) if pool.instance_types else None
        if first is not None and first.ec2_gpus == 0 and not _declares_gpus(pool):
            text = (
                f"EC2 reports 0 GPUs for {first.name}, and the group lacks tag {RESOURCE_TAG}{GPU}, so a pod that "
                f"requests {GPU} starts no node"
            )
            yield Problem.from_subject(pool, text, unknown=unknown or not surely_launches(pool, [first.name]))


def _declares_gpus(pool: Pool) -> bool:
    return any(name.startswith(NVIDIA) and amount for name, amount in declared(pool).items())


def _offered(case: Case) -> Iterator[tuple[Pool, str, int, int]]:
    """Yield how many of each device resource a node of each pool offers, and how many cluster autoscaler expects."""
    for pool, _ in _from_zero(case, surely=True):
        node = case.nodes(pool)[0]
        for name, amount in node.most.items():
            whole = name == GPU and node.row is not None and node.row.ec2_gpus == 0
            if name.startswith(NVIDIA) and not whole:
                yield pool, name, amount, node.believed.get(name, 0)


@rule("GPU161", "error", source=_SOURCE)
def shares_or_slices_that_cluster_autoscaler_does_not_know(case: Case) -> Iterator[Problem]:
    """Cluster autoscaler doesn't know the GPU shares or MIG slices of a group.

    It counts the GPUs of the instance type. For an empty group, only tags define shares and slices.

    Fix: Tag the group k8s.io/cluster-autoscaler/node-template/resources/<resource> with the number that a node offers.
    """
    for pool, name, amount, expected in _offered(case):
        if amount and not expected:
            text = f"its nodes offer {amount} {name}, but cluster autoscaler expects none"
            yield Problem.from_subject(pool, text, fix=f"Tag the group with {RESOURCE_TAG}{name}={amount}.")
    for pool, _ in _from_zero(case, surely=True):
        if not any(name.startswith(MIG) for name in case.nodes(pool)[0].most):
            yield from _sliced(pool)


@rule("GPU149", "warning", source=_SOURCE)
def more_shares_than_cluster_autoscaler_expects(case: Case) -> Iterator[Problem]:
    """Cluster autoscaler expects fewer GPU shares than a node offers.

    It counts whole GPUs and starts a node for each pod, although one node could run several pods.

    Fix: Tag the group k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/gpu with the number of shares that a
    node offers.
    """
    for pool, name, amount, expected in _offered(case):
        if 0 < expected < amount:
            text = f"its nodes offer {amount} {name}, but cluster autoscaler expects only {expected}"
            yield Problem.from_subject(pool, text, fix=f"Tag the group with {RESOURCE_TAG}{name}={amount}.")


@rule("GPU295", "note", source=_WAITS)
def second_node_for_a_pod_that_shares_a_gpu(case: Case) -> Iterator[Problem]:
    """Cluster autoscaler may start a second node for a pod that shares a GPU.

    On a new node, cluster autoscaler waits only for nvidia.com/gpu. Until shares or slices appear, it may start one
    extra node, which it removes again when idle.

    Fix: Accept it, or lower the maximum size of the group where nodes are expensive.
    """
    for pool in case.gpu_pools:
        if _scales(pool, case.cluster) is not Answer.YES or pool.max_nodes == 1:
            continue
        offered = [name for name, amount in case.nodes(pool)[0].most.items() if amount and name.startswith(NVIDIA)]
        if offered and GPU not in offered:
            text = (
                f"cluster autoscaler doesn't wait for {', '.join(sorted(offered))} of a new node and may start a "
                "second one"
            )
            yield Problem.from_subject(pool, text, unknown=pool.max_nodes is None)


def _sliced(pool: Pool) -> Iterator[Problem]:
    label = pool.labels.get(MIG_CONFIG)
    profile = getattr(label, "only", None)
    if profile and profile != "all-disabled" and not any("mig-" in each or each == GPU for each in declared(pool)):
        text = f"{MIG_CONFIG}={profile} slices its GPUs, but no tag sets how many slices a node has"
        yield Problem.from_subject(pool, text, unknown=True)


@rule("GPU163", "warning", source=_MANAGER)
def instance_types_with_different_gpus_in_one_group(case: Case) -> Iterator[Problem]:
    """Instance types of one group have different numbers of GPUs.

    Cluster autoscaler assumes that every node of the group has the first type.

    Fix: Create one group for each number of GPUs.
    """
    for pool in case.gpu_pools:
        answer = _scales(pool, case.cluster)
        counts = {each: catalogue()[each].gpus if each in catalogue() else 0 for each in pool.instance_types}
        if answer is not Answer.NO and len(set(counts.values())) > 1 and not pool.undecided:
            shown = ", ".join(f"{name} {count}" for name, count in counts.items())
            text = (
                f"its types have different numbers of GPUs ({shown}), but cluster autoscaler assumes that every node "
                f"is a {pool.instance_types[0]}"
            )
            yield Problem.from_subject(pool, text, unknown=answer is Answer.UNKNOWN)


def _whole_gpus(pool: Pool, case: Case) -> Answer:
    """Return whether the nodes of a pool register nvidia.com/gpu, which cluster autoscaler waits for."""
    if _claims_only(pool, case):
        return Answer.NO  # kubelet doesn't register devices that a DRA driver publishes.
    node = case.nodes(pool)[0]
    if node.most.get(GPU, 0) > 0:
        return Answer.YES
    other = any(name.startswith(NVIDIA) and amount for name, amount in node.most.items())
    return Answer.NO if other else Answer.UNKNOWN


def _claims_only(pool: Pool, case: Case) -> bool:
    cluster = case.cluster
    plugins = [each for each in cluster.daemon_sets if GPU in each.advertises]
    claimed = any(cluster.chart(each) for each in DRA_DRIVERS) and pool.operating_system == "al2023"
    return claimed and all(case.reaches(each, pool) is Answer.NO for each in plugins)


@rule(
    "GPU165",
    "warning",
    source=(
        "kubernetes/autoscaler cluster-autoscaler 1.36.1 "
        "cluster-autoscaler/cloudprovider/aws/aws_cloud_provider.go GetNodeGpuConfig"
    ),
)
def accelerator_label_on_nodes_without_nvidia_com_gpu(case: Case) -> Iterator[Problem]:
    """Nodes without nvidia.com/gpu have the accelerator label.

    Cluster autoscaler waits for nvidia.com/gpu on nodes with this label and never treats them as ready.

    Fix: Remove label k8s.amazonaws.com/accelerator from the pool.
    """
    for pool in case.gpu_pools:
        labelled = ACCELERATOR in pool.labels and _scales(pool, case.cluster) is Answer.YES
        if labelled and _whole_gpus(pool, case) is Answer.NO:
            text = (
                f"its nodes have label {ACCELERATOR} but don't register {GPU}, so cluster autoscaler never treats them "
                "as ready"
            )
            most = case.nodes(pool)[0].most
            offered = ", ".join(name for name, amount in most.items() if amount and name.startswith(NVIDIA))
            by_claims = "a DRA driver manages its GPUs" if _claims_only(pool, case) else f"its nodes offer {offered}"
            fix = f"Remove label {ACCELERATOR} from the pool, because {by_claims}."
            yield Problem.from_subject(pool, text, fix=fix)


@rule(
    "GPU166",
    "warning",
    source=(
        "kubernetes/autoscaler cluster-autoscaler 1.36.1 "
        "cluster-autoscaler/cloudprovider/aws/aws_cloud_provider.go GPULabel"
    ),
)
def gpu_nodes_without_accelerator_label(case: Case) -> Iterator[Problem]:
    """GPU nodes lack the accelerator label.

    A node is Ready before its device plugin runs. Without the label, cluster autoscaler still counts the pod as waiting
    and starts a second node.

    Fix: Label the nodes k8s.amazonaws.com/accelerator with the name of their GPU, for example nvidia-a10g.
    """
    for pool in case.gpu_pools:
        bare = ACCELERATOR not in pool.labels and _scales(pool, case.cluster) is Answer.YES
        if bare and _whole_gpus(pool, case) is Answer.YES:
            labels = {each.row.accelerator_label for each in case.nodes(pool) if each.row is not None}
            fix = f"Label the nodes {ACCELERATOR}={labels.pop()}." if len(labels) == 1 else ""
            yield Problem.from_subject(
                pool, f"its nodes have no label {ACCELERATOR}, so cluster autoscaler may start a second node", fix=fix
            )


@rule("GPU168", "warning", source="https://karpenter.sh/docs/getting-started/migrating-from-cas/")
def two_autoscalers_for_the_same_pods(case: Case) -> Iterator[Problem]:
    """Two autoscalers create nodes for the same pods.

    Both see the same Pending pod, and both create a node for it.

    Fix: Give the pools different taints, or remove one of the autoscalers.
    """
    cluster = case.cluster
    groups = [pool for pool in case.gpu_pools if _scales(pool, cluster) is Answer.YES]
    for pool in case.gpu_pools:
        if pool.kind not in ("karpenter", "auto-mode") or cluster.autoscaler(pool.autoscaler) is None:
            continue
        for group in groups:
            alike = set(gpu_types(group)) & set(gpu_types(pool))
            if alike and set(map(str, group.taints)) == set(map(str, pool.taints)):
                text = (
                    f"has the same taints and types as group {group.name}, but another autoscaler, so both create a "
                    "node for one pod"
                )
                yield Problem.from_subject(pool, text)


@rule("GPU176", "warning", source=_NODE_POOLS)
def startup_taint_that_nobody_removes(case: Case) -> Iterator[Problem]:
    """No component removes the startup taint.

    The node keeps the taint: it is never initialized, runs no pods, and is billed.

    Fix: Install the component that removes the taint, or delete the taint from the pool.
    """
    cluster = case.cluster
    for pool in case.gpu_pools:
        for taint in unremoved_taints(pool, cluster):
            text = f"no component in the input is known to remove its startup taint {taint}, "
            text += "so pods that don't tolerate it stay off its nodes"
            names = REMOVERS.get(taint.key, ())
            fix = f"Install {names[0]}, which removes the taint, or delete the taint from the pool." if names else ""
            unknown = not names or not cluster.sees_software
            yield Problem.from_subject(pool, text, fix=fix, unknown=unknown, doubt=cluster.doubt)


@rule("GPU420", "error", source=_FAQ)
def startup_taint_that_its_autoscaler_takes_for_a_lasting_one(case: Case) -> Iterator[Problem]:
    """Autoscaler treats a startup taint as permanent.

    For pods that don't tolerate the taint, the autoscaler creates no first node, although the pods would run once the
    taint is removed. For an empty managed group, EKS reports every taint to cluster autoscaler. Karpenter treats all of
    ``taints`` as permanent.

    Fix: Start cluster autoscaler with --startup-taint=KEY, or move the taint to the NodePool's startupTaints.
    """
    for pool in case.gpu_pools:
        for taint in pool.mistaken_taints if pool.min_nodes == 0 else ():
            if goes_by_itself(taint) and taint.effect == "NoExecute":
                continue  # The API server adds a toleration to every pod.
            # Imported here, because few pools have such a taint.
            from gpu_preflight.scheduling.fitting import autoscaler_name, startup_fix

            text = f"{autoscaler_name(pool)} treats startup taint {taint} as permanent; {startup_fix(pool, taint)}"
            fix = "Move the taint to spec.template.spec.startupTaints of the NodePool."
            fix = f"Start cluster autoscaler with --startup-taint={taint.key}." if pool.is_group else fix
            yield Problem.from_subject(pool, text, fix=fix)


@rule("GPU421", "error", source="https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/v1.64.0/docs/install.md")
def startup_taint_that_its_driver_does_not_remove(case: Case) -> Iterator[Problem]:
    """CSI driver doesn't remove its startup taint.

    The driver's pod doesn't run on the node, or the driver is too old to remove the taint. No other pod ever runs
    there, and the node is billed.

    Fix: Make the driver's DaemonSet run on the pool's nodes, or remove the taint.
    """
    for pool in case.gpu_pools:
        for taint in pool.startup_taints:
            if taint.key in _DRIVER_OF:
                yield from _unremoved(pool, taint, case)


def _unremoved(pool: Pool, taint: Taint, case: Case) -> Iterator[Problem]:
    driver, cluster = _DRIVER_OF[taint.key], case.cluster
    addon = INSTALLED_BY[driver]
    installed = cluster.addon(addon) or cluster.chart(addon)
    if installed is not None and keeps_its_taint(driver, installed.version):
        first, second = TAINT_REMOVED_SINCE[driver]
        text = f"{addon} {installed.version} doesn't remove startup taint {taint}; v{first}.{second} and later do"
        fix = f"Update {addon} to v{first}.{second} or later, or remove the taint."
        yield Problem.from_subject(pool, text, fix=fix)
        return
    daemons = node_daemons(addon, cluster)
    kept_off = [_exclusion_reason(each, pool, taint, case) for each in daemons]
    # The tolerations of a version that isn't in the data are unknown.
    if kept_off and all(kept_off) and daemons[0].exact:
        text = (
            f"DaemonSet {daemons[0].name}, which removes startup taint {taint}, doesn't run on its nodes: {kept_off[0]}"
        )
        tolerate = kept_off[0].partition("it doesn't tolerate ")[2]
        fix = f"Add a toleration of {tolerate} to DaemonSet {daemons[0].name}." if tolerate else ""
        yield Problem.from_subject(pool, text, fix=fix)


def _exclusion_reason(daemon: DaemonSet, pool: Pool, taint: Taint, case: Case) -> str:
    """Return why a DaemonSet surely doesn't run on nodes with a taint; empty if it may."""
    refusing = refusing_taints(daemon, (*pool.taints, taint))
    if refusing:
        return f"it doesn't tolerate {refusing[0]}"
    return "it doesn't select them" if case.reaches(daemon, pool) is Answer.NO else ""


@rule("GPU422", "note", source="https://github.com/awslabs/mountpoint-s3-csi-driver/issues/107")
def pods_that_may_come_before_their_driver(case: Case) -> Iterator[Problem]:
    """Pods may start before their CSI driver.

    On a new node, pods fail with "driver name not found in the list of registered CSI drivers" and start when kubelet
    tries again.

    Fix: Add the driver's startup taint to the pool; with this library: storage_drivers of the NodeShape.
    """
    reported: set[tuple[int, str]] = set()
    for workload, claim in case.gpu_claims:
        source = claim_source(claim, case.cluster)
        key = STARTUP_TAINTS.get((source and source.driver) or "")
        for pool in case.candidate_pools(workload) if key else ():
            if key and not _waits(pool, key) and (id(pool), key) not in reported:
                reported.add((id(pool), key))
                text = f"pods may start before the driver of their volumes: startup taint {key} is missing"
                yield Problem.from_subject(pool, text, fix=_taint_fix(pool, key))


def _taint_fix(pool: Pool, key: str) -> str:
    """Return how a pool gets the startup taint of a driver."""
    where = "to spec.template.spec.startupTaints of the NodePool"
    if pool.is_group:
        where = f"to the taints of the node group, and flag --startup-taint={key} to cluster autoscaler"
    return f"Add {key}:NoExecute {where}; with this library: storage_drivers of the NodeShape."


def _waits(pool: Pool, key: str) -> bool:
    """Whether a taint keeps pods off new nodes of a pool, or the pool never starts new nodes for pods."""
    fixed = pool.min_nodes is not None and pool.min_nodes == pool.max_nodes
    return fixed or any(each.key == key for each in (*pool.startup_taints, *pool.taints))

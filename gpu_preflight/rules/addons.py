"""Add-ons and charts that don't start or don't fit the version of Kubernetes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta

from gpu_facts.charts import (
    AWS_NODE,
    DRA_DRIVERS,
    EBS_CSI_DRIVER,
    EBS_NODE,
    EFS_CSI_DRIVER,
    EFS_NODE,
    FSX_CSI_DRIVER,
    FSX_NODE,
    KARPENTER,
    KARPENTER_CRDS,
    KUBE_PROXY,
    NETWORKS,
    POD_IDENTITY_AGENT,
    S3_NODE,
    VPC_CNI,
)
from gpu_facts.kubernetes import EXTENDED_SUPPORT_USD_PER_HOUR, OLDEST_KUBELET, SUPPORT, is_ended
from gpu_facts.light import regex
from gpu_facts.storage import FSX
from gpu_facts.today import today
from gpu_preflight.case import Case
from gpu_preflight.cluster.iam import node_role, own_actions, policy_names
from gpu_preflight.cluster.images import has_driver, pool_driver_branches, pool_image
from gpu_preflight.cluster.pools import is_one_hop
from gpu_preflight.cluster.references import cluster_resources, created_before, setting
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.software import Addon, DaemonSet
from gpu_preflight.model.taints import Taint
from gpu_preflight.node.nodes import minor
from gpu_preflight.reading.unknown import Unknown, known_number, known_text
from gpu_preflight.rule import Problem, Subject, rule

# DaemonSets that pods on a node need, and the effect if one is missing.
_COUNTED_ON = {
    POD_IDENTITY_AGENT: "pods there get no AWS credentials",
    EBS_NODE: "pods there can't mount EBS volumes",
    EFS_NODE: "pods there can't mount EFS volumes",
    FSX_NODE: "pods there can't mount FSx volumes",
    S3_NODE: "pods there can't mount S3 volumes",
}
_WITHOUT_THEM_NOT_READY = (AWS_NODE, KUBE_PROXY)
# Add-ons whose controllers call AWS from the pod network, and the prefixes of their service accounts' names.
_CALL_AWS = {EBS_CSI_DRIVER: "ebs-", EFS_CSI_DRIVER: "efs-", FSX_CSI_DRIVER: "fsx-"}
# The plugin ignores efa-only interfaces since this version.
# Source: aws/amazon-vpc-cni-k8s v1.18.5 CHANGELOG.md
_KNOWS_EFA_ONLY = (1, 18, 5)
_ANYTHING = ("AdministratorAccess", "PowerUserAccess", "AmazonEC2FullAccess")
_ASSOCIATION = "AWS::EKS::PodIdentityAssociation"
# The longest run time of the Lambda function that runs Helm.
# Source: https://docs.aws.amazon.com/lambda/latest/dg/configuration-timeout.html
_LONGEST_SECONDS = 15 * 60
_MINOR = regex(r"v?(1)\.([0-9]{1,3})\b")
_IMAGE = regex(r"kube-proxy:v(1\.[0-9]{1,3})\.")
_NOTHING = (0, 0)
# The oldest NVIDIA driver that supports claims of whole GPUs.
# Source: kubernetes-sigs/dra-driver-nvidia-gpu pull 1088 docs/prerequisites.md (2026-05)
_DRIVER_OF_CLAIMS = 565
# Source: NVIDIA/gpu-operator v26.7.0, kind GPUCluster: needs driver 580 and Kubernetes 1.34.2 (2026-08)
_DRIVER_OF_GPU_CLUSTER = 580
_HOURS_A_YEAR = 8760
_NOTICE = timedelta(days=60)


@rule("GPU091", "warning", source="https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/")
def daemonset_that_does_not_tolerate_the_taint_of_a_gpu_pool(case: Case) -> Iterator[Problem]:
    """DaemonSet doesn't tolerate the taint of a GPU pool.

    The DaemonSet runs on every node except the GPU nodes, so its function is missing there.

    Fix: Add the toleration to the DaemonSet.
    """
    cluster = case.cluster
    for pool in case.gpu_pools:
        for daemon in cluster.daemon_sets:
            lost = next((text for name, text in _COUNTED_ON.items() if daemon.name.endswith(name)), None)
            taint = case.blocking_taint(daemon, pool) if lost else None
            if taint:
                message = f"pool {pool.name}: DaemonSet {daemon.name} doesn't tolerate its taint {taint}, so {lost}"
                yield Problem(daemon, message, _toleration_fix(daemon, taint, cluster))


def _toleration_fix(daemon: DaemonSet, taint: Taint, cluster: Cluster) -> str:
    """Return where a DaemonSet gets its tolerations from, with the missing one."""
    addon = next((each.name for each in cluster.addons if each.origin == daemon.origin), None)
    chart = next((each.name for each in cluster.charts if each.origin == daemon.origin), None)
    own = f"DaemonSet {daemon.name}"
    where = f"ConfigurationValues of add-on {addon}" if addon else f"the values of chart {chart}" if chart else own
    return f"Add a toleration of {taint} for {daemon.name} to {where}." if where != own else _tolerate(taint, own)


def _tolerate(taint: Taint, where: str) -> str:
    return f"Add a toleration of {taint} to {where}."


@rule("GPU090", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/managing-vpc-cni.html")
def nodes_without_network(case: Case) -> Iterator[Problem]:
    """Nodes have no network plugin or kube-proxy.

    Without the network plugin and kube-proxy, nodes stay NotReady, and a managed node group fails.

    Fix: Add the add-ons vpc-cni and kube-proxy.
    """
    cluster = case.cluster
    if cluster.resource is None or not any(each.kind != "auto-mode" for each in case.gpu_pools):
        return
    for name in _WITHOUT_THEM_NOT_READY:
        for pool in case.gpu_pools:
            daemon = next((each for each in cluster.daemon_sets if each.name == name), None)
            taint = case.blocking_taint(daemon, pool) if daemon else None
            if daemon and taint:
                text = f"pool {pool.name}: DaemonSet {name} doesn't tolerate its taint {taint}, so nodes stay NotReady"
                yield Problem(daemon, text, _toleration_fix(daemon, taint, cluster))
    if setting(cluster, "BootstrapSelfManagedAddons") not in (False, "false") or cluster.unknown_software:
        return
    addon = cluster.addon(VPC_CNI)
    if addon is None and not _has_other_network(cluster):
        yield Problem(
            cluster.resource,
            f"cluster {cluster.name}: BootstrapSelfManagedAddons is off, and no add-on or chart installs {VPC_CNI}, so "
            "nodes stay NotReady",
        )
    elif addon is not None:
        yield from _waits_for_nodes(cluster, addon)


def _has_other_network(cluster: Cluster) -> bool:
    brought = any(cluster.chart(each) for each in NETWORKS)
    return brought or any(each.name in (AWS_NODE, "cilium", "calico-node") for each in cluster.daemon_sets)


def _waits_for_nodes(cluster: Cluster, addon: Addon) -> Iterator[Problem]:
    """Yield the groups that are created before the add-on and can't become ready without it."""
    found = created_before(addon.resource, cluster)
    for pool in cluster.pools:
        if pool.kind == "managed" and pool.resource and pool.resource.key in found and pool.min_nodes:
            message = (
                f"add-on {addon.name} is created after node group {pool.name}, whose nodes need it to become Ready"
            )
            fix = f"Remove the dependency of add-on {addon.name} on the node group, so EKS installs it first."
            yield Problem(addon, message, fix)


@rule("GPU092", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html")
def network_plugin_too_old_for_efa_only_interfaces(case: Case) -> Iterator[Problem]:
    """Network plugin is too old for efa-only interfaces.

    Versions before 1.18.5 treat efa-only interfaces as interfaces with addresses, and pods fail to start.

    Fix: Update the add-on vpc-cni to 1.18.5 or newer.
    """
    addon = case.cluster.addon(VPC_CNI)
    numbers = re.match(r"v?([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})", addon.version or "") if addon else None
    version = tuple(int(each) for each in numbers.groups()) if numbers else None
    if addon is None or version is None or version >= _KNOWS_EFA_ONLY:
        return
    for pool in case.gpu_pools:
        if any(each.kind == "efa-only" for each in pool.launch.interfaces):
            text = f"pool {pool.name}: add-on {addon.name} {addon.version} doesn't support its efa-only interfaces"
            yield Problem(addon, f"{text}, so pods fail to start")


@rule("GPU095", "warning", source="https://github.com/aws/aws-cdk/issues/35299")
def helm_may_wait_longer_than_the_function_that_runs_it(case: Case) -> Iterator[Problem]:
    """Helm may wait as long as the function that runs it, or longer.

    Lambda stops the function without an answer, and CloudFormation waits for it for an hour.

    Fix: Set the chart's timeout below 15 minutes.
    """
    for chart in case.cluster.charts:
        written = chart.properties.get("Timeout")
        seconds = known_number((known_text(written) or "").removesuffix("s"))
        if seconds is not None and seconds >= _LONGEST_SECONDS:
            text = (
                f"chart {chart.name}: Helm waits up to {seconds} s, but the Lambda function that runs Helm ends after "
                f"{_LONGEST_SECONDS} s, and CloudFormation then waits an hour for its answer"
            )
            yield Problem(chart, text)


@rule("GPU096", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/pod-id-agent-setup.html")
def pod_identity_without_its_agent(case: Case) -> Iterator[Problem]:
    """Pod Identity agent isn't installed.

    Controllers get no credentials, so no autoscaler creates nodes and no driver creates volumes.

    Fix: Add the add-on eks-pod-identity-agent.
    """
    cluster = case.cluster
    if cluster.resource is None or cluster.auto_mode or cluster.unknown_software or cluster.addon(POD_IDENTITY_AGENT):
        return
    if cluster.chart(POD_IDENTITY_AGENT) or any(
        each.name.startswith(POD_IDENTITY_AGENT) for each in cluster.daemon_sets
    ):
        return
    for each in cluster_resources(cluster, _ASSOCIATION):
        account = f"{each.properties.get('Namespace')}/{each.properties.get('ServiceAccount')}"
        message = f"pods of service account {account} get no credentials: add-on {POD_IDENTITY_AGENT} isn't installed"
        yield Problem(each, message)
    for addon in cluster.addons:
        if addon.resource.properties.get("PodIdentityAssociations"):
            yield Problem(
                addon, f"add-on {addon.name} gets no credentials: add-on {POD_IDENTITY_AGENT} isn't installed"
            )


@rule(
    "GPU086",
    "warning",
    source="https://docs.aws.amazon.com/eks/latest/best-practices/identity-and-access-management.html",
)
def add_on_out_of_reach_of_the_role_it_needs(case: Case) -> Iterator[Problem]:
    """Add-on has no role and can't use the node's role.

    With a hop limit of 1, the add-on's pods get no credentials. Otherwise they get the node role's permissions, which
    may not suffice. Volumes that the add-on should create never appear.

    Fix: Give the add-on a role by Pod Identity.
    """
    cluster = case.cluster
    one_hop = all(is_one_hop(each) for each in cluster.pools)
    bare = all(_may_not_make_disks(each, cluster) for each in cluster.pools)
    if not cluster.whole or not cluster.pools or not (one_hop or bare):
        return
    accounts = {str(each.properties.get("ServiceAccount")) for each in cluster_resources(cluster, _ASSOCIATION)}
    for addon in cluster.addons:
        own = addon.resource.properties
        linked = own.get("ServiceAccountRoleArn") or own.get("PodIdentityAssociations")
        if (
            addon.name in _CALL_AWS
            and not linked
            and not any(each.startswith(_CALL_AWS[addon.name]) for each in accounts)
        ):
            why = "gets no AWS credentials: it has no role, and every pool limits instance metadata to 1 hop"
            why = why if one_hop else "isn't allowed to create volumes: it has no role, and no node role allows it"
            fix = "Give the add-on a role in PodIdentityAssociations"
            hops = ", or set HttpPutResponseHopLimit to 2, so it can use the node's role" if one_hop else ""
            if (one_hop or addon.name == EBS_CSI_DRIVER) and not _only_mounts(addon.name, cluster):
                yield Problem(addon, f"add-on {addon.name} {why}", f"{fix}{hops}.")


def _only_mounts(addon: str, cluster: Cluster) -> bool:
    """Whether a driver surely creates no volumes and so needs no role: the FSx driver, without an FSx StorageClass."""
    made = any(each.driver == FSX for each in cluster.storage_classes)
    return addon == FSX_CSI_DRIVER and cluster.sees_objects and not made


def _may_not_make_disks(pool: Pool, cluster: Cluster) -> bool:
    """Whether the role of a pool's nodes surely doesn't allow them to create EBS volumes."""
    role = node_role(pool, cluster.resources)
    names, actions = (policy_names(role), own_actions(role, cluster.resources)) if role else (None, None)
    if names is None or actions is None:
        return False
    given = any("EBSCSI" in each or each in _ANYTHING for each in names)
    return not given and not any(each.startswith(("ec2:CreateVolume", "ec2:Create*", "ec2:*", "*")) for each in actions)


@rule("GPU447", "warning", source="https://kubernetes.io/releases/version-skew-policy/")
def kube_proxy_that_does_not_go_with_the_control_plane(case: Case) -> Iterator[Problem]:
    """kube-proxy is newer than the control plane, or too old for it.

    kube-proxy may not be newer than the API server, nor more than three minor versions older. Otherwise Services may
    stop working.

    Fix: Use kube-proxy of the cluster's minor version.
    """
    cluster = case.cluster
    plane = minor(cluster.version) if cluster.version else _NOTHING
    if plane == _NOTHING:
        return
    for subject, version in _proxies(cluster):
        found = _MINOR.match(version)
        runs = (int(found[1]), int(found[2])) if found else plane
        if runs > plane or plane[1] - runs[1] > OLDEST_KUBELET:
            differs = "newer" if runs > plane else f"more than {OLDEST_KUBELET} minor versions older"
            text = f"{KUBE_PROXY} {version} is {differs} than the control plane, which has Kubernetes {cluster.version}"
            yield Problem(subject, text, f"Use {KUBE_PROXY} of Kubernetes {cluster.version}.")


def _proxies(cluster: Cluster) -> Iterator[tuple[Subject, str]]:
    """Yield each kube-proxy whose version is known: add-on, or DaemonSet by its image."""
    addon = cluster.addon(KUBE_PROXY)
    if addon is not None and addon.version:
        yield addon, addon.version
    for daemon in cluster.daemon_sets:
        images = (_IMAGE.search(each.image_text) for each in daemon.pod.containers or ())
        for found in images:
            if found:
                yield daemon, found[1]


@rule("GPU448", "warning", source="https://karpenter.sh/v1.15/upgrading/upgrade-guide/")
def definitions_of_karpenter_of_another_version(case: Case) -> Iterator[Problem]:
    """Karpenter's CRDs and controller have different versions.

    The API server rejects or drops fields and reasons that one version has and the other doesn't.

    Fix: Set the same version for the charts karpenter-crd and karpenter; upgrade the CRDs first.
    """
    definitions, controller = case.cluster.chart(KARPENTER_CRDS), case.cluster.chart(KARPENTER)
    versions = [minor(each.version) for each in (definitions, controller) if each and each.version]
    if definitions and len(versions) > 1 and _NOTHING not in versions and versions[0] != versions[1]:
        runs = controller.version if controller else ""
        text = (
            f"chart {KARPENTER_CRDS} has version {definitions.version}, but Karpenter's controller has {runs}, so the "
        )
        text += "API server rejects or drops fields that only one version has"
        yield Problem(definitions, text)


@rule(
    "GPU507",
    "warning",
    source="https://karpenter.sh/v1.15/troubleshooting/#helm-error-when-installing-the-karpenter-crd-chart",
)
def controller_of_karpenter_before_its_definitions(case: Case) -> Iterator[Problem]:
    """Karpenter's controller may be installed before its CRDs.

    The controller's chart then creates CRDs that no release owns, and the release of karpenter-crd fails on them. At an
    upgrade, the newer controller starts with the older CRDs, which drop fields that it writes.

    Fix: Add the release of karpenter-crd to DependsOn of Karpenter's release; in CDK:
    karpenter.node.add_dependency(crds).
    """
    cluster = case.cluster
    definitions, controller = cluster.chart(KARPENTER_CRDS), cluster.chart(KARPENTER)
    if definitions is None or controller is None:
        return
    first, second = (cluster.resources.get(each.origin.resource or "") for each in (definitions, controller))
    # The order between stacks isn't visible here.
    if first is None or second is None or first.file != second.file or first.key in created_before(second, cluster):
        return
    reversed_order = second.key in created_before(first, cluster)
    order = "is installed before" if reversed_order else "doesn't depend on"
    unknown = not reversed_order and (first.conditional or second.conditional)
    text = f"chart {KARPENTER} {order} {first.path}, the release of {KARPENTER_CRDS}"
    yield Problem(controller, text, unknown=unknown)


@rule("GPU449", "warning", source="https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/pull/1088")
def image_whose_driver_is_too_old_for_what_manages_its_gpus(case: Case) -> Iterator[Problem]:
    """Node image's NVIDIA driver is too old for the DRA driver.

    NVIDIA's DRA driver needs driver 565, and a GPUCluster of the GPU Operator needs driver 580. With an older driver,
    pods can't claim GPUs.

    Fix: Use a newer image release; AL2023 has driver 580 since the end of 2025.
    """
    needed = _needed(case.cluster)
    if needed is None:
        return
    what, least = needed
    for pool in case.gpu_pools:
        ours = pool.kind != "auto-mode" and has_driver(pool) is Answer.YES
        carried = (
            pool_driver_branches(pool, case.cluster.version)
            if ours and not _names_branch(str(pool_image(pool)))
            else None
        )
        if carried and max(carried) < least:
            yield Problem.from_subject(
                pool, f"its node image loads NVIDIA driver {max(carried)}, but {what} needs {least} or newer"
            )


def _names_branch(image: str) -> bool:
    """Whether the name of an image contains its driver branch."""
    return re.search(r"nvidia-\d{3}", image) is not None


def _needed(cluster: Cluster) -> tuple[str, int] | None:
    """Return the component that manages GPUs by claims, and the oldest driver that it supports."""
    if found := cluster.objects_of_kind("GPUCluster"):
        return f"GPUCluster {found[0].name}", _DRIVER_OF_GPU_CLUSTER
    chart = next((each for each in map(cluster.chart, DRA_DRIVERS) if each), None)
    return (f"chart {chart.name}", _DRIVER_OF_CLAIMS) if chart else None


@rule("GPU273", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html")
def kubernetes_version_at_the_end_of_its_support(case: Case) -> Iterator[Problem]:
    """Kubernetes version is at the end of its support.

    Extended support costs more, and only an upgrade ends it. Without extended support, EKS upgrades the control plane.

    Fix: Upgrade the cluster one minor version at a time, to a version in standard support.
    """
    cluster = case.cluster
    support = SUPPORT.get(cluster.version or "")
    if cluster.resource is None:
        return
    if support is None:
        if is_ended(cluster.version or ""):
            text = (
                f"cluster {cluster.name}: EKS no longer supports Kubernetes {cluster.version} and creates no cluster "
                "with it"
            )
            yield Problem(cluster.resource, text)
        return
    standard, extended = map(date.fromisoformat, (support.standard_ends, support.extended_ends))
    now = today()
    if now + _NOTICE < standard:
        return
    whole = setting(cluster, "UpgradePolicy")
    policy = whole if isinstance(whole, Unknown) else setting(cluster, "UpgradePolicy", "SupportType")
    ends = "ended" if now >= standard else "ends"
    leaves = f"cluster {cluster.name}: standard support of Kubernetes {cluster.version} {ends} on {standard}"
    sum_a_year = (
        f"{EXTENDED_SUPPORT_USD_PER_HOUR:.2f} USD an hour, {_HOURS_A_YEAR * EXTENDED_SUPPORT_USD_PER_HOUR:,.0f} a year"
    )
    costs = f"extended support costs {sum_a_year}, until EKS upgrades the cluster on {extended}"
    if now >= extended:
        costs = f"extended support ended on {extended}, and EKS upgrades the cluster"
    upgraded = f"EKS upgrades the cluster {'now' if now >= standard else 'then'}, because UpgradePolicy is STANDARD"
    then = f"{costs}, or {upgraded}" if isinstance(policy, Unknown) else upgraded if policy == "STANDARD" else costs
    yield Problem(cluster.resource, f"{leaves}; {then}")

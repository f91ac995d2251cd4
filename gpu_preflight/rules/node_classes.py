"""Node classes that make no node, or nodes that never join."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_facts.image_releases import NEWEST_WITHOUT_FAULT
from gpu_facts.labels import CLUSTER_TAG, EKS_DOMAIN, KARPENTER_AWS_DOMAIN
from gpu_preflight.case import Case
from gpu_preflight.cluster.iam import resolve_role
from gpu_preflight.cluster.images import ami_alias
from gpu_preflight.cluster.network import class_has_subnet, is_own_network, may_select, tags_later, zone_requirements
from gpu_preflight.cluster.references import cluster_resources, setting
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.label_values import Requirement
from gpu_preflight.node.gpu_pools import gpu_node_pools
from gpu_preflight.node.nodes import minor
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.unknown import Unknown, dig, is_expression, items, known_text, mapping
from gpu_preflight.rule import Problem, rule
from gpu_preflight.scheduling.demand import claim_requests

_CLASSES = "https://karpenter.sh/docs/concepts/nodeclasses/"
_CLASS_KINDS = {KARPENTER_AWS_DOMAIN: "EC2NodeClass", EKS_DOMAIN: "NodeClass"}
_ENTRY_TYPES = {"karpenter": ("EC2_LINUX",), "auto-mode": ("EC2",)}
# Of the security group that EKS makes for each cluster.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/sec-group-reqs.html
_TAGS_OF_EKS = ("aws:eks:cluster-name", CLUSTER_TAG)
# From here on the class takes every field of kubelet.
# Source: aws/karpenter-provider-aws v1.15.0, pull request 9461
_FREE_FROM = (1, 15)
# Source: aws/karpenter-provider-aws v1.14.1 pkg/apis/crds/karpenter.k8s.aws_ec2nodeclasses.yaml
_NAMES = """
clusterDNS cpuCFSQuota evictionHard evictionMaxPodGracePeriod evictionSoft evictionSoftGracePeriod
imageGCHighThresholdPercent imageGCLowThresholdPercent kubeReserved maxPods podsPerCore systemReserved
"""
_KUBELET = tuple(_NAMES.split())


@rule("GPU174", "error", source="https://karpenter.sh/docs/concepts/nodepools/#spectemplatespecnodeclassref")
def nodepool_of_a_class_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """NodePool of a class that does not exist.

    The NodePool is never Ready, and makes no node.

    Fix: Create the class, or correct group, kind and name of nodeClassRef.
    """
    cluster = case.cluster
    for pool in case.gpu_pools:
        reference = mapping(pool.node_template.get("nodeClassRef"))
        group, kind, name = (known_text(reference.get(each)) for each in ("group", "kind", "name"))
        if pool.is_group or not kind or not name:
            continue
        if text := _unmanaged_reason(group, kind):
            yield Problem.from_subject(pool, text)
            continue
        known = [each.name for each in cluster.objects_of_kind(kind)]
        if name in known or (name == "default" and _has_default(cluster)) or not (known or cluster.shows_software):
            continue
        yield Problem.from_subject(pool, f"{kind} {name} does not exist", unknown=not cluster.has_every_object(kind))


def _unmanaged_reason(group: str | None, kind: str) -> str | None:
    """Return why nobody takes a NodePool for its own: Karpenter leaves those of other classes alone.

    Source: sigs.k8s.io/karpenter 2266468 (2026-08-20) pkg/utils/nodepool/nodepool.go ``IsManaged``
    """
    if group is None or is_expression(group) or is_expression(kind) or _CLASS_KINDS.get(group) == kind:
        return None
    known = " nor ".join(f"{each} of {domain}" for domain, each in _CLASS_KINDS.items())
    return f"nodeClassRef is of {kind} of {group}, which is neither {known}"


def _has_default(cluster: Cluster) -> bool:
    """Whether EKS makes a class of that name itself, which comes with its built-in pools."""
    return not cluster.whole or (cluster.auto_mode and setting(cluster, "ComputeConfig", "NodePools") not in (None, []))


@rule("GPU175", "error", source=f"{_CLASSES}#specsubnetselectorterms")
def selector_tags_that_nothing_carries(case: Case) -> Iterator[Problem]:
    """Selector tags that nothing carries.

    The class finds no subnet or security group and is never Ready, so that its pools make no node.

    Fix: Tag the subnets and security groups, or select them by id.
    """
    cluster = case.cluster
    if not cluster.whole or tags_later(cluster.resources):
        return
    for each in cluster.objects_of_kind("EC2NodeClass", "NodeClass"):
        for field, kind in (
            ("subnetSelectorTerms", "AWS::EC2::Subnet"),
            ("securityGroupSelectorTerms", "AWS::EC2::SecurityGroup"),
        ):
            candidates = cluster.resources_of_type(kind)
            terms = [mapping(one) for one in items(each.spec.get(field))]
            if kind == "AWS::EC2::SecurityGroup" and any(map(_selects_group_of_eks, terms)):
                continue
            used = items(setting(cluster, "ResourcesVpcConfig", "SubnetIds"))
            own = is_own_network(used, cluster.resources)
            if own and candidates and terms and not any(may_select(one, each) for one in terms for each in candidates):
                asked = ", ".join(f"{key}={value}" for one in terms for key, value in mapping(one.get("tags")).items())
                text = f"{each.kind} {each.name}: {field} ask for {asked}, which nothing in the template carries"
                yield Problem(each, text, unknown=kind == "AWS::EC2::SecurityGroup")


def _selects_group_of_eks(term: Mapping[str, Any]) -> bool:
    tags = mapping(term.get("tags"))
    return bool(tags) and all(key.startswith(_TAGS_OF_EKS) for key in tags)


@rule("GPU392", "error", source="https://karpenter.sh/docs/concepts/nodeclasses/#specrole")
def role_of_a_node_class_by_its_arn(case: Case) -> Iterator[Problem]:
    """Role of a node class by its ARN.

    Karpenter puts the text into an instance profile as a name, which IAM refuses; the class stays unready.

    Fix: Write the name of the role alone.
    """
    for pool in case.cluster.pools:
        role = dig(dict(pool.node_class.spec), "role") if pool.node_class else None
        if isinstance(role, str) and role.startswith("arn:"):
            yield Problem.from_subject(
                pool, f"its class {pool.node_class.name if pool.node_class else ''} names role {role}"
            )


@rule("GPU182", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html")
def node_class_role_unauthorized(case: Case) -> Iterator[Problem]:
    """Role of a node class that the cluster does not let in.

    The instance starts and is paid for, cannot join, and is replaced after 15 minutes.

    Fix: Add an AWS::EKS::AccessEntry of the role: EC2_LINUX for Karpenter, EC2 with AmazonEKSAutoNodePolicy for Auto
    Mode.
    """
    cluster = case.cluster
    if not cluster.whole:
        return
    for each in cluster.objects_of_kind("EC2NodeClass", "NodeClass"):
        kind = "karpenter" if each.kind == "EC2NodeClass" else "auto-mode"
        role = resolve_role(each.spec.get("role") or each.spec.get("instanceProfile"), cluster.resources)
        if role is None or _is_let_in_by_eks(role, cluster) or _is_mapped(role, cluster):
            continue
        types = _entry_types(role, cluster)
        wanted = _ENTRY_TYPES[kind]
        if types is None or any(one in wanted or one is None for one in types):
            continue
        has = f"an access entry of type {', '.join(map(str, types))}" if types else "no access entry"
        text = f"{each.kind} {each.name}: role {role.path} has {has}, it needs one of type {wanted[0]}"
        unknown = setting(cluster, "AccessConfig", "AuthenticationMode") != "API"
        yield Problem(each, text, unknown=unknown)


def _is_let_in_by_eks(role: Resource, cluster: Cluster) -> bool:
    """Whether EKS makes the entry itself: of managed groups, and of Auto Mode's own role."""
    known = [each.properties.get("NodeRole") for each in cluster.pools if each.kind == "managed"]
    known.append(setting(cluster, "ComputeConfig", "NodeRoleArn"))
    return any(resolve_role(each, cluster.resources) is role for each in known if each is not None)


def _is_mapped(role: Resource, cluster: Cluster) -> bool:
    """Whether aws-auth may map a role."""
    maps = [each for each in cluster.objects_of_kind("ConfigMap") if each.name == "aws-auth"]
    name = known_text(role.properties.get("RoleName"))
    texts = [str(each.content.get("data")) for each in maps]
    return any(role.key in text or (name is not None and name in text) or "mapRoles" not in text for text in texts)


def _entry_types(role: Resource, cluster: Cluster) -> list[str | None] | None:
    """Return the type of each access entry of a role, ``None`` where an entry may be of any role."""
    found: list[str | None] = []
    for each in cluster_resources(cluster, "AWS::EKS::AccessEntry"):
        principal = each.properties.get("PrincipalArn")
        holder = resolve_role(principal, cluster.resources)
        if holder is None and isinstance(principal, Unknown):
            return None
        if holder is role:
            kind = each.properties.get("Type", "STANDARD")
            found.append(kind if isinstance(kind, str) else None)
    return found


@rule("GPU188", "warning", source=f"{_CLASSES}#specamiselectorterms")
def gpu_nodes_on_the_latest_image(case: Case) -> Iterator[Problem]:
    """GPU nodes on the latest image.

    Each release of the image makes the nodes drift: they are replaced while they work, with another driver.

    Fix: Pin the alias to a release, and move it on purpose.
    """
    for pool in gpu_node_pools(case.cluster):
        alias = ami_alias(pool) if pool.kind == "karpenter" else None
        if alias and alias.endswith("@latest"):
            text = f"alias {alias} replaces its nodes, driver and all, at each release of the image"
            family = alias.partition("@")[0]
            pinned = f", as {family}@{NEWEST_WITHOUT_FAULT}" if family == "al2023" else ""
            yield Problem.from_subject(pool, text, fix=f"Pin the alias to a release{pinned}, and move it on purpose.")


@rule("GPU193", "warning", source="https://karpenter.sh/docs/tasks/dra/")
def network_interfaces_listed_beside_claimed_efa_devices(case: Case) -> Iterator[Problem]:
    """Network interfaces listed beside claimed EFA devices.

    Karpenter attaches every EFA interface for claims only where the class lists none.

    Fix: Leave networkInterfaces out of the class.
    """
    cluster = case.cluster
    claims = cluster.objects_of_kind("ResourceClaim", "ResourceClaimTemplate")
    drivers = {str(dig(request, "deviceClassName")) for claim in claims for request in claim_requests(claim)}
    if not any("dra.net" in each or each.startswith("efa.") for each in drivers):
        return
    for pool in gpu_node_pools(cluster):
        if pool.launch.interfaces:
            text = "its class lists networkInterfaces, and pods claim EFA devices"
            yield Problem.from_subject(pool, text)


@rule("GPU398", "warning", source=f"{_CLASSES}#speckubelet")
def field_of_kubelet_that_the_class_does_not_have(case: Case) -> Iterator[Problem]:
    """Field of kubelet that the class does not have.

    Before 1.15 the definition of the class has twelve fields of kubelet; others are refused, or dropped.

    Fix: Use a field that the class has, or Karpenter 1.15.
    """
    karpenter = case.cluster.autoscaler("karpenter")
    if karpenter is None or karpenter.version is None or minor(karpenter.version) >= _FREE_FROM:
        return
    for each in case.cluster.objects_of_kind("EC2NodeClass"):
        for name in mapping(each.spec.get("kubelet")):
            if name not in _KUBELET:
                yield Problem(each, f"EC2NodeClass {each.name}: kubelet has no {name} in Karpenter {karpenter.version}")


@rule("GPU399", "error", source=f"{_CLASSES}#specsubnetselectorterms")
def zone_in_which_the_class_has_no_subnet(case: Case) -> Iterator[Problem]:
    """Zone in which the class has no subnet.

    Karpenter launches into subnets of the class only, so that the pool makes no node. It is certain where the template
    has the cluster's VPC, else subnets of the same tags may stand elsewhere.

    Fix: Tag a subnet of that zone, or ask for a zone that has one.
    """
    for pool in case.cluster.pools:
        answer = class_has_subnet(pool)
        # That nothing is known of a zone is no finding.
        if answer is Answer.NO or (
            answer is Answer.UNKNOWN and all(isinstance(each, str) for each in pool.class_zones)
        ):
            asked, there = _format_requirements(zone_requirements(pool)), ", ".join(sorted(map(str, pool.class_zones)))
            text = f"asks for zone {asked}, and the subnets of its class are in {there}"
            yield Problem.from_subject(pool, text, unknown=answer is Answer.UNKNOWN)


def _format_requirements(requirements: list[Requirement]) -> str:
    return " and ".join(
        ", ".join(each.values or ()) if each.operator == "In" else f"{each.operator} {', '.join(each.values or ())}"
        for each in requirements
    )

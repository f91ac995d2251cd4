"""Rules for node classes that create no node, or nodes that never join."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_facts.image_releases import NEWEST_WITHOUT_FAULT
from gpu_facts.labels import CLUSTER_TAG, EKS_DOMAIN, KARPENTER_AWS_DOMAIN
from gpu_preflight.case import Case
from gpu_preflight.cluster.iam import resolve_role, wrong_type_fix
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
_NOUNS = {"subnetSelectorTerms": "subnet", "securityGroupSelectorTerms": "security group"}
_CLASS_KINDS = {KARPENTER_AWS_DOMAIN: "EC2NodeClass", EKS_DOMAIN: "NodeClass"}
_ENTRY_TYPES = {"karpenter": ("EC2_LINUX",), "auto-mode": ("EC2",)}
# Tags of the security group that EKS creates for each cluster.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/sec-group-reqs.html
_TAGS_OF_EKS = ("aws:eks:cluster-name", CLUSTER_TAG)
# The class accepts every kubelet field since this version.
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
    """NodePool refers to a node class that doesn't exist.

    The NodePool is never Ready and creates no node.

    Fix: Create the class, or correct group, kind and name of nodeClassRef.
    """
    cluster = case.cluster
    for pool in case.gpu_pools:
        reference = mapping(pool.node_template.get("nodeClassRef"))
        group, kind, name = (known_text(reference.get(each)) for each in ("group", "kind", "name"))
        if pool.is_group or not kind or not name:
            continue
        if text := _unmanaged_reason(group, kind):
            yield Problem.from_subject(pool, text, fix=_class_fix(kind, cluster))
            continue
        known = [each.name for each in cluster.objects_of_kind(kind)]
        if name in known or (name == "default" and _has_default(cluster)) or not (known or cluster.shows_software):
            continue
        text = f"nodeClassRef names {kind} {name}, which doesn't exist"
        fix = f"Create {kind} {name}, or correct the name in nodeClassRef."
        yield Problem.from_subject(pool, text, fix=fix, unknown=not cluster.has_every_object(kind), doubt=cluster.doubt)


def _class_fix(kind: str, cluster: Cluster) -> str:
    """Return the group of a class, or of the only class that a cluster without Auto Mode can have."""
    if cluster.whole and not cluster.auto_mode and kind != "EC2NodeClass":
        return f"Set nodeClassRef to an EC2NodeClass, with group: {KARPENTER_AWS_DOMAIN}."
    domain = next((domain for domain, each in _CLASS_KINDS.items() if each == kind), None)
    return f"Set nodeClassRef.group to {domain}." if domain else "Correct group and kind of nodeClassRef."


def _unmanaged_reason(group: str | None, kind: str) -> str | None:
    """Return why no controller manages a NodePool: Karpenter ignores NodePools with other classes.

    Source: sigs.k8s.io/karpenter 2266468 (2026-08-20) pkg/utils/nodepool/nodepool.go ``IsManaged``
    """
    if group is None or is_expression(group) or is_expression(kind) or _CLASS_KINDS.get(group) == kind:
        return None
    known = " or ".join(f"{each} of {domain}" for domain, each in _CLASS_KINDS.items())
    return f"nodeClassRef must name {known}, got {kind} of {group}, so no controller creates its nodes"


def _has_default(cluster: Cluster) -> bool:
    """Whether EKS creates a class with this name itself, together with its built-in pools."""
    return not cluster.whole or (cluster.auto_mode and setting(cluster, "ComputeConfig", "NodePools") not in (None, []))


@rule("GPU175", "error", source=f"{_CLASSES}#specsubnetselectorterms")
def selector_tags_that_nothing_carries(case: Case) -> Iterator[Problem]:
    """Selector tags match no subnet or security group.

    The class finds no subnet or security group and is never Ready, so its pools create no node.

    Fix: Tag the resources with the tags of the selector, or select them by id.
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
                tags = ", ".join(f"{key}={value}" for one in terms for key, value in mapping(one.get("tags")).items())
                noun = _NOUNS[field]
                text = f"{each.kind} {each.name}: {field} select tag {tags}, which no {noun} in the template has"
                fix = f"Tag the {noun}s of the nodes with {tags}, or select them by id."
                yield Problem(each, text, fix, unknown=kind == "AWS::EC2::SecurityGroup")


def _selects_group_of_eks(term: Mapping[str, Any]) -> bool:
    tags = mapping(term.get("tags"))
    return bool(tags) and all(key.startswith(_TAGS_OF_EKS) for key in tags)


@rule("GPU392", "error", source="https://karpenter.sh/docs/concepts/nodeclasses/#specrole")
def role_of_a_node_class_by_its_arn(case: Case) -> Iterator[Problem]:
    """Node class names its role by ARN instead of name.

    Karpenter uses the value as a role name in an instance profile, which IAM rejects. The class stays unready.

    Fix: Write only the name of the role.
    """
    for pool in case.cluster.pools:
        role = dig(dict(pool.node_class.spec), "role") if pool.node_class else None
        if isinstance(role, str) and role.startswith("arn:"):
            name = pool.node_class.name if pool.node_class else ""
            text = f"role of EC2NodeClass {name} must be a name, got the ARN {role}"
            fix = f"Set spec.role to {role.rpartition('/')[2]}."
            yield Problem.from_subject(pool, text, fix=fix).in_object(pool.node_class, "spec.role")


@rule("GPU182", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html")
def node_class_role_unauthorized(case: Case) -> Iterator[Problem]:
    """Role of a node class has no access entry for nodes.

    The instance starts and is paid for, can't join, and is replaced after 15 minutes.

    Fix: Add an AWS::EKS::AccessEntry for the role: type EC2_LINUX for Karpenter, or EC2 with AmazonEKSAutoNodePolicy
    for Auto Mode.
    """
    cluster = case.cluster
    if not cluster.whole:
        return
    for each in cluster.objects_of_kind("EC2NodeClass", "NodeClass"):
        kind = "karpenter" if each.kind == "EC2NodeClass" else "auto-mode"
        role = resolve_role(each.spec.get("role") or each.spec.get("instanceProfile"), cluster.resources)
        if role is None or _has_access_by_eks(role, cluster) or _is_mapped(role, cluster):
            continue
        entries = _entries(role, cluster)
        types = None if entries is None else [one.properties.get("Type", "STANDARD") for one in entries]
        wanted = _ENTRY_TYPES[kind]
        if types is None or any(one in wanted or not isinstance(one, str) for one in types):
            continue
        has = f"an access entry of type {', '.join(map(str, types))}" if types else "no access entry"
        needs = f"needs one of type {wanted[0]}, so nodes can't join"
        text = f"{each.kind} {each.name}: role {role.path} has {has}, but {needs}"
        policy = " and access policy AmazonEKSAutoNodePolicy" if kind == "auto-mode" else ""
        fix = f"Add an AWS::EKS::AccessEntry for the role, with Type: {wanted[0]}{policy}."
        fix = wrong_type_fix(entries[0], f"{wanted[0]}{policy}") if entries else fix
        unknown = setting(cluster, "AccessConfig", "AuthenticationMode") != "API"
        yield Problem(each, text, fix, unknown=unknown)


def _has_access_by_eks(role: Resource, cluster: Cluster) -> bool:
    """Whether EKS creates the access entry itself: for managed groups, and for Auto Mode's own role."""
    known = [each.properties.get("NodeRole") for each in cluster.pools if each.kind == "managed"]
    known.append(setting(cluster, "ComputeConfig", "NodeRoleArn"))
    return any(resolve_role(each, cluster.resources) is role for each in known if each is not None)


def _is_mapped(role: Resource, cluster: Cluster) -> bool:
    """Whether aws-auth may map a role."""
    maps = [each for each in cluster.objects_of_kind("ConfigMap") if each.name == "aws-auth"]
    name = known_text(role.properties.get("RoleName"))
    texts = [str(each.content.get("data")) for each in maps]
    return any(role.key in text or (name is not None and name in text) or "mapRoles" not in text for text in texts)


def _entries(role: Resource, cluster: Cluster) -> list[Resource] | None:
    """Return the access entries of a role; ``None`` if an entry may be for any role."""
    found: list[Resource] = []
    for each in cluster_resources(cluster, "AWS::EKS::AccessEntry"):
        principal = each.properties.get("PrincipalArn")
        holder = resolve_role(principal, cluster.resources)
        if holder is None and isinstance(principal, Unknown):
            return None
        if holder is role:
            found.append(each)
    return found


@rule("GPU188", "warning", source=f"{_CLASSES}#specamiselectorterms")
def gpu_nodes_on_the_latest_image(case: Case) -> Iterator[Problem]:
    """GPU nodes use the latest image.

    Each release of the image makes the nodes drift. Karpenter replaces them while they work, with another driver.

    Fix: Pin the alias to a release, and change the release on purpose.
    """
    for pool in gpu_node_pools(case.cluster):
        alias = ami_alias(pool) if pool.kind == "karpenter" else None
        if alias and alias.endswith("@latest"):
            text = f"image alias {alias} makes Karpenter replace its nodes, and their driver, at each image release"
            family = alias.partition("@")[0]
            pinned = f", for example {family}@{NEWEST_WITHOUT_FAULT}" if family == "al2023" else ""
            fix = f"Pin the alias to a release{pinned}, and change the release on purpose."
            yield Problem.from_subject(pool, text, fix=fix).in_object(pool.node_class, "spec.amiSelectorTerms")


@rule("GPU193", "warning", source="https://karpenter.sh/docs/tasks/dra/")
def network_interfaces_listed_beside_claimed_efa_devices(case: Case) -> Iterator[Problem]:
    """Node class lists network interfaces although pods claim EFA devices.

    Karpenter attaches every EFA interface for claims only if the class lists no network interfaces.

    Fix: Remove networkInterfaces from the class.
    """
    cluster = case.cluster
    claims = cluster.objects_of_kind("ResourceClaim", "ResourceClaimTemplate")
    drivers = {str(dig(request, "deviceClassName")) for claim in claims for request in claim_requests(claim)}
    if not any("dra.net" in each or each.startswith("efa.") for each in drivers):
        return
    for pool in gpu_node_pools(cluster):
        if pool.launch.interfaces:
            text = "its class lists networkInterfaces, so Karpenter doesn't attach the EFA devices that pods claim"
            yield Problem.from_subject(pool, text)


@rule("GPU398", "warning", source=f"{_CLASSES}#speckubelet")
def field_of_kubelet_that_the_class_does_not_have(case: Case) -> Iterator[Problem]:
    """EC2NodeClass doesn't have this kubelet field.

    Before 1.15, the CRD of the class has twelve kubelet fields. The API server rejects or drops others.

    Fix: Use a field that the class has, or upgrade Karpenter to 1.15.
    """
    karpenter = case.cluster.autoscaler("karpenter")
    if karpenter is None or karpenter.version is None or minor(karpenter.version) >= _FREE_FROM:
        return
    for each in case.cluster.objects_of_kind("EC2NodeClass"):
        for name in mapping(each.spec.get("kubelet")):
            if name not in _KUBELET:
                text = (
                    f"EC2NodeClass {each.name}: Karpenter {karpenter.version} has no field spec.kubelet.{name}, so the "
                    "API server rejects or drops it"
                )
                yield Problem(each, text)


@rule("GPU399", "error", source=f"{_CLASSES}#specsubnetselectorterms")
def zone_in_which_the_class_has_no_subnet(case: Case) -> Iterator[Problem]:
    """Node class has no subnet in the zone that the pool requires.

    Karpenter launches only into subnets of the class, so the pool creates no node. The result is certain if the
    template contains the cluster's VPC. Otherwise subnets with the same tags may exist elsewhere.

    Fix: Add the tags of subnetSelectorTerms to a subnet in a zone that the pool allows, or allow the zone of one of the
    subnets in requirement topology.kubernetes.io/zone.
    """
    for pool in case.cluster.pools:
        answer = class_has_subnet(pool)
        # An unknown zone isn't a finding.
        if answer is Answer.NO or (
            answer is Answer.UNKNOWN and all(isinstance(each, str) for each in pool.class_zones)
        ):
            zones, there = _format_requirements(zone_requirements(pool)), ", ".join(sorted(map(str, pool.class_zones)))
            text = f"it requires {zones}, but the subnets of its class are in {there}, so it creates no node"
            yield Problem.from_subject(pool, text, unknown=answer is Answer.UNKNOWN)


def _format_requirements(requirements: list[Requirement]) -> str:
    words = {"In": "zone", "NotIn": "a zone other than"}
    return " and ".join(
        f"{words.get(each.operator, each.operator)} {', '.join(each.values or ())}" for each in requirements
    )

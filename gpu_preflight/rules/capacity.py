"""Rules for instance types, zones and regions where EC2 has little or no capacity."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

from gpu_facts.charts import KARPENTER
from gpu_facts.hardware.catalogue import InstanceType, catalogue, columns, retired
from gpu_facts.hardware.regions import (
    Quota,
    find_quota,
    is_elsewhere,
    is_in_every_zone,
    is_no_zone,
    is_seen_zone,
    is_unseen,
    last_letter,
    offerings_date,
    region_hint,
    zones_by_region,
)
from gpu_facts.labels import EKS_DOMAIN, INSTANCE_TYPE, KARPENTER_AWS_DOMAIN, ZONE
from gpu_facts.light import regex
from gpu_facts.refusals import did_you_mean
from gpu_facts.resources import GPU
from gpu_preflight.case import Case
from gpu_preflight.cluster.network import are_apart, names_zone_ids, pool_region, spans_zones
from gpu_preflight.cluster.pools import is_capacity_known, is_reserved, is_visible
from gpu_preflight.cluster.references import referred, setting
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.label_values import Requirement, Selection
from gpu_preflight.node.autoscaler_view import option
from gpu_preflight.node.nodes import gpu_types, minor, surely_launches
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.eksctl.recognition import CLUSTER_SUBNET
from gpu_preflight.reading.unknown import Unknown, dig, is_true, known_text
from gpu_preflight.rule import Problem, rule

if TYPE_CHECKING:
    from gpu_preflight.scheduling.demand import Demand

# EC2 should have at least this many spot capacity pools to choose from. One type in one zone is one pool.
# Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-best-practices.html (2026-08)
_SPOT_POOLS = 3
_FAMILY_LABELS = (f"{KARPENTER_AWS_DOMAIN}/instance-family", f"{EKS_DOMAIN}/instance-family")
# Families g, gr and p have GPUs, but g4ad's GPUs aren't from NVIDIA. SageMaker's names have a prefix.
_LIKE_A_GPU_TYPE = regex(r"(ml\.)?(gr?|p)\d(?!ad\b)", re.IGNORECASE)
_MOST_REGIONS = 6
# Families that a region has only in some of its zones.
_SCARCE = ("p4", "p5", "p6")
_ZONES = "https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-availability-zones.html"
_REGION = "${AWS::Region}"
# The region with the most zones. It has all zone letters that other regions have.
_MOST = "us-east-1"
# Source: aws/karpenter-provider-aws v1.12.0, the first version with this setting
_KARPENTER_KNOWS_IT = (1, 12)


@rule("GPU020", "note", source="https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html")
def ec2_quota_that_the_pools_need(case: Case) -> Iterator[Problem]:
    """EC2 quota must cover the vCPUs of the pools.

    Launches above the quota fail with VcpuLimitExceeded. New accounts have quota 0 for P instances and a low one for G
    instances.

    Fix: Run 'aws service-quotas list-service-quotas --service-code ec2', and request an increase if the value is lower.
    """
    demands: dict[Quota, dict[str, int | None]] = {}
    for pool in case.gpu_pools:
        for quota, rows in _counted(pool).items():
            demands.setdefault(quota, {})[pool.name] = _most_vcpus(pool, rows)
    for quota, pools in demands.items():
        command = f"aws service-quotas get-service-quota --service-code ec2 --quota-code {quota.code}"
        fix = f"Run '{command}', and request an increase if the value is lower."
        first = next(each for each in case.gpu_pools if each.name in pools)
        yield Problem(case.cluster.resource or first, _demand(quota, pools), fix=fix)


def _counted(pool: Pool) -> dict[Quota, list[InstanceType]]:
    """Return the types of a pool by the quota that they count against."""
    found: dict[Quota, list[InstanceType]] = {}
    for capacity in pool.capacity_types:
        for row in (catalogue()[name] for name in gpu_types(pool)):
            quota = find_quota(row, capacity)
            if quota is not None and row.vcpus is not None:
                found.setdefault(quota, []).append(row)
    return found


def _most_vcpus(pool: Pool, rows: list[InstanceType]) -> int | None:
    """Return the maximum number of vCPUs of a pool; ``None`` if no known limit bounds it."""
    bounds = []
    if pool.max_nodes is not None:
        bounds.append(pool.max_nodes * max(row.vcpus or 0 for row in rows))
    if not pool.is_group and "cpu" in pool.limits:
        bounds.append(pool.limits["cpu"] // 1000)
    if not pool.is_group and GPU in pool.limits and all(row.ec2_gpus for row in rows):
        bounds.append(max(pool.limits[GPU] * (row.vcpus or 0) // row.ec2_gpus for row in rows))
    return min(bounds, default=None)


def _demand(quota: Quota, pools: dict[str, int | None]) -> str:
    bounded = {name: vcpus for name, vcpus in pools.items() if vcpus is not None}
    unbounded = [name for name in pools if name not in bounded]
    parts = ", ".join(f"pool {name}: {vcpus}" for name, vcpus in bounded.items())
    used = [f"the pools can use up to {sum(bounded.values())} vCPUs of this quota ({parts})"] if bounded else []
    used += [f"pool {', '.join(unbounded)} has no known limit"] if unbounded else []
    return f"EC2 quota {quota.code} ({quota.name}): {', and '.join(used)}"


@rule("GPU021", "warning", source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-best-practices.html")
def spot_with_too_little_to_choose_from(case: Case) -> Iterator[Problem]:
    """Spot pool has too few instance types and zones.

    If EC2 has no spare instance of this type in this zone, no instance launches, and there is no alternative.

    Fix: Add types with the same number of GPUs, or zones, until there are at least 3 combinations; or add an on-demand
    pool.
    """
    for pool in case.gpu_pools:
        types, zones = gpu_types(pool), len(set(pool.zones))
        if pool.capacity_types == ("spot",) and 0 < len(types) * zones < _SPOT_POOLS:
            where = f"{_count(len(types), 'type')} in {_count(zones, 'zone')}"
            text = f"spot needs at least {_SPOT_POOLS} combinations of type and zone, got {where} ({', '.join(types)})"
            yield Problem.from_subject(pool, text)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


@rule("GPU022", "note", source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/troubleshooting-launch.html")
def one_type_in_one_zone_without_a_reservation(case: Case) -> Iterator[Problem]:
    """Pool depends on one instance type in one zone, without a reservation.

    If EC2 has no free instance there (InsufficientInstanceCapacity), no node starts until it has one.

    Fix: Reserve the capacity, or add zones, or add a second pool with another type.
    """
    for pool in case.gpu_pools:
        types = gpu_types(pool)
        bought = pool.capacity_types == ("on-demand",) and not (pool.is_group and _may_be_reserved(pool))
        if bought and len(types) == 1 and len(set(pool.zones)) == 1:
            text = f"it can launch only {types[0]} on demand in one Availability Zone, without a reservation"
            yield Problem.from_subject(pool, text)


def _may_be_reserved(pool: Pool) -> bool:
    return not is_visible(pool) or not is_capacity_known(pool) or is_reserved(pool)


@rule(
    "GPU004", "error", source="awslabs/amazon-eks-ami v20260724 templates/al2023/provisioners/install-nvidia-driver.sh"
)
def retired_instance_type(case: Case) -> Iterator[Problem]:
    """Instance type is retired.

    EC2 no longer sells it, or no current image has a driver for its GPU.

    Fix: Use a type of a current family.
    """
    for pool in (*case.cluster.pools, *case.cluster.unclaimed):
        for name in _retired_choices(pool):
            entry = retired().get(name) or _retired_family(name)
            message = f"instance type {name} is retired: {entry['reason']}"
            fix = f"Use a size of family {entry['successor']}."
            yield Problem.from_subject(
                pool, message, fix=fix, unknown=not surely_launches(pool, _retired_choices(pool))
            )


def _retired_family(family: str) -> dict[str, str]:
    return dict(next(entry for name, entry in retired().items() if name.partition(".")[0] == family))


def _retired_choices(pool: Pool) -> list[str]:
    """Return the retired types of a group, or the retired values of a NodePool that allows no other types."""
    if pool.is_group:
        return [name for name in pool.instance_types if name in retired()]
    families = {name.partition(".")[0] for name in retired()} - {each.family for each in catalogue().values()}
    found: list[str] = []
    for each in pool.requirements:
        known = set(retired()) if each.key == INSTANCE_TYPE else families if each.key in _FAMILY_LABELS else set()
        if each.operator == "In" and each.values and known.issuperset(each.values):
            found += each.values
    return found


@rule("GPU005", "warning", source="https://docs.aws.amazon.com/ec2/latest/instancetypes/ac.html")
def instance_type_that_nobody_knows(case: Case) -> Iterator[Problem]:
    """Instance type isn't known.

    EKS rejects the node group, and Karpenter ignores the name. A type that is newer than the data of this version is
    fine.

    Fix: Correct the name; 'gpu-constructs instances' lists the types.
    """
    as_of = columns()["architecture"]["as_of"]
    for pool in case.cluster.pools:
        for name in dict.fromkeys(_named(pool)):
            if _LIKE_A_GPU_TYPE.match(name) and name not in catalogue() and name not in retired():
                hint = did_you_mean(name.lower().removeprefix("ml."), catalogue(), closeness=0.85)
                yield Problem.from_subject(pool, f"EC2 had no instance type {name} on {as_of}{hint}")


def _named(pool: Pool) -> list[str]:
    if pool.is_group:
        return list(pool.instance_types)
    wanted = [each for each in pool.requirements if each.key == INSTANCE_TYPE and each.operator == "In"]
    return [name for each in wanted for name in each.values or ()]


@rule("GPU024", "error", source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html")
def instance_type_that_is_not_sold_as_asked(case: Case) -> Iterator[Problem]:
    """EC2 doesn't sell the instance type with this capacity type.

    Each launch fails, independent of quotas.

    Fix: Use an instance type that EC2 sells this way.
    """
    for pool in filter(is_capacity_known, case.gpu_groups):
        pairs = product((catalogue()[name] for name in gpu_types(pool)), pool.capacity_types)
        for row, capacity in pairs:
            if capacity not in row.purchase_options:
                sold = ", ".join(row.purchase_options)
                text = f"EC2 doesn't sell {row.name} as {capacity}, only as {sold}"
                fix = _capacity_fix(pool, row)
                yield Problem.from_subject(pool, text, fix=fix, unknown=not surely_launches(pool, [row.name]))


def _capacity_fix(pool: Pool, row: InstanceType) -> str:
    """Return how a managed group gets a capacity type that EC2 sells; empty for other groups."""
    sold = " or ".join(each.upper().replace("-", "_") for each in row.purchase_options)
    return f"Set CapacityType to {sold}." if pool.kind == "managed" and sold else ""


@rule("GPU053", "warning", source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html")
def cluster_placement_group_over_several_zones(case: Case) -> Iterator[Problem]:
    """Cluster placement group has subnets in several zones.

    A cluster placement group is in the zone of its first instance. Launches in another zone fail.

    Fix: Give the group subnets of one zone, or create one pool with its own placement group per zone.
    """
    for pool in case.gpu_groups:
        answer = spans_zones(pool)
        if _is_clustered(pool, case.cluster) and pool.zones and answer is not Answer.NO:
            message = f"its cluster placement group needs one zone, but its subnets are in {len(set(pool.zones))} zones"
            yield Problem.from_subject(pool, message, unknown=answer is Answer.UNKNOWN)


def _is_clustered(pool: Pool, cluster: Cluster) -> bool:
    placement = pool.launch.placement
    names = (dig(placement, "GroupName"), dig(placement, "GroupId"), pool.properties.get("PlacementGroup"))
    keys = [each.resource for each in names if isinstance(each, Unknown) and each.resource]
    groups = [cluster.resources[key] for key in keys if key in cluster.resources]
    return any(each.properties.get("Strategy") == "cluster" for each in groups)


@rule("GPU271", "warning", source="https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-regions.html")
def instance_type_that_is_not_seen_in_the_region(case: Case) -> Iterator[Problem]:
    """Instance type isn't offered in the region.

    EKS rejects the node group, and Karpenter launches none of this type. Types that AWS added after the data of this
    version are fine.

    Fix: Use another region or type; 'aws ec2 describe-instance-type-offerings' lists the current offers.
    """
    for pool in case.gpu_pools:
        region, types = pool_region(pool, case.cluster), gpu_types(pool)
        unseen = [each for each in types if is_unseen(each, region)]
        # Karpenter launches the others.
        if unseen and (pool.is_group or len(unseen) == len(types)):
            message = f"EC2 didn't offer {_listed(unseen)} in {region} on {offerings_date()}{_elsewhere(unseen[0])}"
            yield Problem.from_subject(pool, message)


def _listed(types: list[str]) -> str:
    more = f" and {len(types) - _MOST_REGIONS} more" if len(types) > _MOST_REGIONS else ""
    return ", ".join(types[:_MOST_REGIONS]) + more


def _elsewhere(name: str) -> str:
    regions = sorted(zones_by_region(name))
    return f"; {name} is offered in {', '.join(regions)}" if 0 < len(regions) <= _MOST_REGIONS else ""


@rule("GPU272", "warning", source="https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-regions.html")
def region_that_there_is_not(case: Case) -> Iterator[Problem]:
    """AWS region doesn't exist.

    The name is similar to the name of a region, but no resource can be deployed to it.

    Fix: Correct the name.
    """
    for pool in case.gpu_pools:
        region = pool_region(pool, case.cluster)
        if region and (hint := region_hint(region)):
            yield Problem.from_subject(pool, f"AWS has no region {region}{hint}")


@rule("GPU297", "note", source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-discovery.html")
def zone_of_a_scarce_type_that_only_deployment_tells(case: Case) -> Iterator[Problem]:
    """Zone of a scarce instance type is known only at deployment.

    A region may have P4, P5 and P6 in only some of its zones. In the other zones, no such node starts.

    Fix: Use zones that 'aws ec2 describe-instance-type-offerings --location-type availability-zone' lists.
    """
    for pool in case.gpu_pools:
        region = pool_region(pool, case.cluster) or ""
        types = [each for each in gpu_types(pool) if each.startswith(_SCARCE) and not is_in_every_zone(each, region)]
        named = any(isinstance(each, str) for each in pool.zones) or names_zone_ids(pool, case.cluster)
        # The buyer of a reservation knows its zone.
        reserved = is_reserved(pool) or pool.capacity_types == ("reserved",)
        # Karpenter can choose another type, and another zone.
        if types and len(types) == len(gpu_types(pool)) and not named and not reserved:
            where = ", ".join(zones_by_region(types[0]).get(region, ()))
            seen = f"; {region} had it in {where} on {offerings_date()}" if where else ""
            text = f"only some zones have {_listed(types)}, and the pool's zones are known only at deployment{seen}"
            command = "aws ec2 describe-instance-type-offerings --location-type availability-zone"
            fix = f"Use zones that '{command} --filters Name=instance-type,Values={','.join(types)}' lists."
            yield Problem.from_subject(pool, text, fix=fix)


@rule("GPU427", "error", source=_ZONES)
def zone_that_the_region_does_not_have(case: Case) -> Iterator[Problem]:
    """Region doesn't have the zone.

    EC2 creates no subnet there and Auto Scaling no group, so the deployment fails and no node starts.

    Fix: Use a zone of the region; 'aws ec2 describe-availability-zones' lists them.
    """
    cluster = case.cluster
    for pool in case.gpu_groups:
        for zone, region, unsure in _pool_zones(pool, cluster):
            if (answer := _has_zone(region, zone)) is not Answer.YES:
                yield Problem.from_subject(
                    pool, f"is in {_nowhere(zone, region)}", unknown=unsure or answer is Answer.UNKNOWN
                )
    for subnet in _cluster_subnets(cluster):
        placed = _subnet_zone(subnet)
        answer = _has_zone(subnet.region, placed) if placed is not None else Answer.YES
        if cluster.resource is not None and answer is not Answer.YES:
            text = f"cluster {cluster.name}: {subnet.path} is in {_nowhere(placed, subnet.region)}"
            yield Problem(cluster.resource, text, unknown=subnet.conditional or answer is Answer.UNKNOWN)


def _nowhere(zone: str | Unknown | None, region: str | None) -> str:
    return f"zone {zone}, which {region or 'its region'} doesn't have{last_letter(str(zone))}"


def _cluster_subnets(cluster: Cluster) -> list[Resource]:
    """Return the subnets that CloudFormation or eksctl needs to create the cluster."""
    made, every = cluster.resource, cluster.resources_of_type("AWS::EC2::Subnet", CLUSTER_SUBNET)
    return [each for each in every if made is not None and each.file == made.file]


def _pool_zones(pool: Pool, cluster: Cluster) -> Iterator[tuple[str | Unknown, str | None, bool]]:
    """Yield the zones of a group, the region of each, and whether it exists only under a condition."""
    region = pool.resource.region if pool.resource else None
    conditional = bool(pool.resource and pool.resource.conditional)
    subnets = [found for each in pool.subnets if (found := referred(each, cluster.resources))]
    for subnet in subnets:
        if (zone := _subnet_zone(subnet)) is not None:
            yield zone, subnet.region, conditional or subnet.conditional
    for zone in () if subnets else pool.zones:
        yield zone, region, conditional


def _subnet_zone(subnet: Resource) -> str | Unknown | None:
    named = subnet.properties.get("AvailabilityZone") or subnet.properties.get("AvailabilityZoneId")
    return named if isinstance(named, (str, Unknown)) else None


def _has_zone(region: str | None, zone: str | Unknown) -> Answer:
    """Return whether a region has a zone with a name or an id; unknown if its value is known only at deployment."""
    named = zone if isinstance(zone, str) else zone.expression.replace(_REGION, region or _MOST)
    if is_no_zone(named) or is_elsewhere(named, region):
        return Answer.NO
    return Answer.YES if is_seen_zone(named) else Answer.UNKNOWN


@rule("GPU428", "error", source=_ZONES)
def pod_in_a_zone_that_there_is_not(case: Case) -> Iterator[Problem]:
    """Pod requires a zone that doesn't exist.

    No node ever has this zone, so the pod stays Pending with any pool.

    Fix: Use a zone that exists; 'aws ec2 describe-availability-zones' lists them.
    """
    found: dict[int, tuple[str, str]] = {}
    for verdict in map(case.verdict, case.gpu_workloads):
        # Equal pods share their requests.
        key = id(verdict.demand)
        if key not in found:
            found[key] = _missing_zone_request(verdict.demand)
        text, fix = found[key]
        if text:
            message = f"{text}, but AWS has no such zone, so the pod stays Pending"
            yield Problem.from_subject(verdict.workload, message, fix=fix)


def _missing_zone_request(wanted: Demand) -> tuple[str, str]:
    """Return a pod's requirement of a zone that doesn't exist, and its fix if it isn't the rule's; empty for none."""
    named, zones = _missing_zone_requirement(wanted.pod.selection), wanted.topology.zones
    if named is not None:
        return f"requires {named}", ""
    if not zones or not Requirement(ZONE, "In", zones).is_nowhere:
        return "", ""
    fix = (
        "Set a zone that exists in nodeAffinity of the PersistentVolume, or in allowedTopologies of the StorageClass; "
        "'aws ec2 describe-availability-zones' lists them."
    )
    return f"has a volume in {', '.join(zones)}", fix


def _missing_zone_requirement(selection: Selection) -> Requirement | None:
    """Return the requirement of a zone that doesn't exist; if there are several terms, each must have one."""
    found = [each for each in selection.selector if each.is_nowhere]
    of_terms = [next((one for one in term.labels if one.is_nowhere), None) for term in selection.terms or ()]
    return next(iter([*found, *([] if None in of_terms else of_terms)]), None)


@rule("GPU445", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/zone-shift.html")
def zonal_shift_over_gpu_nodes_of_one_zone(case: Case) -> Iterator[Problem]:
    """Zonal shift may remove all nodes of a GPU type.

    AWS may start a zonal shift by itself. It removes the zone's nodes from scheduling and from every Service, and no
    other zone has these GPUs.

    Fix: Create a pool of these types in another zone, or set ZonalShiftConfig.Enabled to false.
    """
    if not _shifts(case.cluster):
        return
    for pool in case.gpu_pools:
        if spans_zones(pool) is Answer.NO and not any(_is_alternative_pool(each, pool) for each in case.gpu_pools):
            zone = known_text(pool.zones[0]) or "one zone"
            yield Problem.from_subject(
                pool, f"its nodes are all in {zone}, so a zonal shift removes all of them from scheduling and traffic"
            )


def _shifts(cluster: Cluster) -> bool:
    return is_true(setting(cluster, "ZonalShiftConfig", "Enabled"))


def _is_alternative_pool(other: Pool, pool: Pool) -> bool:
    """Whether another pool has, or may have, the same instance types in another zone."""
    types = set(gpu_types(pool))
    alike = not types or bool(types & set(gpu_types(other))) or other.undecided
    return other is not pool and alike and are_apart((*pool.zones, *other.zones)) is not Answer.NO


@rule("GPU446", "warning", source="https://karpenter.sh/docs/reference/settings/")
def karpenter_that_is_not_told_of_zonal_shift(case: Case) -> Iterator[Problem]:
    """Karpenter ignores zonal shifts.

    Karpenter continues to launch nodes in the zone that the cluster was shifted out of, where they get no pods.

    Fix: Set settings.enableZonalShift: true in the values of chart karpenter, and allow
    arc-zonal-shift:GetManagedResource in the policy of its role.
    """
    chart = case.cluster.chart(KARPENTER)
    if chart is None or not _shifts(case.cluster) or not chart.version or minor(chart.version) < _KARPENTER_KNOWS_IT:
        return
    if option(case.cluster, "enableZonalShift") in (None, False, "false"):
        yield Problem(chart, f"Karpenter {chart.version} ignores zonal shifts: settings.enableZonalShift isn't true")

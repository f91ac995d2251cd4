"""Why EC2 launches no instance: the texts of Auto Scaling, EKS and Karpenter, and the quotas, subnets and reservations.

Karpenter reports quotas, subnets and reservations as "insufficient capacity" too, so the code of EC2 decides. Sources:
https://docs.aws.amazon.com/autoscaling/ec2/userguide/ts-as-instancelaunchfailure.html,
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html,
https://docs.aws.amazon.com/eks/latest/APIReference/API_Issue.html (2026-11)
"""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from gpu_facts.hardware.catalogue import catalogue
from gpu_facts.light import dataclass, regex
from gpu_preflight.doctor.capacity import (
    RECENT_SECONDS,
    Group,
    claims,
    failed_activities,
    fitting_groups,
    needs_node,
    node_pools,
    refused_launches,
)
from gpu_preflight.doctor.cause import Cause, Confidence, Evidence
from gpu_preflight.doctor.dump import parse_time
from gpu_preflight.doctor.live import Live, Target
from gpu_preflight.reading.unknown import dig, mappings

# Texts of EC2, Auto Scaling, EKS and Karpenter, the specific ones first: cause, texts, fault, fix.
_TEXTS: tuple[tuple[str, tuple[str, ...], str, str], ...] = (
    (
        "E3",
        ("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded", "SpotQuotaExceeded"),
        "the Spot quota of the account is used up",
        "Request a higher Spot quota, or use on-demand",
    ),
    (
        "E2",
        ("VcpuLimitExceeded", "your current vCPU limit of", "VCPULimitExceeded", "InstanceLimitExceeded"),
        "the vCPU quota of the account is too low",
        "Request a higher quota: L-DB2E81BA for G and VT types, L-417A185B for P types",
    ),
    (
        "E13",
        ("InsufficientFreeAddresses", "enough available IP addresses", "not enough free addresses"),
        "the subnet has no free addresses",
        "Use subnets with free addresses, or add a CIDR block",
    ),
    (
        "E9",
        ("ReservationCapacityExceeded", "InvalidCapacityReservation"),
        "the capacity reservation is full or not active",
        "Wait for the reservation, extend it, or allow on-demand",
    ),
    (
        "E11",
        ("ServiceLinkedRoleCreationNotPermitted", "SpotSLRCreationFailed"),
        "the service-linked role for Spot doesn't exist",
        "Create the role",
    ),
    (
        "E6",
        (
            "InvalidAMIID",
            "The image id '",
            "AmiIdNotFound",
            "Not authorized for images",
            "AMIAuthorizationFailure",
            "AMINotFound",
        ),
        "the AMI doesn't exist or isn't accessible",
        "Use an AMI that exists in this account and region",
    ),
    (
        "E4",
        ("Unsupported", "is not supported in your requested Availability Zone"),
        "the zone doesn't offer the instance type",
        "Remove the subnet of this zone from the pool, or use another instance type",
    ),
    (
        "E8",
        ("Client.InvalidKMSKey", "Client.InternalError", "InvalidKMSKey"),
        "the KMS key of the disk isn't usable",
        "Grant the role of Auto Scaling or Karpenter the use of the KMS key",
    ),
    (
        "E12",
        (
            "UnauthorizedOperation",
            "You are not authorized to perform this operation",
            "AccessDenied",
            "explicit deny",
            "Unauthorized",
        ),
        "IAM denies the launch",
        "Allow the action in the policy that denies it: role, permission boundary or service control policy",
    ),
    (
        "E1",
        ("InsufficientInstanceCapacity", "UnfulfillableCapacity", "do not have sufficient"),
        "EC2 has no capacity for the instance type",
        "Allow more zones or instance types, or reserve capacity",
    ),
)
_COMMANDS = {"E11": "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"}
# Quotas of vCPUs by family. Source: https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html
_QUOTAS = {"G and VT": "L-DB2E81BA", "P": "L-417A185B"}
_ASG = "aws autoscaling describe-auto-scaling-groups"
# EKS health issues that aren't about a launch.
_JOIN_ISSUES = ("NodeCreationFailure", "AccessDenied", "ClusterUnreachable")
_LIMIT = regex(r"vCPU limit of (\d+)")


@dataclass(frozen=True, slots=True)
class _Report:
    """A text about a launch that failed."""

    subject: str
    text: str
    evidence: Evidence
    confidence: Confidence
    is_karpenter: bool = False


def find(live: Live, target: Target) -> Iterator[Cause]:
    """Yield the causes of a pod that waits for an instance."""
    if not needs_node(live, target):
        return
    fitting = fitting_groups(live, target)
    reports = [*_of_groups(live, fitting), *_of_karpenter(live, target)]
    found: dict[str, Cause] = {}
    for report in reports:
        for id, texts, fault, fix in _TEXTS:
            if any(each in report.text for each in texts) and id not in found:
                found[id] = _cause(live, report, id, fault, fix)
                if not report.is_karpenter:
                    break
    yield from found.values()
    for group in fitting:
        yield from _terminated(live, group, found)
        yield from _suspended(group)
        yield from _without_addresses(live, group, found)
        yield from _small_quota(live, group, found)


def _of_groups(live: Live, fitting: list[Group]) -> Iterator[_Report]:
    for group in fitting:
        for each in failed_activities(live, group)[:3]:
            text = str(each.get("StatusMessage"))
            time = live.shown(parse_time(each.get("StartTime")))
            source = f"Activity of Auto Scaling group {group.scaling_group}"
            yield _Report(group.title, text, Evidence(source, "StatusMessage", text, time), "proven")
        for each in mappings(dig(group.managed, "health", "issues")):
            code, text = str(each.get("code")), f"{each.get('code')}: {each.get('message')}"
            if code not in _JOIN_ISSUES:
                evidence = Evidence(f"EKS {group.title}", f"health.issues[{code}]", str(each.get("message")))
                yield _Report(group.title, text, evidence, "proven")


def _of_karpenter(live: Live, target: Target) -> Iterator[_Report]:
    for event in list(refused_launches(live, target))[:3]:
        title = f"NodePool {event.name.rpartition('-')[0]}"
        yield _Report(title, event.message, live.of_event(event), "likely", is_karpenter=True)
    for claim in claims(live, target):
        launched = live.condition(claim, "Launched")
        if launched is not None and launched.status != "True":
            reason = f"{launched.reason}: {launched.message}"
            yield _Report(claim.title, reason, live.of_condition(claim, launched), "proven", is_karpenter=True)
    for pool in node_pools(live, target):
        health = live.condition(pool, "NodeRegistrationHealthy")
        if health is not None and health.status == "False":
            reason = f"{health.reason}: {health.message}"
            yield _Report(pool.title, reason, live.of_condition(pool, health), "likely", is_karpenter=True)


def _cause(live: Live, report: _Report, id: str, fault: str, fix: str) -> Cause:
    text = report.text.partition("fleet error(s), ")[2] or report.text
    shown, command = [report.evidence], _COMMANDS.get(id, "")
    if id == "E2":
        shown += [
            Evidence("aws service-quotas get-service-quota", str(each.get("QuotaName")), str(each.get("Value")))
            for each in mappings(live.aws("Quota"))
        ]
        if (limit := _LIMIT.search(text)) is not None:
            fault += f" ({limit[1]} vCPUs)"
    if id == "E9":
        shown += [
            Evidence(
                f"Capacity reservation {each.get('CapacityReservationId')}",
                "State, AvailableInstanceCount",
                f"{each.get('State')}, {each.get('AvailableInstanceCount')}",
            )
            for each in mappings(live.aws("CapacityReservations"))
        ][:3]
    excluded = (
        ("EC2's code isn't the one of a lack of capacity",) if id != "E1" else ("EC2's code isn't the one of a quota",)
    )
    message = f"{report.subject} gets no instance, because {fault}: {text}"
    return Cause(id, report.subject, message, report.confidence, tuple(shown), fix, command, excluded)


def _terminated(live: Live, group: Group, found: dict[str, Cause]) -> Iterator[Cause]:
    """E8: the instance starts and is terminated at once, and no call reports an error."""
    for each in mappings([one for r in mappings(live.aws("Reservations")) for one in mappings(r.get("Instances"))]):
        tags = {str(one.get("Key")): one.get("Value") for one in mappings(each.get("Tags"))}
        code = str(dig(each, "StateReason", "Code") or "")
        own = group.name == tags.get("eks:nodegroup-name") or group.scaling_group == tags.get(
            "aws:autoscaling:groupName"
        )
        old = (live.seconds_since(parse_time(each.get("LaunchTime"))) or 0) > RECENT_SECONDS
        if (
            own
            and not old
            and "E8" not in found
            and code in ("Client.InternalError", "Client.InvalidKMSKey.InvalidState")
        ):
            fix = next(row[3] for row in _TEXTS if row[0] == "E8")
            message = f"Instance {each.get('InstanceId')} of {group.title} was terminated at its start: {code}, which means that a volume couldn't be created with its KMS key"
            shown = (Evidence(f"Instance {each.get('InstanceId')}", "StateReason.Code", code),)
            yield Cause("E8", group.title, message, "likely", shown, fix)
            return


def _suspended(group: Group) -> Iterator[Cause]:
    stopped = {str(each.get("ProcessName")) for each in mappings(group.scaling.get("SuspendedProcesses"))}
    if "Launch" in stopped:
        shown = (Evidence(f"Auto Scaling group {group.scaling_group}", "SuspendedProcesses", "Launch"),)
        message = f"The Launch process of Auto Scaling group {group.scaling_group} is suspended, so {group.title} gets no instance"
        command = f"aws autoscaling resume-processes --auto-scaling-group-name {quote(group.scaling_group)} --scaling-processes Launch"
        yield Cause("E20", group.title, message, "proven", shown, "Resume the process", command)


def _without_addresses(live: Live, group: Group, found: dict[str, Cause]) -> Iterator[Cause]:
    """E13 from the subnets alone: every subnet of the group is full."""
    own = [each for each in mappings(live.aws("Subnets")) if each.get("SubnetId") in group.subnets]
    if "E13" in found or not own or len(own) < len(group.subnets):
        return
    if all(each.get("AvailableIpAddressCount") == 0 for each in own):
        shown = tuple(Evidence(f"Subnet {each.get('SubnetId')}", "AvailableIpAddressCount", "0") for each in own)
        fix = next(row[3] for row in _TEXTS if row[0] == "E13")
        yield Cause("E13", group.title, f"No subnet of {group.title} has a free address", "likely", shown, fix)


def _small_quota(live: Live, group: Group, found: dict[str, Cause]) -> Iterator[Cause]:
    """E2 from the quota alone: it is below the vCPUs of one instance."""
    rows = [row for row in map(catalogue().get, group.instance_types) if row is not None and row.vcpus]
    if "E2" in found or not rows or group.managed.get("capacityType") == "SPOT":
        return
    codes = {_QUOTAS.get(row.quota_family) for row in rows}
    smallest = min(row.vcpus or 0 for row in rows)
    for each in mappings(live.aws("Quota")):
        value = each.get("Value")
        if codes == {each.get("QuotaCode")} and isinstance(value, (int, float)) and value < smallest:
            shown = (Evidence("aws service-quotas get-service-quota", str(each.get("QuotaName")), str(value)),)
            message = f"The quota {each.get('QuotaName')} is {value:g} vCPUs, and the smallest type of {group.title} has {smallest}"
            fix = next(row[3] for row in _TEXTS if row[0] == "E2")
            command = f"aws service-quotas request-service-quota-increase --service-code ec2 --quota-code {each.get('QuotaCode')} --desired-value {smallest}"
            yield Cause("E2", group.title, message, "likely", shown, fix, command)

"""Why EC2 launches no instance: the texts of Auto Scaling, EKS and Karpenter, and the quotas, subnets and reservations.

Karpenter reports quotas, subnets and reservations as "insufficient capacity" too, so the code of EC2 decides. Sources:
https://docs.aws.amazon.com/autoscaling/ec2/userguide/ts-as-instancelaunchfailure.html,
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html,
https://docs.aws.amazon.com/eks/latest/APIReference/API_Issue.html (2026-11)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from shlex import quote
from typing import Any

from gpu_facts.hardware.catalogue import catalogue
from gpu_facts.labels import NODE_POOL
from gpu_facts.light import dataclass, regex
from gpu_preflight.doctor.capacity import (
    RECENT_SECONDS,
    Group,
    capacity_types,
    claims,
    failed_activities,
    fitting_groups,
    instances,
    needs_node,
    node_pools,
    refused_launches,
)
from gpu_preflight.doctor.cause import Cause, Confidence, Evidence, weaker
from gpu_preflight.doctor.dump import parse_time
from gpu_preflight.doctor.live import Live, Target, title
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, mappings

# Texts of EC2, Auto Scaling, EKS and Karpenter, the specific ones first.
_TEXTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("E3", ("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded", "SpotQuotaExceeded")),
    ("E2", ("VcpuLimitExceeded", "your current vCPU limit of", "VCPULimitExceeded", "InstanceLimitExceeded")),
    ("E13", ("InsufficientFreeAddresses", "enough available IP addresses", "not enough free IP addresses")),
    ("E9", ("ReservationCapacityExceeded", "InvalidCapacityReservation")),
    ("E11", ("ServiceLinkedRoleCreationNotPermitted", "SpotSLRCreationFailed")),
    ("E6", ("InvalidAMIID", "The image id '", "AmiIdNotFound", "Not authorized for images", "AMIAuthorizationFailure")),
    ("E6", ("AMINotFound",)),
    ("E4", ("Unsupported", "is not supported in your requested Availability Zone")),
    ("E8", ("InvalidKMSKey", "Client.InternalError")),
    ("E12", ("UnauthorizedOperation", "not authorized to perform", "AccessDenied", "explicit deny", "Unauthorized")),
    ("E1", ("InsufficientInstanceCapacity", "UnfulfillableCapacity", "do not have sufficient")),
)
_FAULTS = {
    "E1": ("EC2 has no capacity for the instance type", "allow more zones or instance types, or reserve capacity"),
    "E2": (
        "the vCPU quota of the account is too low",
        "request a higher quota: L-DB2E81BA for G and VT types, L-417A185B for P types",
    ),
    "E3": ("the Spot quota of the account is used up", "request a higher Spot quota, or use on-demand"),
    "E4": ("the zone doesn't offer the instance type", "remove the subnet of this zone, or use another instance type"),
    "E6": ("the AMI doesn't exist or isn't accessible", "use an AMI that exists in this account and region"),
    "E8": (
        "the KMS key of the disk isn't usable",
        "grant the service-linked role of Auto Scaling, or the role of Karpenter, the use of the KMS key",
    ),
    "E9": (
        "the capacity reservation is full or not active",
        "wait for the reservation, extend it, or allow on-demand",
    ),
    "E11": ("the service-linked role for Spot doesn't exist", "create the role"),
    "E12": (
        "IAM denies the launch",
        "allow the action in the policy that denies it: role, permissions boundary or service control policy",
    ),
    "E13": ("the subnet has no free addresses", "use subnets with free addresses, or add a CIDR block"),
    "E20": ("its node group is degraded", "repair what EKS reports, or recreate the node group"),
}
_COMMANDS = {"E11": "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"}
# Quotas of vCPUs by family. Source: https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html
_QUOTAS = {"G and VT": "L-DB2E81BA", "P": "L-417A185B"}
_QUOTA = "aws service-quotas get-service-quota"
# Issues of a node group that aren't about a launch.
_JOIN_ISSUES = ("NodeCreationFailure", "AccessDenied", "ClusterUnreachable")
_VCPUS = regex(r"vCPU limit of (\d+)")


@dataclass(frozen=True, slots=True)
class _Report:
    """A text about a launch that failed. Karpenter joins several codes in one text."""

    subject: str
    text: str
    evidence: Evidence
    confidence: Confidence
    has_several_codes: bool = False


def find(live: Live, target: Target) -> Iterator[Cause]:
    """Yield the causes of a pod that waits for an instance."""
    if not needs_node(live, target):
        return
    fitting, pools = fitting_groups(live, target), node_pools(live, target)
    found: dict[str, Cause] = {}
    for report in (*_group_reports(live, fitting), *_karpenter_reports(live, target, pools)):
        # The SDK's code after the message is UnfulfillableCapacity for each of the inner codes.
        inner = report.text.partition(" (aws-error-code=")[0]
        ids = [id for id, texts in _TEXTS if any(each in inner for each in texts)]
        if not ids and "health.issues" in report.evidence.field and "LaunchFailures" not in report.text:
            ids = ["E20"]
        for id in ids if report.has_several_codes else ids[:1]:
            found.setdefault(id, _cause(live, report, id))
    yield from found.values()
    if "E8" not in found:
        yield from _terminated(live, fitting, pools)
    if "E9" not in found:
        yield from _reservations(live, fitting, pools)
    for group in fitting:
        yield from _suspended(group)
        if "E13" not in found:
            yield from _full_subnets(live, group)
        if "E2" not in found:
            yield from _small_quota(live, group)


def _group_reports(live: Live, fitting: list[Group]) -> Iterator[_Report]:
    for group in fitting:
        for each in failed_activities(live, group)[:3]:
            text, time = str(each.get("StatusMessage")), parse_time(each.get("StartTime"))
            source = f"Activity of Auto Scaling group {group.scaling_group}"
            shown, age = Evidence(source, "StatusMessage", text, live.time_text(time)), live.seconds_since(time)
            # Activities are kept for 6 weeks, and the group may not have tried since then.
            is_recent = age is not None and age <= RECENT_SECONDS
            yield _Report(group.title, text, shown, "proven" if is_recent else "likely")
        for each in mappings(dig(group.managed, "health", "issues")):
            code, text = str(each.get("code")), str(each.get("message"))
            if code not in _JOIN_ISSUES:
                shown = Evidence(f"EKS {group.title}", f"health.issues[{code}]", text)
                yield _Report(group.title, f"{code}: {text}", shown, "proven")


def _karpenter_reports(live: Live, target: Target, pools: list[Object]) -> Iterator[_Report]:
    for event in list(refused_launches(live, target))[:3]:
        subject = f"NodePool {event.name.rpartition('-')[0]}"
        yield _Report(subject, event.message, live.event_evidence(event), "likely", has_several_codes=True)
    for each in (*claims(live, target), *pools):
        is_claim = each.kind == "NodeClaim"
        one = live.condition(each, "Launched" if is_claim else "NodeRegistrationHealthy")
        if one is not None and one.status != "True":
            text, shown = f"{one.reason}: {one.message}", live.condition_evidence(each, one)
            yield _Report(title(each), text, shown, "proven" if is_claim else "likely")


def _cause(live: Live, report: _Report, id: str) -> Cause:
    text, (fault, fix) = report.text.partition("fleet error(s), ")[2] or report.text, _FAULTS[id]
    shown = [report.evidence]
    if id == "E2":
        quotas = mappings(live.aws("Quota"))
        shown += [Evidence(_QUOTA, str(each.get("QuotaName")), str(each.get("Value"))) for each in quotas]
        limit = _VCPUS.search(text)
        fault += f" ({limit[1]} vCPUs)" if limit is not None else ""
    if id == "E9":
        shown += _reservation_evidence(mappings(live.aws("CapacityReservations")))
    excluded = "EC2's code isn't about capacity" if id != "E1" else "EC2's code isn't about a quota, subnet or zone"
    message = f"{report.subject} gets no instance, because {fault}: {text}"
    # EC2 reports a key that isn't usable as an internal error, which may have other reasons.
    sure = report.confidence if id != "E8" or "InvalidKMSKey" in text else weaker("likely", report.confidence)
    command = _COMMANDS.get(id, "")
    return Cause(id, report.subject, message, sure, tuple(shown), fix, command, excluded=(excluded,))


def _terminated(live: Live, fitting: list[Group], pools: list[Object]) -> Iterator[Cause]:
    """E8: EC2 terminates the instance at its start, and no call reports an error."""
    names = {each.name for each in pools}
    for each, tags in instances(live):
        code = str(dig(each, "StateReason", "Code") or "")
        group = next((one for one in fitting if one.has_instance(tags)), None)
        is_old = (live.seconds_since(parse_time(each.get("LaunchTime"))) or 0) > RECENT_SECONDS
        if is_old or not code.startswith(("Client.InternalError", "Client.InvalidKMSKey")):
            continue
        if group is not None or tags.get(NODE_POOL) in names:
            subject = group.title if group is not None else f"NodePool {tags[NODE_POOL]}"
            shown = (Evidence(f"Instance {each.get('InstanceId')}", "StateReason.Code", code),)
            why = f"{code}, which EC2 reports if a volume's KMS key isn't usable"
            message = f"Instance {each.get('InstanceId')} of {subject} was terminated at its start: {why}"
            yield Cause("E8", subject, message, "likely", shown, _FAULTS["E8"][1])
            return


def _reservation_evidence(reservations: Sequence[Mapping[str, Any]]) -> list[Evidence]:
    return [
        Evidence(
            f"Capacity reservation {each.get('CapacityReservationId')}",
            "State, AvailableInstanceCount",
            f"{each.get('State')}, {each.get('AvailableInstanceCount')}",
        )
        for each in reservations[:3]
    ]


def _reservations(live: Live, fitting: list[Group], pools: list[Object]) -> Iterator[Cause]:
    """E9 from the reservations alone, for pools that use only reserved capacity."""
    every = mappings(live.aws("CapacityReservations"))
    blocks = (each for each in fitting if each.managed.get("capacityType") == "CAPACITY_BLOCK")
    users = [(each.title, each.instance_types) for each in blocks]
    users += [(title(each), ()) for each in pools if capacity_types(each) == ["reserved"]]
    for subject, types in users if every else ():
        own = [each for each in every if not types or each.get("InstanceType") in types]
        if not any(each.get("State") == "active" and each.get("AvailableInstanceCount") for each in own):
            message = f"{subject} uses reserved capacity, and no reservation is active with a free instance"
            shown = tuple(_reservation_evidence(own or every))
            yield Cause("E9", subject, message, "likely", shown, _FAULTS["E9"][1])
            return


def _suspended(group: Group) -> Iterator[Cause]:
    stopped = {str(each.get("ProcessName")) for each in mappings(group.scaling.get("SuspendedProcesses"))}
    if "Launch" in stopped:
        name = f"Auto Scaling group {group.scaling_group}"
        shown = (Evidence(name, "SuspendedProcesses", "Launch"),)
        options = f"--auto-scaling-group-name {quote(group.scaling_group)} --scaling-processes Launch"
        message = f"{name} has its Launch process suspended, so {group.title} gets no instance"
        command = f"aws autoscaling resume-processes {options}"
        yield Cause("E20", group.title, message, "proven", shown, "resume the process", command)


def _full_subnets(live: Live, group: Group) -> Iterator[Cause]:
    """E13 from the subnets alone: every subnet of the group is full."""
    own = [each for each in mappings(live.aws("Subnets")) if each.get("SubnetId") in group.subnets]
    if own and len(own) == len(group.subnets) and all(each.get("AvailableIpAddressCount") == 0 for each in own):
        shown = tuple(Evidence(f"Subnet {each.get('SubnetId')}", "AvailableIpAddressCount", "0") for each in own)
        message = f"{group.title} has no subnet with a free address"
        yield Cause("E13", group.title, message, "likely", shown, _FAULTS["E13"][1])


def _small_quota(live: Live, group: Group) -> Iterator[Cause]:
    """E2 from the quota alone: it is below the vCPUs of one instance."""
    rows = [row for row in map(catalogue().get, group.instance_types) if row is not None and row.vcpus]
    if not rows or group.managed.get("capacityType") == "SPOT":
        return
    codes, vcpus = {_QUOTAS.get(row.quota_family) for row in rows}, min(row.vcpus or 0 for row in rows)
    for each in mappings(live.aws("Quota")):
        value, name, code = each.get("Value"), str(each.get("QuotaName")), str(each.get("QuotaCode"))
        if codes == {code} and isinstance(value, (int, float)) and value < vcpus:
            message = f"Quota {name} is {value:g} vCPUs, and the smallest type of {group.title} has {vcpus}"
            options = f"--service-code ec2 --quota-code {quote(code)} --desired-value {vcpus}"
            command = f"aws service-quotas request-service-quota-increase {options}"
            shown = (Evidence(_QUOTA, name, str(value)),)
            yield Cause("E2", group.title, message, "likely", shown, _FAULTS["E2"][1], command)

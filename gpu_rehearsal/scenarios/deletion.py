"""Failure and Destroy: creations that fail and are rolled back, and the deletion of all stacks. Nothing may be left.

Failure: one custom resource of each handler and each release fails once. The creation is rolled back and repeated.
Destroy: all stacks are deleted while pods of users run, the last stack first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpu_rehearsal.assemblies import Assembly
from gpu_rehearsal.cloudformation.changes import Event
from gpu_rehearsal.cloudformation.template import references
from gpu_rehearsal.cluster.client import Client, Object
from gpu_rehearsal.cluster.control_plane import rbac_uses
from gpu_rehearsal.report import Line, Outcome, Report
from gpu_rehearsal.scenarios.pools import GpuPool, wait_until_none
from gpu_rehearsal.scenarios.scale import run_pool_jobs
from gpu_rehearsal.stage import MANIFEST_TYPE, PREEXISTING, RELEASE_TYPE, Stage

_DESTROY = "Destroy"
# Max seconds until the resources of a stack are gone after its deletion.
_MAX_REMOVAL_SECONDS = 30.0
# Lambda creates the log group of a function without one, and no stack deletes it.
# Source: https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs.html (2026-11)
_FUNCTION_LOGS = "/aws/lambda/"
# How to list each kind of resource: service, operation, list in the response, identifier of a member. Resources that
# cost money are first. A deleted stack leaves none of the others behind either.
_KINDS = (
    ("ec2", "describe_nat_gateways", "NatGateways", "NatGatewayId"),
    ("ec2", "describe_addresses", "Addresses", "AllocationId"),
    ("ec2", "describe_volumes", "Volumes", "VolumeId"),
    ("ec2", "describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointId"),
    ("ec2", "describe_launch_templates", "LaunchTemplates", "LaunchTemplateName"),
    ("ec2", "describe_vpcs", "Vpcs", "VpcId"),
    ("elbv2", "describe_load_balancers", "LoadBalancers", "LoadBalancerArn"),
    ("fsx", "describe_file_systems", "FileSystems", "FileSystemId"),
    ("eks", "list_clusters", "clusters", ""),
    ("autoscaling", "describe_auto_scaling_groups", "AutoScalingGroups", "AutoScalingGroupName"),
    ("sqs", "list_queues", "QueueUrls", ""),
    ("events", "list_rules", "Rules", "Name"),
    ("logs", "describe_log_groups", "logGroups", "logGroupName"),
    ("kms", "list_keys", "Keys", "KeyId"),
    ("s3", "list_buckets", "Buckets", "Name"),
    ("ssm", "describe_parameters", "Parameters", "Name"),
    ("iam", "list_roles", "Roles", "RoleName"),
    ("iam", "list_instance_profiles", "InstanceProfiles", "InstanceProfileName"),
)
_ENDED_STATES = ("terminated", "shutting-down", "deleted", "deleting", "PendingDeletion")
# Managers in managedFields that write objects of a stack.
_DEPLOYERS = ("kubectl", "helm", "karpenter")
# Kubernetes removes these objects itself.
_TRANSIENT_KINDS = ("Event", "Lease")
_PATCH_TYPE = "Custom::AWSCDK-EKS-KubernetesPatch"


def account(stage: Stage) -> dict[str, str]:
    """Return the kind of each existing resource in the account, by identifier, without preexisting roles."""
    found = {}
    for service, operation, listed, name in _KINDS:
        for each in _all_members(stage.aws.client(service), operation, listed):
            identity = str(each[name]) if name else str(each)
            if not _is_ignored(stage, service, each, identity):
                found[identity] = f"{service} {listed}"
    for reservation in _all_members(stage.aws.client("ec2"), "describe_instances", "Reservations"):
        for each in reservation["Instances"]:
            if each["State"]["Name"] not in _ENDED_STATES:
                found[str(each["InstanceId"])] = "ec2 Instances"
    return found


def _all_members(client: Any, operation: str, listed: str) -> list[Any]:
    """Return the members of all pages of a response."""
    if not client.can_paginate(operation):
        return list(getattr(client, operation)().get(listed, ()))
    return [each for page in client.get_paginator(operation).paginate() for each in page.get(listed, ())]


def _is_ignored(stage: Stage, service: str, each: Any, identity: str) -> bool:
    if service == "kms":
        # moto creates AWS' own keys at their first use. They have such an alias.
        aliases = stage.aws.client("kms").list_aliases(KeyId=identity)["Aliases"]
        key = stage.aws.client("kms").describe_key(KeyId=identity)["KeyMetadata"]
        return key["KeyState"] in _ENDED_STATES or any(each["AliasName"].startswith("alias/aws/") for each in aliases)
    return not isinstance(each, str) and (each.get("State") in _ENDED_STATES or each.get("Description") == PREEXISTING)


def objects(client: Client) -> dict[str, bool]:
    """Return the objects that kubectl, helm or Karpenter wrote, and whether ``helm uninstall`` keeps each.

    The key is kind, namespace and name. Objects with an owner are left out, because they are deleted with the owner.
    """
    groups = client.get("/apis")["groups"]
    versions = {f"/apis/{each['groupVersion']}" for group in groups for each in group["versions"]}
    return {name: kept for root in ("/api/v1", *sorted(versions)) for name, kept in _deployed_objects(client, root)}


def _deployed_objects(client: Client, root: str) -> Iterator[tuple[str, bool]]:
    for kind in (client.find(root) or {}).get("resources", ()):
        if "/" in kind["name"] or "list" not in kind["verbs"] or kind["kind"] in _TRANSIENT_KINDS:
            continue
        for each in (client.find(f"{root}/{kind['name']}") or {}).get("items", ()):
            if _is_deployed(each):
                yield _object_name(kind["kind"], each["metadata"]), helm_keeps(kind["kind"], each)


def _object_name(kind: str, metadata: Mapping[str, Any]) -> str:
    namespace = metadata.get("namespace")
    return f"{kind} {namespace + '/' if namespace else ''}{metadata['name']}"


def helm_keeps(kind: str, each: Object) -> bool:
    """Return whether ``helm uninstall`` keeps an object that helm wrote.

    It keeps a namespace that ``--create-namespace`` created, and CRDs in a chart's ``crds/`` directory. It deletes the
    objects that it annotates with the release, unless they have the policy ``keep``.
    Source: https://helm.sh/docs/chart_best_practices/custom_resource_definitions/,
    https://helm.sh/docs/howto/charts_tips_and_tricks/ and helm/helm v3.18 pkg/action/install.go (2026-11)
    """
    annotations = each["metadata"].get("annotations", {})
    outside = kind in ("Namespace", "CustomResourceDefinition") and "meta.helm.sh/release-name" not in annotations
    return "helm" in _writers(each) and (outside or annotations.get("helm.sh/resource-policy") == "keep")


def _writers(each: Object) -> set[str]:
    return {str(field["manager"]).lower() for field in each["metadata"].get("managedFields", ())}


def _is_deployed(each: Object) -> bool:
    return not each["metadata"].get("ownerReferences") and any(name.startswith(_DEPLOYERS) for name in _writers(each))


def destroy(
    stage: Stage, assemblies: Sequence[Assembly], pools: Sequence[GpuPool], before: Mapping[str, str], report: Report
) -> None:
    """Delete all stacks while work is running.

    Args:
        stage: The running programs and simulators.
        assemblies: The stacks, in the order of their creation.
        pools: The GPU pools, on each of which a pod runs.
        before: Resources in the account before the stacks.
        report: Gets the lines.
    """
    report.add(run_pool_jobs(stage, pools, _DESTROY, prefix="last"))
    kept: dict[str, str] = {}
    for assembly in reversed(assemblies):
        stack = stage.stacks[assembly.stack]
        # As the last update left them.
        deployed = {
            name: {"Type": each.resource.type, "Properties": each.properties} for name, each in stack.resources.items()
        }
        events = stack.delete()
        kept |= retained_resources(events, deployed)
        report.add(_deletion_lines(assembly.stack, events))
    report.add(nothing_left(stage, _DESTROY, "", before, kept))


def retained_resources(events: Sequence[Event], resources: Mapping[str, Any]) -> dict[str, str]:
    """Return the resources that a deletion keeps because of a DeletionPolicy: type by identifier.

    A retained resource of kubectl keeps its objects, each with kind, namespace and name as identifier, unless another
    resource deletes the same object.

    Args:
        events: Events of the deletion.
        resources: Type and properties of the resources, by logical id, as in a template.
    """
    kept = [each for each in events if each.status == "DELETE_SKIPPED"]
    gone = [each for each in events if each.status == "DELETE_COMPLETE" and each.type == MANIFEST_TYPE]
    deleted = {name for each in gone for name in _kubectl_objects(resources[each.logical_id])}
    applied = {name: each.type for each in kept for name in _kubectl_objects(resources[each.logical_id])}
    kept_objects = {name: type for name, type in applied.items() if name not in deleted}
    return {each.physical_id: each.type for each in kept} | kept_objects


def _kubectl_objects(resource: Mapping[str, Any]) -> Iterator[str]:
    """Yield the objects that a resource of the kubectl provider writes, e.g. ``Namespace default``."""
    properties = resource.get("Properties", {})
    if resource["Type"] == _PATCH_TYPE:
        kind, _, name = str(properties["ResourceName"]).partition("/")
        # Objects of other kinds are reported as left.
        if kind == "namespace":
            yield f"Namespace {name}"
    if resource["Type"] == MANIFEST_TYPE:
        manifest = properties["Manifest"]
        # Objects in another function are reported as left too.
        parts = manifest.get("Fn::Join", ("", ["[]"]))[1] if isinstance(manifest, dict) else [manifest]
        # A value of the deployment isn't part of a kind or name, and may have no quotes.
        text = "".join(each if isinstance(each, str) else "0" for each in parts)
        yield from (_object_name(each["kind"], each["metadata"]) for each in json.loads(text))


def nothing_left(
    stage: Stage, scenario: str, who: str, before: Mapping[str, str], kept: Mapping[str, str]
) -> Iterator[Line]:
    """Report the resources that are left in the account, and the objects that are left in the API server.

    Args:
        scenario: Name of the scenario of the lines.
        who: Prefix of each promise.
        before: Resources that existed before, or that earlier deletions kept.
        kept: Resources that this deletion keeps, type by identifier.
    """

    def in_account() -> list[str]:
        found = account(stage).items()
        return sorted(f"{kind} {each}" for each, kind in found if each not in before and not _may_stay(each, kept))

    def in_api_server() -> list[str]:
        found = objects(stage.client).items()
        return sorted(each for each, by_helm in found if not by_helm and each not in before and each not in kept)

    yield _no_remainder(scenario, f"{who}nothing is left in the account", in_account)
    written = f"{who}nothing that kubectl, helm or Karpenter wrote is left in the API server"
    line = _no_remainder(scenario, written, in_api_server)
    by_helm = ", ".join(sorted(each for each, keeps in objects(stage.client).items() if keeps))
    held = line.outcome is Outcome.HELD and by_helm
    yield replace(line, text=f"helm uninstall keeps {by_helm}") if held else line


def _no_remainder(scenario: str, promise: str, remainder: Callable[[], list[str]]) -> Line:
    gone = wait_until_none(remainder, _MAX_REMOVAL_SECONDS)
    outcome = Outcome.HELD if gone else Outcome.FAILED
    return Line(scenario=scenario, promise=promise, outcome=outcome, text="" if gone else ", ".join(remainder()))


def _may_stay(identity: str, kept: Mapping[str, str]) -> bool:
    return identity.startswith(_FUNCTION_LOGS) or identity in kept


def _deletion_lines(stack: str, events: Sequence[Event]) -> Iterator[Line]:
    failed = [each for each in events if each.failed]
    gone = sum(each.status == "DELETE_COMPLETE" for each in events)
    if not failed:
        yield Line(scenario=_DESTROY, promise=f"{stack}: {gone} resources are deleted", outcome=Outcome.HELD)
    for each in sorted(failed, key=lambda each: each.logical_id):
        promise = f"{stack}: {each.type} {each.logical_id} is deleted"
        yield Line(scenario=_DESTROY, promise=promise, outcome=Outcome.FAILED, text=each.reason)
    if kept := sorted(each.type for each in events if each.status == "DELETE_SKIPPED"):
        text = ", ".join(kept)
        yield Line(
            scenario=_DESTROY,
            promise=f"{stack}: resources that their DeletionPolicy keeps are kept",
            outcome=Outcome.HELD,
            text=text,
        )


FAILURE = "Failure"
# CloudFormation's reason, instead of the handler's response. The handler did its work, which must be rolled back.
_FAILURE_REASON = "Received response status [FAILED] from custom resource. Message returned: failed by the rehearsal"


def resources_to_fail(template: Mapping[str, Any]) -> dict[str, str]:
    """Return the type of one custom resource of each handler and release, by logical id, in the order of dependencies.

    It is the handler's resource with most dependencies, so that most resources are rolled back.
    """
    resources = template["Resources"]
    deep = {name: len(_dependencies(name, resources)) for name in resources}
    found: dict[str, str] = {}
    for name in sorted(resources, key=lambda each: (deep[each], each)):
        properties = resources[name].get("Properties", {})
        if "ServiceToken" in properties:
            release = name if resources[name]["Type"] == RELEASE_TYPE else ""
            found[json.dumps([properties["ServiceToken"], release])] = name
    return {name: str(resources[name]["Type"]) for name in sorted(found.values(), key=lambda each: (deep[each], each))}


class Failures:
    """Failing creations before the successful one.

    Args:
        before: Resources in the account before the stacks.
        max_failures: Number of failing creations for each stack, the last ones; `None` for all.

    Attributes:
        calls: Number of calls of the API server until the rollback of the last failing creation.
    """

    def __init__(self, stage: Stage, before: Mapping[str, str], *, max_failures: int | None) -> None:
        self._stage, self._most = stage, max_failures
        self._before, self.calls = before, 0
        self._failed: dict[str, list[str]] = {}

    def create_with_failures(self, assembly: Assembly) -> Iterator[Line]:
        """Create a stack with each failure, and report on each rollback."""
        names = resources_to_fail(assembly.template)
        known = dict(self._before)
        for name in list(names)[len(names) - self._most if self._most is not None else 0 :]:
            promise = f"{assembly.stack}: {names[name]} {name} fails: "
            events = self._stage.deploy(assembly, fails={name: _FAILURE_REASON})
            if why := _why_not_failed(name, events):
                yield Line(scenario=FAILURE, promise=f"{promise}its creation is reached", outcome=why[0], text=why[1])
                if why[0] is Outcome.FAILED:
                    return
                known |= retained_resources(self._stage.stacks[assembly.stack].delete(), assembly.template["Resources"])
                continue
            yield _rolled_back(promise, self._stage.stacks[assembly.stack].status, events)
            kept = retained_resources(events, assembly.template["Resources"])
            known |= kept
            yield from nothing_left(self._stage, FAILURE, promise, known, kept)
            self._failed.setdefault(assembly.stack, []).append(name)
            self.calls = len(list(rbac_uses(self._stage.plane.audit)))

    def check_recovery(self) -> Iterator[Line]:
        """Report whether the failed resources exist after the last creation."""
        for stack, names in self._failed.items():
            missing = sorted(set(names) - self._stage.stacks[stack].resources.keys())
            yield Line(
                scenario=FAILURE,
                promise=f"{stack}: failed resources are created by the next creation",
                outcome=Outcome.FAILED if missing else Outcome.HELD,
                text=f"not created: {', '.join(missing)}" if missing else "",
            )


def _why_not_failed(name: str, events: Sequence[Event]) -> tuple[Outcome, str] | None:
    """Return why a resource didn't fail as expected: it isn't simulated, or another one failed before."""
    forward = [each for each in events if each.phase == "create"]
    if any(each.logical_id == name and each.failed and _FAILURE_REASON in each.reason for each in forward):
        return None
    skipped = next((each for each in forward if each.logical_id == name and each.status == "NOT_PLAYED"), None)
    if skipped:
        return Outcome.NOT_PLAYED, skipped.reason
    return Outcome.FAILED, "; ".join(f"{each.logical_id}: {each.reason}" for each in events if each.failed)


def _rolled_back(promise: str, status: str, events: Sequence[Event]) -> Line:
    back = [each for each in events if each.phase == "rollback"]
    failed = [f"{each.logical_id}: {each.reason}" for each in back if each.failed]
    gone = sum(each.status == "DELETE_COMPLETE" for each in back)
    held = status == "ROLLBACK_COMPLETE"
    kept = ", ".join(sorted(each.type for each in back if each.status == "DELETE_SKIPPED"))
    text = f"{gone} resources are deleted" + (f"; its DeletionPolicy keeps {kept}" if kept else "")
    return Line(
        scenario=FAILURE,
        promise=f"{promise}rollback completes",
        outcome=Outcome.HELD if held else Outcome.FAILED,
        text=text if held else "; ".join((status, *failed)),
    )


def _dependencies(name: str, resources: Mapping[str, Any], seen: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return all direct and indirect dependencies of a resource."""
    found = resources[name]
    depends = found.get("DependsOn", [])
    direct = {*([depends] if isinstance(depends, str) else depends), *references(found.get("Properties", {}))}
    for each in (direct & resources.keys()) - seen:
        seen = _dependencies(each, resources, seen | {each})
    return seen

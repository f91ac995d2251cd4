"""Destroy: with pods of users still running, every stack is deleted, the last one first, and nothing of it is left."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpu_rehearsal.assemblies import Assembly
from gpu_rehearsal.players.cloudformation.events import Event
from gpu_rehearsal.players.cluster.client import Client, Object
from gpu_rehearsal.pools import GpuPool
from gpu_rehearsal.report import Line, Outcome, Report
from gpu_rehearsal.scenes.scale import run_pool_jobs
from gpu_rehearsal.scenes.witnesses import wait_until_none
from gpu_rehearsal.stage import OF_NO_STACK, Stage

SCENE = "Destroy"
# How long what a stack had may take to go after its deletion.
GOES_SECONDS = 30.0
# Lambda creates the group of a function that names none, and no stack deletes it.
# Source: https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs.html (2026-11)
_LOGS_OF_FUNCTIONS = "/aws/lambda/"
# What the simulated AWS keeps of each kind: service, operation, list in the answer, identifier of a member. All that
# costs money comes first, then what a deleted stack doesn't leave behind either.
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
_ENDED = ("terminated", "shutting-down", "deleted", "deleting", "PendingDeletion")
# Who writes objects of a stack, or for them: as managedFields name it.
_DEPLOYERS = ("kubectl", "helm", "karpenter")
# They go by themselves.
_PASSING = ("Event", "Lease")


def account(stage: Stage) -> dict[str, str]:
    """Return the kind of each resource in the account that isn't gone or going, by its identifier.

    Without the roles that exist although no stack creates them.
    """
    found = {}
    for service, operation, listed, name in _KINDS:
        for each in _all(stage.aws.client(service), operation, listed):
            identity = str(each[name]) if name else str(each)
            if not _doesnt_count(stage, service, each, identity):
                found[identity] = f"{service} {listed}"
    for reservation in _all(stage.aws.client("ec2"), "describe_instances", "Reservations"):
        for each in reservation["Instances"]:
            if each["State"]["Name"] not in _ENDED:
                found[str(each["InstanceId"])] = "ec2 Instances"
    return found


def _all(client: Any, operation: str, listed: str) -> list[Any]:
    """Return the members of every page of an answer."""
    if not client.can_paginate(operation):
        return list(getattr(client, operation)().get(listed, ()))
    return [each for page in client.get_paginator(operation).paginate() for each in page.get(listed, ())]


def _doesnt_count(stage: Stage, service: str, each: Any, identity: str) -> bool:
    if service == "kms":
        # AWS' own keys, which moto makes when somebody asks for them, have such an alias.
        aliases = stage.aws.client("kms").list_aliases(KeyId=identity)["Aliases"]
        key = stage.aws.client("kms").describe_key(KeyId=identity)["KeyMetadata"]
        return key["KeyState"] in _ENDED or any(each["AliasName"].startswith("alias/aws/") for each in aliases)
    return not isinstance(each, str) and (each.get("State") in _ENDED or each.get("Description") == OF_NO_STACK)


def objects(client: Client) -> dict[str, bool]:
    """Return whether ``helm uninstall`` keeps an object, for each that kubectl, helm or Karpenter wrote.

    What the control plane, EKS and users wrote isn't of a stack, and what another object owns goes with it. The key is
    the kind, the namespace and the name.
    """
    groups = client.get("/apis")["groups"]
    versions = {f"/apis/{each['groupVersion']}" for group in groups for each in group["versions"]}
    return {name: kept for root in ("/api/v1", *sorted(versions)) for name, kept in _deployed_objects(client, root)}


def _deployed_objects(client: Client, root: str) -> Iterator[tuple[str, bool]]:
    for kind in (client.find(root) or {}).get("resources", ()):
        if "/" in kind["name"] or "list" not in kind["verbs"] or kind["kind"] in _PASSING:
            continue
        for each in (client.find(f"{root}/{kind['name']}") or {}).get("items", ()):
            if _is_deployed(each):
                yield _object_name(kind["kind"], each["metadata"]), helm_keeps(kind["kind"], each)


def _object_name(kind: str, metadata: Mapping[str, Any]) -> str:
    namespace = metadata.get("namespace")
    return f"{kind} {namespace + '/' if namespace else ''}{metadata['name']}"


def helm_keeps(kind: str, each: Object) -> bool:
    """Return whether ``helm uninstall`` keeps an object that helm wrote.

    It keeps a namespace that ``--create-namespace`` created, and definitions in a chart's folder ``crds``. Helm
    annotates the objects of a release, which it deletes.
    Source: https://helm.sh/docs/chart_best_practices/custom_resource_definitions/ and helm/helm v3.18
    pkg/action/install.go (2026-11)
    """
    metadata = each["metadata"]
    writers = {str(field["manager"]).lower() for field in metadata.get("managedFields", ())}
    of_release = "meta.helm.sh/release-name" in metadata.get("annotations", {})
    return kind in ("Namespace", "CustomResourceDefinition") and "helm" in writers and not of_release


def _is_deployed(each: Object) -> bool:
    writers = [str(field["manager"]).lower() for field in each["metadata"].get("managedFields", ())]
    return not each["metadata"].get("ownerReferences") and any(name.startswith(_DEPLOYERS) for name in writers)


def destroy(
    stage: Stage, assemblies: Sequence[Assembly], pools: Sequence[GpuPool], before: Mapping[str, str], report: Report
) -> None:
    """Delete all stacks while work is running.

    Args:
        assemblies: The stacks, in the order of their creation.
        pools: The GPU pools, on each of which a pod runs.
        before: What was in the account before the stacks.
    """
    report.add(run_pool_jobs(stage, pools, SCENE, prefix="last"))
    kept: dict[str, str] = {}
    for assembly in reversed(assemblies):
        events = stage.stacks[assembly.stack].delete()
        kept |= retained_resources(events, assembly.template)
        report.add(_deletion_lines(assembly.stack, events))
    report.add(nothing_left(stage, SCENE, "", before, kept))


def retained_resources(events: Sequence[Event], template: Mapping[str, Any]) -> dict[str, str]:
    """Return what a deletion keeps since the template has a DeletionPolicy: its type, by its identifier.

    A retained resource of kubectl keeps its objects, each with kind, namespace and name as identifier.
    """
    kept = [each for each in events if each.status == "DELETE_SKIPPED"]
    resources = ((each.type, template["Resources"][each.logical_id]) for each in kept)
    applied = {name: kind for kind, resource in resources for name in _kubectl_objects(resource)}
    return {each.physical_id: each.type for each in kept} | applied


def _kubectl_objects(resource: Mapping[str, Any]) -> Iterator[str]:
    """Yield the objects that a resource of the kubectl provider writes, e.g. ``Namespace default``."""
    properties = resource.get("Properties", {})
    if resource["Type"] == "Custom::AWSCDK-EKS-KubernetesPatch":
        kind, _, name = str(properties["ResourceName"]).partition("/")
        yield f"{kind.title()} {name}"
    if resource["Type"] == "Custom::AWSCDK-EKS-KubernetesResource":
        manifest = properties["Manifest"]
        # Values that only deployment knows aren't in kinds and names.
        parts = manifest["Fn::Join"][1] if isinstance(manifest, dict) else [manifest]
        text = "".join(each if isinstance(each, str) else "" for each in parts)
        yield from (_object_name(each["kind"], each["metadata"]) for each in json.loads(text))


def nothing_left(
    stage: Stage, scene: str, who: str, before: Mapping[str, str], kept: Mapping[str, str]
) -> Iterator[Line]:
    """Report on what is left in the account and in the API server.

    Args:
        scene: Name of the scene of the lines.
        who: What each promise begins with.
        before: What was in the account before.
        kept: What is kept on purpose, type by identifier.
    """

    def in_account() -> list[str]:
        found = account(stage).items()
        return sorted(f"{kind} {each}" for each, kind in found if each not in before and not _may_stay(each, kept))

    def in_api_server() -> list[str]:
        return sorted(each for each, by_helm in objects(stage.client).items() if not by_helm and each not in kept)

    for promise, look in (
        (f"{who}nothing is left in the account", in_account),
        (f"{who}nothing that kubectl, helm or Karpenter wrote is left in the API server", in_api_server),
    ):
        gone = wait_until_none(look, GOES_SECONDS)
        left = "" if gone else ", ".join(look())
        if gone and look is in_api_server:
            by_helm = sorted(each for each, keeps in objects(stage.client).items() if keeps)
            left = f"helm uninstall keeps {', '.join(by_helm)}" if by_helm else ""
        yield Line(scene=scene, promise=promise, outcome=Outcome.HELD if gone else Outcome.FAILED, text=left)


def _may_stay(identity: str, kept: Mapping[str, str]) -> bool:
    return identity.startswith(_LOGS_OF_FUNCTIONS) or identity in kept


def _deletion_lines(stack: str, events: Sequence[Event]) -> Iterator[Line]:
    failed = [each for each in events if each.failed]
    gone = sum(each.status == "DELETE_COMPLETE" for each in events)
    if not failed:
        yield Line(scene=SCENE, promise=f"{stack}: {gone} resources are deleted", outcome=Outcome.HELD)
    for each in sorted(failed, key=lambda each: each.logical_id):
        promise = f"{stack}: {each.type} {each.logical_id} is deleted"
        yield Line(scene=SCENE, promise=promise, outcome=Outcome.FAILED, text=each.reason)
    if kept := sorted(each.type for each in events if each.status == "DELETE_SKIPPED"):
        text = ", ".join(kept)
        yield Line(
            scene=SCENE, promise=f"{stack}: what its DeletionPolicy keeps is kept", outcome=Outcome.HELD, text=text
        )

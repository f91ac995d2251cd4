"""Two versions of an app, and the steps of CloudFormation from one template to the other."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks

from tests.clusters import imported_cluster, imported_vpc
from tests.conftest import FLAGS
from tests.templates import CHART, MANIFEST, Resources, depends_on, manifests_of, resources_of, text_of

Define = Callable[[cdk.Stack, eks.ICluster], object]
Identity = tuple[str, ...]

# Properties that tell a resource of a cluster from the others of its type. EKS accepts one of each.
_IDENTITIES = {
    CHART: ("ClusterName", "Namespace", "Release"),
    "AWS::EKS::AccessEntry": ("ClusterName", "PrincipalArn"),
    "AWS::EKS::Addon": ("ClusterName", "AddonName"),
    "AWS::EKS::PodIdentityAssociation": ("ClusterName", "Namespace", "ServiceAccount"),
}
# Fields that the API server never changes, as far as objects of this library have them.
# Source: pkg/apis/{core,storage,resource}/validation of kubernetes 1.36
_IMMUTABLE = {
    "Job": ("template", "completions", "completionMode"),
    "PersistentVolume": ("csi", "nodeAffinity", "volumeMode"),
    "PersistentVolumeClaim": ("accessModes", "storageClassName", "volumeName", "resources"),
    "ResourceClaim": ("devices",),
    "ResourceClaimTemplate": ("spec",),
}


def version(define: Define) -> Resources:
    """Return the template of an app on an imported cluster called demo."""
    app = cdk.App(context=FLAGS, analytics_reporting=False)
    stack = cdk.Stack(app, "Test", env=cdk.Environment(account="111122223333", region="us-east-1"))
    define(stack, imported_cluster(stack, imported_vpc(stack)))
    return resources_of(stack)


def identities(resources: Resources) -> dict[Identity, str]:
    """Return the logical id of everything that a cluster has once."""
    return {identity: id for id, each in resources.items() for identity in _identities(each)}


def _identities(resource: dict[str, Any]) -> Iterator[Identity]:
    type, properties = resource["Type"], resource["Properties"]
    if type == MANIFEST:
        for each in manifests_of({"Id": resource}):
            group = each["apiVersion"].rpartition("/")[0]
            metadata = each["metadata"]
            yield (
                type,
                text_of(properties["ClusterName"]),
                group,
                each["kind"],
                metadata.get("namespace", ""),
                metadata["name"],
            )
    elif type in _IDENTITIES:
        yield type, *(text_of(properties[each]) for each in _IDENTITIES[type])


def faults(before: Resources, after: Resources) -> list[str]:
    """Return what goes wrong between two versions: it is deleted by the cleanup, left behind or rejected."""
    was, now = identities(before), identities(after)
    moved = [f"{was[each]} moves to {now[each]}" for each in was.keys() & now.keys() if was[each] != now[each]]
    lost = [f"{each} is left behind" for each, id in was.items() if each not in now and id in after]
    types = [f"{id} changes its type" for id in before.keys() & after.keys() if before[id]["Type"] != after[id]["Type"]]
    fixed = [f"{id} cannot change" for id in before.keys() & after.keys() if _fixed(before[id]) != _fixed(after[id])]
    return moved + lost + types + fixed


def _fixed(resource: dict[str, Any]) -> object:
    if resource["Type"] != MANIFEST:
        return None
    [applied] = manifests_of({"Id": resource})
    fields = _IMMUTABLE.get(applied["kind"], ())
    if applied["kind"] == "StorageClass":
        return {key: each for key, each in applied.items() if key not in ("metadata", "allowVolumeExpansion")}
    return {each: applied["spec"].get(each) for each in fields}


def kinds(before: Resources, after: Resources) -> tuple[list[str], list[str]]:
    """Return kind and name of the objects that the second version creates, and of those that it deletes."""
    was, now = identities(before), identities(after)
    created = sorted("/".join(each[3:]) for each in now.keys() - was.keys() if each[0] == MANIFEST)
    gone = [each for each in was.keys() - now.keys() if each[0] == MANIFEST]
    deleted = [each for each in gone if before[was[each]]["DeletionPolicy"] == "Delete"]
    return created, sorted("/".join(each[3:]) for each in deleted)


def in_order(resources: Resources) -> list[str]:
    """Return the ids of applied objects, each after what it depends on."""
    ids = [id for id, each in resources.items() if each["Type"] == MANIFEST]
    return sorted(ids, key=lambda id: (len(depends_on(resources, id)), id))


def manifest_text(resource: dict[str, Any]) -> str:
    """Return the manifest of a custom resource as the handler gives it to kubectl."""
    return "".join(json.dumps(each) for each in manifests_of({"Id": resource}))

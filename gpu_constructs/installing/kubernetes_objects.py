"""Objects of Kubernetes as custom resources of CloudFormation, one for each object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from gpu_constructs.installing.claims import object_key
from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.installing.logical_ids import set_logical_id


def kubernetes_objects(
    scope: Construct,
    id: str,
    *,
    cluster: ClusterRef,
    manifests: Sequence[Mapping[str, Any]],
    removal_policy: cdk.RemovalPolicy | None = None,
) -> Construct:
    """Apply each object by a resource of its own, in their order, and delete them in the opposite order.

    The CDK's handler applies the manifest of a resource with ``kubectl apply``, and deletes it with ``kubectl delete``.
    What leaves a manifest is deleted only by ``--prune``, which covers 16 kinds, in the namespaces of the manifest
    alone. So a resource contains one object, and its logical id is the object's identity. Then ``overwrite`` is safe
    within a stack, and a creation that failed halfway can be repeated.

    Sources: kubectl-handler/apply/__init__.py of aws-cdk-lib 2.275, pkg/util/prune/prune.go of kubectl 0.36.3.

    Returns:
        What depends on it depends on every object.
    """
    if len(manifests) == 1:
        return _kubernetes_object(scope, id, cluster, manifests[0], removal_policy)
    parent = Construct(scope, id)
    before: Construct | None = None
    kinds: Counter[str] = Counter()
    for each in manifests:
        kinds[each["kind"]] += 1
        number = kinds[each["kind"]]
        child = each["kind"] if number == 1 else f"{each['kind']}{number}"
        before = _kubernetes_object(parent, child, cluster, each, removal_policy, before=before)
    return parent


def _kubernetes_object(
    scope: Construct,
    id: str,
    cluster: ClusterRef,
    manifest: Mapping[str, Any],
    removal_policy: cdk.RemovalPolicy | None,
    *,
    before: Construct | None = None,
) -> Construct:
    made = eks.KubernetesManifest(
        scope,
        id,
        cluster=cluster.cluster,
        manifest=[dict(manifest)],
        prune=False,
        overwrite=True,
        removal_policy=removal_policy,
    )
    group, kind, namespace, name = object_key(manifest)
    node = made.node
    set_logical_id(node.default_child, cluster, kind, name, group, namespace)
    if before is not None:
        node.add_dependency(before)
    return made

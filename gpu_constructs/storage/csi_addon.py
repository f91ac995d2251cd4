"""An EKS add-on that brings a driver for storage, and the role of that driver."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.installing import eks_resources
from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.installing.logical_ids import set_logical_id
from gpu_constructs.installing.pod_identity import keep_role, trust
from gpu_constructs.installing.shared import CsiDriver
from gpu_facts.kubernetes import KUBE_SYSTEM


def refuse_unless_version(who: object, version: object) -> None:
    """Refuse what is neither the version of an add-on nor absent.

    Raises:
        TypeError: ``version`` is no text.
    """
    if version is not None and (not isinstance(version, str) or not version):
        raise TypeError(f"{who}: version must be one such as 'v1.63.1-eksbuild.1', got {version!r}")


def csi_addon(
    scope: Construct,
    *,
    cluster: ClusterRef,
    name: str,
    service_account: str,
    version: str | None,
    managed_policy_arns: Sequence[str] = (),
    values: Mapping[str, Any] | None = None,
) -> CsiDriver:
    """Install the add-on of a driver into a cluster, and tell who asks for the driver that it is there."""
    role = iam.CfnRole(
        scope,
        "Role",
        assume_role_policy_document=trust(
            scope, cluster_name=cluster.name_token, namespace=KUBE_SYSTEM, service_account=service_account
        ),
        managed_policy_arns=list(managed_policy_arns) or None,
    )
    keep_role(role, cluster, namespace=KUBE_SYSTEM, service_account=service_account)
    addon = eks_resources.CfnAddon(
        scope,
        "Resource",
        addon_name=name,
        addon_version=version,
        cluster_name=cluster.name_token,
        configuration_values=json.dumps(values) if values else None,
        pod_identity_associations=[{"roleArn": role.attr_arn, "serviceAccount": service_account}],
        # The template is what counts, not what somebody edited in the cluster.
        resolve_conflicts="OVERWRITE",
    )
    set_logical_id(addon, cluster, "Addon", name)
    cluster.software.addons[name] = values or {}
    # EKS refuses associations without the agent of Pod Identity, and the pods need nodes.
    cluster.wait_for_foundation(cast("Construct", addon))
    driver = CsiDriver(addon=addon, role=role)
    cluster.csi_drivers[name] = driver
    return driver

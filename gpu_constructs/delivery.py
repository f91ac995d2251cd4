"""The one place that turns manifests and charts into resources of a cluster.

Constructs hand over what should exist in Kubernetes and do not know how it gets there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from gpu_constructs.cluster_ref import ClusterRef
from gpu_constructs.versions import Chart

if TYPE_CHECKING:
    import cdk8s

# The kubectl handler's Lambda stops after 15 minutes. A helm that waits as long leaves its release locked in
# "pending-upgrade" (aws/aws-cdk#22257).
HELM_TIMEOUT_MINUTES = 12


def apply_manifests(
    scope: Construct, id: str, *, cluster: ClusterRef, manifests: Sequence[Mapping[str, Any]]
) -> eks.KubernetesManifest:
    """Apply objects that live and die together. Custom resources go one to a call: kubectl never prunes them."""
    return eks.KubernetesManifest(scope, id, cluster=cluster.cluster, manifest=list(manifests))


def apply_chart(scope: Construct, id: str, *, cluster: ClusterRef, chart: cdk8s.Chart) -> eks.KubernetesManifest:
    """Apply the objects of a cdk8s chart."""
    return apply_manifests(scope, id, cluster=cluster, manifests=chart.to_json())


def install_helm_chart(
    scope: Construct,
    id: str,
    *,
    cluster: ClusterRef,
    chart: Chart,
    namespace: str,
    values: Mapping[str, Any] | None = None,
    create_namespace: bool = False,
) -> eks.HelmChart:
    """Install a chart under its own name and wait until it runs.

    The release's name is fixed, so that moving the construct does not install it a second time.
    """
    return eks.HelmChart(
        scope,
        id,
        cluster=cluster.cluster,
        chart=chart.name,
        release=chart.name,
        repository=chart.repository,
        version=chart.version,
        namespace=namespace,
        create_namespace=create_namespace,
        values=values,
        wait=True,
        timeout=cdk.Duration.minutes(HELM_TIMEOUT_MINUTES),
    )

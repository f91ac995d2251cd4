"""People whom a cluster lets in, and the internet, which it may let in as well."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.cluster.node_roles import trusted_services
from gpu_constructs.preflight.cluster.references import of_cluster, referred, setting
from gpu_constructs.preflight.model.cluster import Cluster
from gpu_constructs.preflight.reading.cloudformation import Resource
from gpu_constructs.preflight.reading.unknown import items, mapping
from gpu_constructs.preflight.rules.rule import Problem, rule

_ENTRY = "AWS::EKS::AccessEntry"
_ANYWHERE = ("0.0.0.0/0", "::/0")


@rule("GPU292", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html")
def cluster_that_lets_nobody_in(case: Case) -> Iterator[Problem]:
    """Cluster that lets nobody in.

    Whoever made it gets Unauthorized from kubectl, and has to add an access entry by hand before anything can be seen.

    Fix: Add an AWS::EKS::AccessEntry for the role you sign in with, with this library by GpuCluster(admins=...).
    """
    cluster = case.cluster
    mode = setting(cluster, "AccessConfig", "AuthenticationMode")
    creator = setting(cluster, "AccessConfig", "BootstrapClusterCreatorAdminPermissions")
    if cluster.resource is None or mode != "API" or creator is not False:
        return
    if not any(_is_for_people(each, cluster) for each in of_cluster(cluster, _ENTRY)):
        text = f"cluster {cluster.name}: no access entry is for a person, and who creates it gets none"
        yield Problem(cluster.resource, text)


def _is_for_people(entry: Resource, cluster: Cluster) -> bool:
    """Whether somebody may sign in by it: nodes have types of their own, and a role of the template is a service's."""
    if entry.properties.get("Type", "STANDARD") != "STANDARD":
        return False
    role = referred(entry.properties.get("PrincipalArn"), cluster.resources)
    return role is None or not trusted_services(role)


@rule("GPU293", "note", source="https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html")
def api_endpoint_that_the_internet_reaches(case: Case) -> Iterator[Problem]:
    """API endpoint that the internet reaches.

    Credentials are asked for, but from everywhere; a leaked one or a fault of the API server is enough.

    Fix: Name your networks in ResourcesVpcConfig.PublicAccessCidrs, with this library by public_access_cidrs.
    """
    cluster = case.cluster
    endpoint = mapping(setting(cluster, "ResourcesVpcConfig"))
    if cluster.resource is None or not endpoint or endpoint.get("EndpointPublicAccess") not in (None, True):
        return
    blocks = endpoint.get("PublicAccessCidrs", list(_ANYWHERE[:1]))
    open_to = [each for each in items(blocks) if each in _ANYWHERE]
    if open_to:
        yield Problem(cluster.resource, f"cluster {cluster.name}: from {', '.join(open_to)}")

"""People whom a cluster lets in, and the internet, which it may let in as well."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_preflight.case import Case
from gpu_preflight.cluster.node_roles import is_of_services
from gpu_preflight.cluster.references import is_named, referred, setting
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.unknown import Unknown, is_true, items, mapping
from gpu_preflight.rules.rule import Problem, rule

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
    if cluster.resource is None or mode != "API" or str(creator).lower() != "false":
        return
    entries = [_lets_people_in(each, cluster) for each in cluster.resources_of(_ENTRY)]
    if Answer.YES not in entries:
        text = f"cluster {cluster.name}: no access entry is for a person, and who creates it gets none"
        yield Problem(cluster.resource, text, unknown=Answer.UNKNOWN in entries)


def _lets_people_in(entry: Resource, cluster: Cluster) -> Answer:
    """Say whether somebody may sign in by it: nodes have types of their own, and some roles are of services alone."""
    name, kind = entry.properties.get("ClusterName"), entry.properties.get("Type", "STANDARD")
    here = is_named(name, cluster)
    elsewhere = not isinstance(name, Unknown) or referred(name, cluster.resources) is not None
    role = referred(entry.properties.get("PrincipalArn"), cluster.resources)
    if (not here and elsewhere) or (not isinstance(kind, Unknown) and kind != "STANDARD"):
        return Answer.NO
    if role is not None and is_of_services(role):
        return Answer.NO
    return Answer.YES if here and kind == "STANDARD" and not entry.conditional else Answer.UNKNOWN


@rule("GPU293", "note", source="https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html")
def api_endpoint_that_the_internet_reaches(case: Case) -> Iterator[Problem]:
    """API endpoint that the internet reaches.

    Credentials are asked for, but from everywhere; a leaked one or a fault of the API server is enough.

    Fix: Name your networks in ResourcesVpcConfig.PublicAccessCidrs, with this library by public_access_cidrs.
    """
    cluster = case.cluster
    public = setting(cluster, "ResourcesVpcConfig", "EndpointPublicAccess")
    if cluster.resource is None or not mapping(setting(cluster, "ResourcesVpcConfig")):
        return
    if public is not None and not is_true(public):
        return
    named = setting(cluster, "ResourcesVpcConfig", "PublicAccessCidrs")
    blocks = list(_ANYWHERE[:1]) if named is None else named
    open_to = [each for each in items(blocks) if each in _ANYWHERE]
    if open_to:
        yield Problem(cluster.resource, f"cluster {cluster.name}: from {', '.join(open_to)}")

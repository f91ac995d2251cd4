"""EKS.

Source of every type: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/AWS_EKS.html, and of every
call: https://docs.aws.amazon.com/eks/latest/APIReference/API_Operations.html (2026-11)
"""

from __future__ import annotations

from typing import Any

from gpu_constructs.rehearsal.players.cloudformation.creation import AS_NAMED, Creation, Made

CREATING = frozenset({"CREATING"})


def cluster(creation: Creation) -> Made:
    """Make a cluster, and wait until its API server answers."""
    name = creation.named("Name", 100)
    logging = {"logging": _logging(said)} if (said := creation.take("Logging")) else {}
    creation.call("eks", "CreateCluster", AS_NAMED, name=name, **logging)
    creation.initiated(name)

    def look() -> dict[str, Any]:
        found: dict[str, Any] = creation.ask("eks", "DescribeCluster", name=name)["cluster"]
        return found

    creation.wait(lambda: str(look()["status"]), until="ACTIVE", while_=CREATING)
    found = look()
    return Made(
        ref=name,
        attributes={
            "Arn": found["arn"],
            "CertificateAuthorityData": found["certificateAuthority"]["data"],
            "ClusterSecurityGroupId": found["resourcesVpcConfig"].get("clusterSecurityGroupId", ""),
            "Endpoint": found["endpoint"],
            "OpenIdConnectIssuerUrl": found.get("identity", {}).get("oidc", {}).get("issuer", ""),
        },
    )


def node_group(creation: Creation) -> Made:
    """Make a managed node group, and wait until its nodes are there."""
    of_cluster = creation.properties["ClusterName"]
    name = creation.named("NodegroupName", 63)
    found = creation.call("eks", "CreateNodegroup", nodegroupName=name)["nodegroup"]
    creation.initiated(f"{of_cluster}/{name}")

    def look() -> str:
        answer = creation.ask("eks", "DescribeNodegroup", clusterName=of_cluster, nodegroupName=name)
        return str(answer["nodegroup"]["status"])

    creation.wait(look, until="ACTIVE", while_=CREATING)
    return Made(
        ref=f"{of_cluster}/{name}",
        attributes={
            "Arn": found["nodegroupArn"],
            "ClusterName": of_cluster,
            "Id": f"{of_cluster}/{name}",
            "NodegroupName": name,
        },
    )


def addon(creation: Creation) -> Made:
    """Install an add-on, and wait until its workloads run."""
    of_cluster, name = creation.properties["ClusterName"], creation.properties["AddonName"]
    found = creation.call("eks", "CreateAddon")["addon"]
    creation.initiated(f"{of_cluster}|{name}")

    def look() -> str:
        answer = creation.ask("eks", "DescribeAddon", clusterName=of_cluster, addonName=name)
        return str(answer["addon"]["status"])

    # One whose pods do not run yet is degraded, and may become active.
    creation.wait(look, until="ACTIVE", while_=CREATING | {"DEGRADED"})
    return Made(ref=f"{of_cluster}|{name}", attributes={"Arn": found["addonArn"]})


def access_entry(creation: Creation) -> Made:
    """Let a role into a cluster, then give it access policies."""
    policies = creation.take("AccessPolicies", [])
    who = {name: creation.properties[name] for name in ("ClusterName", "PrincipalArn")}
    found = creation.call("eks", "CreateAccessEntry")["accessEntry"]
    for policy in policies:
        creation.ask("eks", "AssociateAccessPolicy", **creation.shaped("eks", "AssociateAccessPolicy", who | policy))
    return Made(
        ref=f"{who['PrincipalArn']}|{who['ClusterName']}", attributes={"AccessEntryArn": found["accessEntryArn"]}
    )


def pod_identity_association(creation: Creation) -> Made:
    """Give a service account a role."""
    found = creation.call("eks", "CreatePodIdentityAssociation")["association"]
    return Made(
        ref=found["associationArn"],
        attributes={"AssociationArn": found["associationArn"], "AssociationId": found["associationId"]},
    )


def _logging(said: dict[str, Any]) -> dict[str, Any]:
    """Return what is logged: the API has one list of types, CloudFormation an object around each."""
    types = [each["Type"] for each in said["ClusterLogging"].get("EnabledTypes", [])]
    return {"clusterLogging": [{"types": types, "enabled": True}] if types else []}

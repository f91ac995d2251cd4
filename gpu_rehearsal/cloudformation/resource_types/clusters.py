"""EKS.

Source of every type: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/AWS_EKS.html, and of every
call: https://docs.aws.amazon.com/eks/latest/APIReference/API_Operations.html (2026-11)
"""

from __future__ import annotations

from typing import Any

from gpu_rehearsal.cloudformation.creation import AS_NAMED, Creation, Made

CREATING = frozenset({"CREATING"})
_NO_LOGGING: dict[str, Any] = {"ClusterLogging": {}}


def cluster(creation: Creation) -> Made:
    """Make a cluster, and wait until its API server answers."""
    name = creation.named("Name", 100)
    logging = {"logging": _logging(said)} if (said := creation.take("Logging")) else {}
    creation.call("eks", "CreateCluster", AS_NAMED, name=name, **logging)
    creation.physical_id = name

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
    creation.physical_id = f"{of_cluster}/{name}"

    def look() -> str:
        answer = creation.ask("eks", "DescribeNodegroup", clusterName=of_cluster, nodegroupName=name)["nodegroup"]
        if answer["status"] == "CREATE_FAILED":
            issues = "; ".join(f"{each['code']}: {each['message']}" for each in answer["health"]["issues"])
            creation.fail(f"Nodegroup {name} failed to stabilize: {issues}")
        return str(answer["status"])

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


def delete_node_group(creation: Creation) -> None:
    """Delete a managed node group; one whose creation failed has no attributes."""
    cluster, _, name = creation.physical_id.rpartition("/")
    creation.ask("eks", "DeleteNodegroup", clusterName=cluster, nodegroupName=name)


def addon(creation: Creation) -> Made:
    """Install an add-on, and wait until its workloads run."""
    of_cluster, name = creation.properties["ClusterName"], creation.properties["AddonName"]
    found = creation.call("eks", "CreateAddon")["addon"]
    creation.physical_id = f"{of_cluster}|{name}"

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
    creation.physical_id = f"{who['PrincipalArn']}|{who['ClusterName']}"
    for policy in policies:
        creation.ask("eks", "AssociateAccessPolicy", **creation.shaped("eks", "AssociateAccessPolicy", who | policy))
    return Made(ref=creation.physical_id, attributes={"AccessEntryArn": found["accessEntryArn"]})


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


# Each takes a call of its own.
_SETTINGS = {"AccessConfig", "DeletionProtection", "ResourcesVpcConfig", "UpgradePolicy", "ZonalShiftConfig"}


def update_cluster(creation: Creation) -> Made:
    """Change the version of a cluster, its logging, access and network: one call of EKS for each, one after another.

    Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateClusterConfig.html (2026-11)
    """
    name = creation.physical_id
    if (version := creation.take("Version")) is not None:
        creation.ask("eks", "UpdateClusterVersion", name=name, version=str(version))
    if "Logging" in creation.properties:
        creation.ask("eks", "UpdateClusterConfig", name=name, logging=_logging(creation.take("Logging", _NO_LOGGING)))
    for key in sorted(_SETTINGS & creation.properties.keys()):
        parameters = creation.shaped("eks", "UpdateClusterConfig", {key: creation.take(key)})
        creation.ask("eks", "UpdateClusterConfig", name=name, **parameters)
    return creation.retag("eks", creation.value("Arn"))


def update_node_group(creation: Creation) -> Made:
    """Change a node group by one call of EKS; CloudFormation rejects a change that needs several.

    Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-eks-nodegroup.html,
    https://github.com/aws/aws-cdk/issues/16644, https://github.com/eksctl-io/eksctl/issues/2565 (message), read 2026-11
    """
    group = {"clusterName": creation.value("ClusterName"), "nodegroupName": creation.value("NodegroupName")}
    versions = {"Version", "ReleaseVersion"} & creation.properties.keys()
    launch = {"LaunchTemplate"} & creation.properties.keys()
    others = creation.properties.keys() - {"Version", "ReleaseVersion", "LaunchTemplate"}
    if len([each for each in (versions, launch, others) if each]) > 1 and (versions or launch):
        creation.fail("Version and ReleaseVersion updates cannot be combined with other updates")
    if versions or launch:
        said = {name: creation.take(name) for name in sorted(versions | launch)}
        given = {name: each for name, each in said.items() if each is not None}
        creation.ask(
            "eks", "UpdateNodegroupVersion", **group, **creation.shaped("eks", "UpdateNodegroupVersion", given)
        )
    sizes = {key: creation.take(key) for key in ("ScalingConfig", "UpdateConfig", "NodeRepairConfig")}
    given = {name: each for name, each in sizes.items() if each is not None}
    labels, taints = _labels(creation), _taints(creation)
    if given or labels or taints:
        shaped = creation.shaped("eks", "UpdateNodegroupConfig", given)
        creation.ask("eks", "UpdateNodegroupConfig", **group, **shaped, **labels, **taints)
    creation.take("ForceUpdateEnabled", False)
    return creation.retag("eks", creation.value("Arn"))


def update_addon(creation: Creation) -> Made:
    """Change version, configuration and roles of an add-on."""
    made = creation.retag("eks", creation.value("Arn"))
    if creation.properties:
        creation.properties = {key: each for key, each in creation.declared.items() if key != "Tags"}
        creation.call("eks", "UpdateAddon")
    return made


def update_access_entry(creation: Creation) -> Made:
    """Change the groups, the user name and the access policies of a role."""
    who = {"clusterName": creation.value("ClusterName"), "principalArn": creation.value("PrincipalArn")}
    added, removed = creation.items("AccessPolicies")
    for policy in removed:
        creation.ask("eks", "DisassociateAccessPolicy", **who, policyArn=policy["PolicyArn"])
    for policy in added:
        creation.ask("eks", "AssociateAccessPolicy", **who, **creation.shaped("eks", "AssociateAccessPolicy", policy))
    if {"KubernetesGroups", "Username"} & creation.properties.keys():
        new = {"KubernetesGroups": creation.take("KubernetesGroups", creation.declared.get("KubernetesGroups", []))}
        if "Username" in creation.properties:
            new["Username"] = creation.take("Username")
        creation.ask("eks", "UpdateAccessEntry", **who, **creation.shaped("eks", "UpdateAccessEntry", new))
    return creation.retag("eks", creation.value("AccessEntryArn"))


def update_pod_identity_association(creation: Creation) -> Made:
    """Give a service account another role."""
    made = creation.retag("eks", creation.value("AssociationArn"))
    if creation.properties:
        which = {"clusterName": creation.value("ClusterName"), "associationId": creation.value("AssociationId")}
        creation.call("eks", "UpdatePodIdentityAssociation", **which)
    return made


def _labels(creation: Creation) -> dict[str, Any]:
    if "Labels" not in creation.properties:
        return {}
    new, old = creation.take("Labels", {}), creation.old.properties.get("Labels", {})
    return {"labels": {"addOrUpdateLabels": new, "removeLabels": sorted(old.keys() - new.keys())}}


def _taints(creation: Creation) -> dict[str, Any]:
    if "Taints" not in creation.properties:
        return {}
    added, removed = creation.items("Taints")
    shaped = creation.shaped(
        "eks", "UpdateNodegroupConfig", {"Taints": {"AddOrUpdateTaints": added, "RemoveTaints": removed}}
    )
    return dict(shaped)

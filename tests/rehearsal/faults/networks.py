"""Security groups, routes, subnets and the endpoint of the API server."""

from __future__ import annotations

from tests.rehearsal.faults.apps import P5
from tests.rehearsal.faults.assembly import CloudAssembly
from tests.rehearsal.faults.fault import fault

_GROUPS = "https://docs.aws.amazon.com/eks/latest/userguide/sec-group-reqs.html"
_NODE_CLASSES = "https://karpenter.sh/docs/concepts/nodeclasses/"


def _control_plane_group(app: CloudAssembly) -> dict[str, list[str]]:
    id = app.find("AWS::EC2::SecurityGroup", GroupDescription="EKS Control Plane Security Group")
    return {"Fn::GetAtt": [id, "GroupId"]}


@fault(
    consequence="No rule allows traffic between the node and the API server, so Karpenter's nodes never join.",
    cause=(r"EC2NodeClass|security.?group", r"API server|cluster.?security.?group|join|reach|control.?plane"),
    changes="EC2NodeClass",
    source=_GROUPS,
)
def class_with_control_plane_group(app: CloudAssembly) -> None:
    """Karpenter's nodes have only the additional security group of the control plane."""
    id = app.object_id("EC2NodeClass")
    manifest = app.resources[id]["Properties"]["Manifest"]
    parts = manifest["Fn::Join"][1]
    [place] = [n for n, each in enumerate(parts) if "ClusterSecurityGroupId" in str(each)]
    parts[place] = _control_plane_group(app)


@fault(
    consequence="No rule allows traffic between the node and the API server. The group fails with NodeCreationFailure.",
    cause=(r"launch.?template|security.?group|p5", r"API server|cluster.?security.?group|join|reach|control.?plane"),
    changes="AWS::EC2::LaunchTemplate",
    source=_GROUPS,
)
def template_with_control_plane_group(app: CloudAssembly) -> None:
    """The launch template of the p5 group has only the additional security group of the control plane."""
    app.launch_template(P5)["SecurityGroupIds"] = [_control_plane_group(app)]


@fault(
    consequence="Nodes reach neither the API server's public names nor ECR, EC2 and STS, so none joins.",
    cause=(r"route|NAT gateway|internet|leads out", r"subnet"),
    changes="AWS::EC2::Route",
    source="https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html",
)
def private_subnets_without_route(app: CloudAssembly) -> None:
    """The private subnets have no route to the NAT gateway."""
    app.remove(*[id for id, each in app.of_type("AWS::EC2::Route").items() if "NatGatewayId" in each["Properties"]])


@fault(
    consequence="The nodes reach no AWS API and no registry, so the group fails with NodeCreationFailure.",
    cause=(r"p5|Nodegroup", r"subnet", r"route|NAT gateway|internet|leads out"),
    changes="AWS::EKS::Nodegroup",
    source="https://docs.aws.amazon.com/eks/latest/userguide/private-clusters.html",
)
def p5_in_isolated_subnets(app: CloudAssembly) -> None:
    """The p5 group is in the subnets of the control plane, which have no route out of the VPC."""
    app.node_group(P5)["Subnets"] = [{"Ref": each} for each in app.subnets("ControlPlane")]


@fault(
    consequence="The EC2NodeClass never gets ready and Karpenter launches no node.",
    cause=(r"EC2NodeClass|g6", r"subnet"),
    changes="EC2NodeClass",
    source=_NODE_CLASSES,
)
def class_selects_no_subnet(app: CloudAssembly) -> None:
    """The EC2NodeClass selects subnets by a tag that no subnet has."""
    wanted = [{"tags": {"karpenter.sh/discovery": "mine"}}]
    app.edit("EC2NodeClass", lambda it: it["spec"].update(subnetSelectorTerms=wanted))


@fault(
    consequence="The EC2NodeClass never gets ready and Karpenter launches no node.",
    cause=(r"EC2NodeClass|g6", r"security.?group"),
    changes="EC2NodeClass",
    source=_NODE_CLASSES,
)
def class_selects_no_security_group(app: CloudAssembly) -> None:
    """The EC2NodeClass selects security groups by a tag that no security group has."""
    wanted = [{"tags": {"karpenter.sh/discovery": "mine"}}]
    app.edit("EC2NodeClass", lambda it: it["spec"].update(securityGroupSelectorTerms=wanted))


@fault(
    consequence="Nodes and the kubectl handler come from the NAT gateway's address, which the endpoint doesn't allow.",
    cause=(r"endpoint|API server|PublicAccessCidrs", r"203\.0\.113"),
    changes="AWS::EKS::Cluster",
    source="https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html",
)
def endpoint_for_an_office_only(app: CloudAssembly) -> None:
    """The public endpoint allows one office's addresses only, and there is no private endpoint."""
    [cluster] = app.of_type("AWS::EKS::Cluster").values()
    cluster["Properties"]["ResourcesVpcConfig"].update(
        EndpointPrivateAccess=False, EndpointPublicAccess=True, PublicAccessCidrs=["203.0.113.0/24"]
    )

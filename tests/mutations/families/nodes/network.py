"""The VPC, its endpoints, EFA, and reservations."""

from __future__ import annotations

from tests.mutations.families.nodes.launch_templates import data
from tests.mutations.families.nodes.managed_groups import gpu_groups
from tests.mutations.operator import MEASURED, operator
from tests.mutations.written import Written, drop, look, put, replace

GUIDE = "https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html"
EFA = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html"


@operator(MEASURED + "a managed group in a public subnet that gives no public addresses")
def public_subnet_without_addresses(given: Written) -> bool:
    """The GPU group is in the public subnet, which gives no addresses."""
    public = [name for name, each in given.named_resources("AWS::EC2::Subnet") if each.get("MapPublicIpOnLaunch")]
    for name, each in given.named_resources("AWS::EC2::Subnet"):
        if name in public:
            drop(each, "MapPublicIpOnLaunch")
            return any(put(group, "Subnets", to=[{"Ref": name}]) for group in gpu_groups(given))
    return False


@operator(MEASURED + "twenty nodes in 22 addresses")
def small_subnets(given: Written) -> bool:
    """The subnets are of 16 addresses, for more nodes."""
    subnets = [each for each in given.resources("AWS::EC2::Subnet") if not each.get("MapPublicIpOnLaunch")]
    if not gpu_groups(given):
        return False
    changed = [replace(each, "CidrBlock", to=f"10.0.{index}.0/28") for index, each in enumerate(subnets, 16)]
    return any(changed) and any(put(each, "ScalingConfig", "MaxSize", to=40) for each in gpu_groups(given))


@operator(GUIDE)
def no_route_out(given: Written) -> bool:
    """The route to the NAT gateway is missing."""
    for template in given.templates:
        for name, each in list(template["Resources"].items()):
            if look(each, "Properties", "NatGatewayId"):
                del template["Resources"][name]
                return True
    return False


@operator(GUIDE)
def cluster_in_one_zone(given: Written) -> bool:
    """Both subnets of the cluster are in one zone."""
    if not any(
        "Ref" in str(look(each, "ResourcesVpcConfig", "SubnetIds")) for each in given.resources("AWS::EKS::Cluster")
    ):
        return False
    return any([put(each, "AvailabilityZone", to="us-west-2a") for each in given.resources("AWS::EC2::Subnet")])


@operator(GUIDE)
def endpoint_for_somebody_else(given: Written) -> bool:
    """The API endpoint is public only, and for the addresses of an office."""
    return any(
        put(each, "ResourcesVpcConfig", "EndpointPrivateAccess", to=False)
        for each in given.resources("AWS::EKS::Cluster")
        if look(each, "ResourcesVpcConfig", "PublicAccessCidrs")
    )


@operator(EFA)
def efa_group_without_its_own_rule(given: Written) -> bool:
    """The security group of EFA lets nothing in from itself."""
    return given.remove("AWS::EC2::SecurityGroupIngress")


@operator("https://github.com/eksctl-io/eksctl/issues/8685")
def efa_on_a_type_without(given: Written) -> bool:
    """The instance type takes no EFA interface."""
    return any("NetworkInterfaces" in each and replace(each, "InstanceType", to="g6.2xlarge") for each in data(given))


@operator("https://github.com/terraform-aws-modules/terraform-aws-eks/issues/3533")
def public_address_with_several_interfaces(given: Written) -> bool:
    """The first of several interfaces requests a public address."""
    several = [each for each in data(given) if len(look(each, "NetworkInterfaces") or []) > 1]
    return any(put(each, "NetworkInterfaces", 0, "AssociatePublicIpAddress", to=True) for each in several)


@operator(EFA)
def efa_type_misspelt(given: Written) -> bool:
    """The type of the interface is written efa_only."""
    return any(replace(each, "NetworkInterfaces", 1, "InterfaceType", to="efa_only") for each in data(given))


@operator(EFA)
def efa_plugin_without_toleration(given: Written) -> bool:
    """The device plugin of EFA does not tolerate the taint."""
    found = [each for each in given.objects("DaemonSet") if "efa" in each["metadata"]["name"]]
    return any(drop(each, "spec", "template", "spec", "tolerations") for each in found)


@operator("https://github.com/terraform-aws-modules/terraform-aws-eks/issues/3661")
def placement_group_beside_a_reservation(given: Written) -> bool:
    """A placement group is added that the reservation isn't in."""
    for template in given.templates:
        for each in data(given):
            if "CapacityReservationSpecification" in each:
                template["Resources"]["Placement"] = {
                    "Type": "AWS::EC2::PlacementGroup",
                    "Properties": {"Strategy": "cluster"},
                }
                return put(each, "Placement", to={"GroupName": {"Ref": "Placement"}})
    return False


@operator("https://github.com/eksctl-io/eksctl/issues/8155")
def capacity_block_without_market_type(given: Written) -> bool:
    """The Capacity Block lacks its market type."""
    return any(drop(each, "InstanceMarketOptions") for each in data(given))


@operator("https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html")
def reservation_id_of_something_else(given: Written) -> bool:
    """The reservation is named by its ARN instead of its id."""
    arn = "arn:aws:ec2:us-west-2:111122223333:capacity-reservation/cr-02168da1478b509e0"
    way = ("CapacityReservationSpecification", "CapacityReservationTarget", "CapacityReservationId")
    return any(replace(each, *way, to=arn) for each in data(given))


@operator(MEASURED + "a reservation that has ended")
def reservation_that_has_ended(given: Written) -> bool:
    """The reservation of the template has ended."""
    for template in given.templates:
        for each in data(given):
            target = look(each, "CapacityReservationSpecification", "CapacityReservationTarget")
            if target and "InstanceType" in each:
                template["Resources"]["Reservation"] = {
                    "Type": "AWS::EC2::CapacityReservation",
                    "Properties": {
                        "AvailabilityZone": "us-west-2a",
                        "InstanceCount": 2,
                        "InstancePlatform": "Linux/UNIX",
                        "InstanceType": each["InstanceType"],
                        "EndDateType": "limited",
                        "EndDate": "2025-03-01T00:00:00Z",
                    },
                }
                return put(target, "CapacityReservationId", to={"Ref": "Reservation"})
    return False

"""Launch templates and the boot configuration of nodes."""

from __future__ import annotations

from typing import Any

from tests.mutations.operator import MEASURED, operator
from tests.mutations.written import Written, drop, look, put, replace, swap

TEMPLATE = "AWS::EC2::LaunchTemplate"
API = "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_RequestLaunchTemplateData.html"
BOTTLEROCKET = "https://bottlerocket.dev/en/os/1.64.x/api/settings/"
NODEADM = "https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/"


def data(given: Written) -> list[Any]:
    """The data of launch templates."""
    return [each for each in (look(one, "LaunchTemplateData") for one in given.resources(TEMPLATE)) if each]


def told(given: Written, old: str, new: str) -> bool:
    """Replace a part of the user data, be it a text or a text to substitute in."""
    return any(
        swap(each, "UserData", "Fn::Base64", old=old, new=new)
        or swap(each, "UserData", "Fn::Base64", "Fn::Sub", old=old, new=new)
        for each in data(given)
    )


@operator(API)
def disk_of_20_gib(given: Written) -> bool:
    """The disk keeps the 20 GiB it had without CUDA images, and no other disk holds images."""
    return any(
        replace(each, "BlockDeviceMappings", 0, "Ebs", "VolumeSize", to=20)
        for each in data(given)
        if "RAID0" not in str(each) and len(look(each, "BlockDeviceMappings") or []) == 1
    )


@operator(MEASURED + "hop limit out of its range")
def hop_limit_650(given: Written) -> bool:
    """The hop limit of the metadata service is 650."""
    return any(put(each, "MetadataOptions", "HttpPutResponseHopLimit", to=650) for each in data(given))


@operator(API)
def volume_type_misspelt(given: Written) -> bool:
    """The volume type is written GP3."""
    return any(replace(each, "BlockDeviceMappings", 0, "Ebs", "VolumeType", to="gp-3") for each in data(given))


@operator(MEASURED + "unknown key of a network interface")
def unknown_key_of_an_interface(given: Written) -> bool:
    """The network card of an interface has the field name that Terraform has for it."""
    return any(
        drop(each, "NetworkInterfaces", 1, "NetworkCardIndex")
        and put(each, "NetworkInterfaces", 1, "NetworkCard", to=1)
        for each in data(given)
    )


@operator(NODEADM)
def node_config_of_another_kind(given: Written) -> bool:
    """The configuration of the node is spelt NodeConfiguration."""
    return told(given, "kind: NodeConfig", "kind: NodeConfiguration")


@operator(API)
def storage_strategy_misspelt(given: Written) -> bool:
    """The strategy for local disks is spelt in small letters."""
    return told(given, "strategy: RAID0", "strategy: raid-0")


@operator("https://github.com/awslabs/amazon-eks-ami/issues/1885")
def bootstrap_script_on_al2023(given: Written) -> bool:
    """The user data calls the bootstrap script that AL2023 does not have."""
    script = "#!/bin/bash\n/etc/eks/bootstrap.sh demo --kubelet-extra-args '--node-labels=team=vision'\n"
    return any(
        "NodeConfig" in str(each.get("UserData")) and put(each, "UserData", to={"Fn::Base64": script})
        for each in data(given)
    )


@operator(BOTTLEROCKET)
def toml_that_does_not_parse(given: Written) -> bool:
    """A value of Bottlerocket's settings lacks its closing quote."""
    return told(given, '"team" = "vision"', '"team" = "vision')


@operator(BOTTLEROCKET)
def setting_of_bottlerocket_misspelt(given: Written) -> bool:
    """A section of Bottlerocket's settings is misspelt, which keeps the node from booting."""
    return told(given, "[settings.kubelet-device-plugins.nvidia]", "[settings.kubelet-device-plugin.nvidia]")


@operator(BOTTLEROCKET)
def bottlerocket_plugin_switched_off(given: Written) -> bool:
    """Bottlerocket's own device plugin is off, and nothing takes its place."""
    return told(given, 'device-sharing-strategy = "none"', "enabled = false")


@operator(API)
def metadata_service_off(given: Written) -> bool:
    """The metadata service is switched off."""
    return any(put(each, "MetadataOptions", "HttpEndpoint", to="disabled") for each in data(given))


@operator("https://github.com/terraform-aws-modules/terraform-aws-eks/issues/2441")
def image_in_template_and_group(given: Written) -> bool:
    """The template names an image and the group an image type."""
    return any("ImageId" not in each and put(each, "ImageId", to="ami-0123456789abcdef0") for each in data(given))


@operator("https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html")
def instance_profile_in_the_template(given: Written) -> bool:
    """The template of a managed group names an instance profile."""
    return any("ImageId" not in each and put(each, "IamInstanceProfile", to={"Name": "nodes"}) for each in data(given))

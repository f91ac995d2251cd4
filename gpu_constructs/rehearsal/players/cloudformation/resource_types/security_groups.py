"""Security groups of EC2 and their rules.

Source of every type: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/AWS_EC2.html (2026-11)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_constructs.rehearsal.players.cloudformation.creation import Creation, Made
from gpu_constructs.rehearsal.players.cloudformation.shaping import Shaping

# Where a rule of CloudFormation names one source, the API has a list of them, each with the description.
_SOURCES: Mapping[str, tuple[str, str]] = {
    "CidrIp": ("IpRanges", "CidrIp"),
    "CidrIpv6": ("Ipv6Ranges", "CidrIpv6"),
    "DestinationPrefixListId": ("PrefixListIds", "PrefixListId"),
    "DestinationSecurityGroupId": ("UserIdGroupPairs", "GroupId"),
    "SourcePrefixListId": ("PrefixListIds", "PrefixListId"),
    "SourceSecurityGroupId": ("UserIdGroupPairs", "GroupId"),
}
_PORTS = ("FromPort", "ToPort")


def security_group(creation: Creation) -> Made:
    """Make a security group; rules for egress that are said replace the one that lets everything out."""
    ingress, egress = creation.take("SecurityGroupIngress"), creation.take("SecurityGroupEgress")
    name, vpc_id = creation.named("GroupName", 255), creation.properties["VpcId"]
    shaping = Shaping(renamed={"GroupDescription": "Description"}, tagged="security-group")
    group = creation.call("ec2", "CreateSecurityGroup", shaping, GroupName=name)["GroupId"]
    if egress:
        everything = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
        creation.ask("ec2", "RevokeSecurityGroupEgress", GroupId=group, IpPermissions=[everything])
        _authorize(creation, "AuthorizeSecurityGroupEgress", group, egress)
    if ingress:
        _authorize(creation, "AuthorizeSecurityGroupIngress", group, ingress)
    return Made(ref=group, attributes={"GroupId": group, "Id": group, "VpcId": vpc_id})


def security_group_ingress(creation: Creation) -> Made:
    """Let somebody into a security group."""
    group = creation.take("GroupId")
    rule, creation.properties = creation.properties, {}
    answer = _authorize(creation, "AuthorizeSecurityGroupIngress", group, [rule])
    made = answer["SecurityGroupRules"][0]["SecurityGroupRuleId"]
    return Made(ref=made, attributes={"Id": made})


def _authorize(creation: Creation, operation: str, group: str, rules: list[Mapping[str, Any]]) -> dict[str, Any]:
    return creation.ask("ec2", operation, GroupId=group, IpPermissions=[permission(rule) for rule in rules])


def permission(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rule in the API's form.

    Raises:
        ValueError: It has a property that is not played.
    """
    if others := sorted(set(rule) - {"Description", "IpProtocol", *_PORTS, *_SOURCES}):
        raise ValueError(f"rule of a security group: properties must be among those played, got {others}")
    described = {"Description": rule["Description"]} if "Description" in rule else {}
    ports = {name: int(rule[name]) for name in _PORTS if name in rule}
    sources = {many: [{one: rule[name], **described}] for name, (many, one) in _SOURCES.items() if name in rule}
    return {"IpProtocol": str(rule["IpProtocol"]), **ports, **sources}

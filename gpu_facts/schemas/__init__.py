"""Schemas of AWS resources and Kubernetes objects without descriptions, from `schemas.zip`.

A schema is JSON Schema with the keywords that `tools/schemas/reduce.py` keeps. `make schemas` writes the file. Its
index has source, version and day of each.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from gpu_facts.light import dataclass, read_package_data

Schema = Mapping[str, Any]
_INDEX = "index.json"
# Types whose schemas aren't in `schemas.zip`, and properties that a schema there leaves out.
# Source: createOnlyProperties of CloudFormation's schemas of 2026-10-20
_CREATED_WITH: Mapping[str, tuple[str, ...]] = {
    "AWS::CDK::Metadata": (),
    "AWS::CloudWatch::Alarm": ("AlarmName",),
    "AWS::EC2::EgressOnlyInternetGateway": ("VpcId",),
    "AWS::EC2::SubnetCidrBlock": ("Ipv6CidrBlock", "Ipv6IpamPoolId", "Ipv6NetmaskLength", "SubnetId"),
    "AWS::EC2::VPCCidrBlock": (
        *("AmazonProvidedIpv6CidrBlock", "CidrBlock", "Ipv4IpamPoolId", "Ipv4NetmaskLength", "Ipv6CidrBlock"),
        *("Ipv6CidrBlockNetworkBorderGroup", "Ipv6IpamPoolId", "Ipv6NetmaskLength", "Ipv6Pool", "VpcId"),
    ),
    # Its schema leaves out nested properties.
    # Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-fsx-filesystem-lustreconfiguration.html
    "AWS::FSx::FileSystem": ("LustreConfiguration/DeploymentType",),
    "AWS::Lambda::Function": ("FunctionName", "PackageType", "TenancyConfig"),
    "AWS::Lambda::LayerVersion": (
        *("CompatibleArchitectures", "CompatibleRuntimes", "Content", "Description", "LayerName", "LicenseInfo"),
    ),
    "AWS::Lambda::Permission": (
        *("Action", "EventSourceToken", "FunctionName", "FunctionUrlAuthType", "InvokedViaFunctionUrl", "Principal"),
        *("PrincipalOrgID", "SourceAccount", "SourceArn"),
    ),
    "AWS::S3::Bucket": ("BucketName", "BucketNamePrefix", "BucketNamespace"),
    "AWS::S3::BucketPolicy": ("Bucket",),
    "AWS::SNS::Topic": ("FifoTopic", "TopicName"),
}
# Publishers whose schemas are read in another way than schemas of controllers.
KUBERNETES, EKSCTL, NODEADM = "Kubernetes", "eksctl", "nodeadm"


@dataclass(frozen=True, kw_only=True, slots=True)
class SchemaSource:
    """A publisher whose schemas were read.

    Attributes:
        name: Name of the publisher.
        version: Version of the schemas.
        source: Place to look for the next version.
        as_of: Day on which they were read, ISO 8601.
        charts: Version of each chart that installs it, by name.
        deprecated: Kinds that are served with a warning.
        rules: Whether the schemas contain CEL rules.
        kinds: Resource types, ``apiVersion/kind`` of objects, or ``chart/<name>``.
    """

    name: str
    version: str
    source: str
    as_of: str
    charts: Mapping[str, str]
    deprecated: tuple[str, ...]
    rules: bool
    kinds: tuple[str, ...]


@cache
def _archive() -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(read_package_data(__name__, "schemas.zip")))


@cache
def sources() -> tuple[SchemaSource, ...]:
    """Return every source."""
    index = json.loads(_archive().read(_INDEX))
    lists = ("kinds", "deprecated")
    return tuple(SchemaSource(**{**each, **{name: tuple(each[name]) for name in lists}}) for each in index)


@cache
def _sources_by_kind() -> Mapping[str, SchemaSource]:
    return MappingProxyType({kind: each for each in sources() for kind in each.kinds})


def find_source(kind: str) -> SchemaSource | None:
    """Return the publisher of the schema of a kind, or ``None`` if it is unknown."""
    return _sources_by_kind().get(kind)


def find_schema(kind: str) -> Schema | None:
    """Return the schema of a kind, with the names in `SchemaSource.kinds`, or ``None`` if it is unknown."""
    source = find_source(kind)
    return _schemas(source.name)[kind] if source else None


def replacement_properties(kind: str) -> tuple[str, ...]:
    """Return the properties of a resource type whose change replaces the resource, with slashes, or none if unknown."""
    return (*(find_schema(kind) or {}).get("createOnly", ()), *_CREATED_WITH.get(kind, ()))


def has_replacement_properties(kind: str) -> bool:
    """Whether the properties that replace a resource of this type are known."""
    return find_schema(kind) is not None or kind in _CREATED_WITH


@cache
def _schemas(name: str) -> Mapping[str, Schema]:
    """Read the schemas of a source: first lines with parts that later lines refer to, then the kinds."""
    parts: list[Any] = []

    def linked(value: dict[str, Any]) -> Any:
        return parts[value["$ref"]] if value.keys() == {"$ref"} else value

    for line in _archive().read(name).decode().splitlines():
        parts.append(json.loads(line, object_hook=linked))
    return MappingProxyType(parts[-1])

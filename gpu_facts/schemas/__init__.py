"""What services take: schemas of resources and objects without their prose, from `schemas.zip`.

A schema is JSON Schema in the words that `tools/schemas/reduce.py` keeps. `make schemas` writes the file; its index
names source, version and day of each.
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
# Of types whose schemas aren't in `schemas.zip`, and what a schema there leaves out.
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
# Whose schemas are read in another way than those of controllers.
KUBERNETES, EKSCTL, NODEADM = "Kubernetes", "eksctl", "nodeadm"


@dataclass(frozen=True, kw_only=True, slots=True)
class SchemaSource:
    """Whose schemas were read.

    Attributes:
        name: What people call the publisher.
        version: Version of what was read.
        source: Where the next one is seen.
        as_of: Day it was read, ISO 8601.
        charts: Version of each chart that installs it, by name.
        deprecated: Those of the kinds that are served with a warning.
        rules: Whether rules in CEL stand in the schemas.
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
    """Return whose schema of a kind is known, ``None`` where none is."""
    return _sources_by_kind().get(kind)


def find_schema(kind: str) -> Schema | None:
    """Return the schema of a kind, as `SchemaSource.kinds` names it, ``None`` where it is not known."""
    source = find_source(kind)
    return _schemas(source.name)[kind] if source else None


def replacement_properties(kind: str) -> tuple[str, ...]:
    """Return the properties of a resource type whose change makes another resource, with slashes; none if unknown."""
    return (*(find_schema(kind) or {}).get("createOnly", ()), *_CREATED_WITH.get(kind, ()))


def has_replacement_properties(kind: str) -> bool:
    """Whether the properties that replace a resource of this type are known."""
    return find_schema(kind) is not None or kind in _CREATED_WITH


@cache
def _schemas(name: str) -> Mapping[str, Schema]:
    """Read the schemas of a source: lines of parts that later ones refer to, then the kinds."""
    parts: list[Any] = []

    def linked(value: dict[str, Any]) -> Any:
        return parts[value["$ref"]] if value.keys() == {"$ref"} else value

    for line in _archive().read(name).decode().splitlines():
        parts.append(json.loads(line, object_hook=linked))
    return MappingProxyType(parts[-1])

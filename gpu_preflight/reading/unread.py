"""Parts of a template that CloudFormation makes at deployment, out of what no input holds.

Sources: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/template-macros.html,
https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-cfn-nested-stacks.html (2026-11)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_preflight.reading.cloudformation import Resource, Template
from gpu_preflight.reading.objects import Origin, Unread
from gpu_preflight.reading.unknown import items, mapping

# They change only what preflight does not judge, or what it resolves itself.
_KNOWN_TRANSFORMS = (
    "AWS::LanguageExtensions",
    "AWS::SecretsManager-2020-07-23",
    "AWS::SecretsManager-2024-09-16",
    "AWS::Serverless-2016-10-31",
    "AWS::CodeDeployBlueGreen",
)
_STACK = "AWS::CloudFormation::Stack"
_STACKS = (_STACK, "AWS::CloudFormation::StackSet", "AWS::ServiceCatalog::CloudFormationProvisionedProduct")
# Nested stacks of the CDK that hold the Lambda functions behind its clusters and manifests, and nothing of a cluster.
# Source: aws-cdk-lib 2.275 aws-eks/lib/cluster-resource-provider.ts, aws-eks/lib/kubectl-provider.ts
_PROVIDERS = ("awscdkawseksClusterResourceProviderNestedStack", "awscdkawseksKubectlProviderNestedStack")
_LATER = "cannot be read before deployment"


def unread(template: Template) -> Iterator[Unread]:
    """Yield what of a template only its deployment tells, with the reason."""
    for name in _transforms(template.body.get("Transform")):
        yield Unread(
            Origin(template.file, f"{template.name}/Transform"), f"what macro {name} makes of the template {_LATER}"
        )
    resources = mapping(template.body.get("Resources"))
    for logical_id in resources:
        if logical_id.startswith("Fn::ForEach::"):
            yield Unread(Origin(template.file, logical_id), f"what it makes {_LATER}")
    for place, name in _included(resources):
        yield Unread(Origin(template.file, f"{template.name}/{place}"), f"what transform {name} puts there {_LATER}")
    for resource in template.resources():
        if why := _of_resource(resource, template):
            yield Unread(resource.origin, why)


def _transforms(written: Any) -> list[str]:
    listed = written if isinstance(written, list) else [] if written is None else [written]
    names = [str(each.get("Name")) if isinstance(each, dict) else str(each) for each in listed]
    return [each for each in names if each not in _KNOWN_TRANSFORMS]


def _included(resources: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each part of a template that a transform replaces or adds to, and the transform's name."""
    left: list[tuple[str, Any]] = [("Resources", resources)]
    while left:
        place, value = left.pop()
        if isinstance(value, dict):
            if "Fn::Transform" in value:
                yield place, str(mapping(value["Fn::Transform"]).get("Name"))
            top = place == "Resources"
            left += [(str(key) if top else place, each) for key, each in value.items() if key != "Fn::Transform"]
        else:
            left += [(place, each) for each in items(value)]


def _of_resource(resource: Resource, template: Template) -> str | None:
    if resource.type.endswith("::MODULE"):
        return f"what module {resource.type} makes {_LATER}"
    logical_id = resource.logical_id
    if resource.type not in _STACKS or logical_id in template.nested or logical_id.startswith(_PROVIDERS):
        return None
    address = resource.properties.get("TemplateURL")
    return f"what the stack of {address} makes {_LATER}" if address else f"what its stacks make {_LATER}"

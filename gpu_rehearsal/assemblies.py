"""Cloud assemblies as `cdk synth` writes them, and the existing resources that their stacks refer to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from gpu_rehearsal.aws.server import ACCOUNT


@dataclass(frozen=True, kw_only=True, slots=True)
class Assembly:
    """One stack of a synthesized app.

    Attributes:
        stack: Name of the stack.
        folder: Folder of the app's assembly, with the assets.
        file: File of the stack's template.
        template: The stack's template.
        region: Region of the deployment.
        account: Account of the deployment; empty if the stack has none.
    """

    stack: str
    folder: Path
    file: Path
    template: Mapping[str, Any]
    region: str
    account: str = ""


def read(folder: Path, *, region: str) -> list[Assembly]:
    """Return the stacks of an assembly and of its stages. Within a stage, each stack follows its dependencies.

    Args:
        folder: A folder like ``cdk.out``.
        region: Region of stacks without one.
    """
    artifacts = json.loads((folder / "manifest.json").read_text())["artifacts"]
    stacks = {name: each for name, each in artifacts.items() if each["type"] == "aws:cloudformation:stack"}
    stages = [each for each in artifacts.values() if each["type"] == "cdk:cloud-assembly"]
    nested = (read(folder / each["properties"]["directoryName"], region=region) for each in stages)
    return [_stack(folder, name, stacks[name], region) for name in _ordered(stacks)] + [
        each for stage in nested for each in stage
    ]


def _ordered(stacks: Mapping[str, Mapping[str, Any]]) -> list[str]:
    dependencies = {
        name: {each for each in artifact.get("dependencies", ()) if each in stacks} for name, artifact in stacks.items()
    }
    return list(TopologicalSorter(dependencies).static_order())


def _stack(folder: Path, name: str, artifact: Mapping[str, Any], region: str) -> Assembly:
    file = folder / artifact["properties"]["templateFile"]
    account, _, own_region = artifact["environment"].removeprefix("aws://").partition("/")
    return Assembly(
        stack=artifact["properties"].get("stackName", name),
        folder=folder,
        file=file,
        template=json.loads(file.read_text()),
        region=region if own_region == "unknown-region" else own_region,
        account="" if account == "unknown-account" else account,
    )


_PRINCIPAL = re.compile(r"arn:aws[a-z-]*:iam::(?P<account>\d*):(?P<kind>role|user)(?P<path>/(?:.*/)?)(?P<name>[^/]+)")
_VPC, _SUBNET = re.compile(r"\bvpc-[0-9a-f]{8,17}\b"), re.compile(r"\bsubnet-[0-9a-f]{8,17}\b")


@dataclass(frozen=True, kw_only=True, slots=True)
class Network:
    """An existing VPC, which no stack creates.

    Attributes:
        vpc: Its id.
        subnets: Ids of its subnets.
    """

    vpc: str
    subnets: tuple[str, ...]


def find_network(template: Mapping[str, Any]) -> Network | None:
    """Return the network that a template names by id; ``None`` if it names none.

    Raises:
        LookupError: It names several VPCs, or subnets without their VPC.
    """
    text = json.dumps(template["Resources"])
    vpcs, subnets = sorted(set(_VPC.findall(text))), tuple(sorted(set(_SUBNET.findall(text))))
    if not vpcs and not subnets:
        return None
    if len(vpcs) != 1:
        raise LookupError(f"a rehearsal creates one network for a stack, got subnets {list(subnets)} of VPCs {vpcs}")
    return Network(vpc=vpcs[0], subnets=subnets)


@dataclass(frozen=True, kw_only=True, slots=True)
class Principal:
    """A role or user that a stack names by its ARN.

    Attributes:
        kind: ``role`` or ``user``.
        path: Its path, with slashes around it.
    """

    kind: str
    path: str
    name: str


def find_account(template: Mapping[str, Any]) -> str:
    """Return the account of a stack without one: the account in ARNs of access entries, or AWS' example."""
    named = (_PRINCIPAL.fullmatch(each) for each in _principal_arns(template, ""))
    return next((each["account"] for each in named if each and each["account"]), ACCOUNT)


def find_principals(template: Mapping[str, Any], account: str) -> list[Principal]:
    """Return the roles and users of an account that a stack grants access to its cluster and doesn't create."""
    found = (_PRINCIPAL.fullmatch(each) for each in sorted(set(_principal_arns(template, account))))
    return [
        Principal(kind=each["kind"], path=each["path"], name=each["name"])
        for each in found
        if each and each["account"] == account
    ]


def _principal_arns(template: Mapping[str, Any], account: str) -> Iterator[str]:
    for each in template["Resources"].values():
        if each["Type"] == "AWS::EKS::AccessEntry":
            yield _text(each["Properties"]["PrincipalArn"], {"AWS::Partition": "aws", "AWS::AccountId": account})


def _text(value: Any, pseudo: Mapping[str, str]) -> str:
    """Return a text in which only pseudo parameters are joined; empty for any other value."""
    parts = value["Fn::Join"][1] if isinstance(value, dict) and "Fn::Join" in value else [value]
    texts = [pseudo.get(each.get("Ref", "")) if isinstance(each, dict) else str(each) for each in parts]
    known = [each for each in texts if each is not None]
    return "".join(known) if len(known) == len(texts) else ""


def find_cluster_name(template: Mapping[str, Any]) -> str:
    """Return the name of the cluster that a template creates.

    Raises:
        LookupError: It creates none, or only deployment sets the name.
    """
    clusters = [each for each in template["Resources"].values() if each["Type"] == "AWS::EKS::Cluster"]
    names = [each["Properties"].get("Name") for each in clusters]
    if len(names) != 1 or not isinstance(names[0], str):
        fix = "pass --stack with the stack that creates the cluster"
        raise LookupError(f"a rehearsal plays one cluster with a name in the template, got {json.dumps(names)}; {fix}")
    return names[0]


def find_kubernetes_version(template: Mapping[str, Any]) -> str:
    """Return the minor version of the cluster that a template creates; empty if it has none."""
    clusters = [each for each in template["Resources"].values() if each["Type"] == "AWS::EKS::Cluster"]
    return next((str(each["Properties"]["Version"]) for each in clusters if "Version" in each["Properties"]), "")


def why_not_simulated(template: Mapping[str, Any]) -> str:
    """Return why a stack can't be rehearsed; empty if it can."""
    try:
        find_cluster_name(template)
        find_network(template)
    except LookupError as error:
        return str(error)
    return ""

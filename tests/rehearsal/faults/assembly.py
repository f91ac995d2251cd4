"""A cdk.out folder whose templates a fault edits.

Logical ids have hashes, so a fault finds resources by type and content.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

Resource = dict[str, Any]
Resources = dict[str, Resource]

OBJECT = "Custom::AWSCDK-EKS-KubernetesResource"
RELEASE = "Custom::AWSCDK-EKS-HelmChart"
ROLE = "AWS::IAM::Role"
NODE_GROUP = "AWS::EKS::Nodegroup"
LAUNCH_TEMPLATE = "AWS::EC2::LaunchTemplate"
_TEMPLATE = ".template.json"
_POLICIES = ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy")
# How the CDK writes JSON inside of a string.
_COMPACT = (",", ":")


class CloudAssembly:
    """A folder like cdk.out.

    Args:
        folder: The folder.
        stack: Stack that is edited.
    """

    def __init__(self, folder: Path, stack: str) -> None:
        self.folder = folder
        self._stack = stack
        self._others: dict[str, CloudAssembly] = {}

    def stack(self, name: str) -> CloudAssembly:
        """Return another stack of the folder. `write` writes it too."""
        return self._others.setdefault(name, CloudAssembly(self.folder, name))

    def copy(self, folder: Path) -> CloudAssembly:
        """Copy it to another folder. Files other than templates become links, because no fault edits them."""
        shutil.copytree(self.folder, folder, copy_function=_copy)
        return CloudAssembly(folder, self._stack)

    def write(self) -> None:
        """Write the edited templates."""
        for other in self._others.values():
            other.write()
        self._file.write_text(json.dumps(self.template, indent=1))

    @property
    def _file(self) -> Path:
        return self.folder / f"{self._stack}{_TEMPLATE}"

    @cached_property
    def template(self) -> dict[str, Any]:
        """Template of the stack."""
        return dict(json.loads(self._file.read_text()))

    @property
    def resources(self) -> Resources:
        """Resources of the stack by logical id."""
        found: Resources = self.template["Resources"]
        return found

    def of_type(self, kind: str) -> Resources:
        """Return the resources of a type by logical id."""
        return {id: each for id, each in self.resources.items() if each["Type"] == kind}

    def find(self, kind: str, **properties: Any) -> str:
        """Return the logical id of the only resource of a type with these properties."""
        return _only(kind, (id for id, each in self.of_type(kind).items() if _has(each, properties)))

    def one(self, kind: str, **properties: Any) -> dict[str, Any]:
        """Return the properties of the only resource of a type with these properties."""
        found: dict[str, Any] = self.resources[self.find(kind, **properties)]["Properties"]
        return found

    def containing(self, kind: str, text: str) -> str:
        """Return the logical id of the only resource of a type whose properties contain a text."""
        found = (id for id, each in self.of_type(kind).items() if text in json.dumps(each["Properties"]))
        return _only(f"{kind} with {text}", found)

    def node_group(self, instance_type: str) -> dict[str, Any]:
        """Return the properties of the managed group of an instance type."""
        return self.one(NODE_GROUP, InstanceTypes=[instance_type])

    def launch_template(self, instance_type: str) -> dict[str, Any]:
        """Return the launch template data of the managed group of an instance type."""
        id = self.node_group(instance_type)["LaunchTemplate"]["Id"]["Ref"]
        data: dict[str, Any] = self.resources[id]["Properties"]["LaunchTemplateData"]
        return data

    def role_for(self, principal: str) -> dict[str, Any]:
        """Return the properties of the only role whose trust names a service account."""
        [found] = self.roles_for(principal)
        return found

    def roles_for(self, principal: str) -> list[dict[str, Any]]:
        """Return the properties of the roles whose trust names a service or a service account."""
        quoted = f'"{principal}"'
        roles = (each["Properties"] for each in self.of_type(ROLE).values())
        return [each for each in roles if quoted in json.dumps(each["AssumeRolePolicyDocument"])]

    def subnets(self, kind: str) -> list[str]:
        """Return the logical ids of the subnets of a kind: Public, Private or ControlPlane."""
        tagged = self.of_type("AWS::EC2::Subnet").items()
        return [id for id, each in tagged if f"/{kind}" in json.dumps(each["Properties"]["Tags"])]

    def deny(self, *actions: str) -> None:
        """Remove actions from every policy that allows them."""
        for document in self._policy_documents():
            for statement in document["Statement"]:
                kept = [each for each in _list(statement["Action"]) if each not in actions]
                if kept != _list(statement["Action"]):
                    statement["Action"] = kept
            document["Statement"] = [each for each in document["Statement"] if each["Action"]]

    def _policy_documents(self) -> Iterator[dict[str, Any]]:
        for kind in _POLICIES:
            yield from (each["Properties"]["PolicyDocument"] for each in self.of_type(kind).values())
        for role in self.of_type(ROLE).values():
            yield from (each["PolicyDocument"] for each in role["Properties"].get("Policies", ()))

    def remove(self, *ids: str) -> None:
        """Remove resources, and the references to them in DependsOn."""
        for id in ids:
            del self.resources[id]
        for each in self.resources.values():
            if set(ids) & set(_list(each.get("DependsOn", []))):
                each["DependsOn"] = [name for name in _list(each["DependsOn"]) if name not in ids]

    def rename(self, id: str, new: str) -> None:
        """Give a resource another logical id, everywhere."""
        text = json.dumps(self.template)
        self.template = json.loads(re.sub(rf'"{id}"', f'"{new}"', text))

    def add(self, id: str, kind: str, **properties: Any) -> None:
        """Add a resource."""
        self.resources[id] = {"Type": kind, "Properties": properties}

    def objects(self, kind: str) -> Resources:
        """Return the resources that apply objects of a kind, by logical id."""
        return {id: each for id, each in self.of_type(OBJECT).items() if objects_of(each)[0]["kind"] == kind}

    def object_id(self, kind: str) -> str:
        """Return the logical id of the only applied object of a kind."""
        return _only(kind, self.objects(kind))

    def edit(self, kind: str, change: Callable[[dict[str, Any]], object]) -> None:
        """Change the only applied object of a kind."""
        properties = self.resources[self.object_id(kind)]["Properties"]
        properties["Manifest"] = _edited(properties["Manifest"], lambda objects: change(objects[0]))

    def edit_values(self, release: str, change: Callable[[dict[str, Any]], object]) -> None:
        """Change the values of a release."""
        properties = self.one(RELEASE, Release=release)
        properties["Values"] = _edited(properties["Values"], change)

    def apply(self, id: str, manifest: dict[str, Any]) -> None:
        """Add an object to the cluster."""
        like = next(iter(self.of_type(OBJECT).values()))
        properties = {**like["Properties"], "Manifest": json.dumps([manifest], separators=_COMPACT)}
        self.resources[id] = {**like, "Properties": properties, "DependsOn": [*_list(like["DependsOn"])]}
        self.resources[id].pop("Metadata", None)


def objects_of(resource: Resource) -> list[dict[str, Any]]:
    """Return the objects that a resource applies, with ``<<n>>`` for values that exist only after deployment."""
    return list(json.loads(_flat(resource["Properties"]["Manifest"])[0]))


def _edited(written: Any, change: Callable[[Any], object]) -> Any:
    """Change JSON in a string or an Fn::Join, and keep the values that exist only after deployment."""
    text, values = _flat(written)
    content = json.loads(text)
    change(content)
    parts = re.split(r"<<(\d+)>>", json.dumps(content, separators=_COMPACT))
    if len(parts) == 1:
        return parts[0]
    return {"Fn::Join": ["", [values[int(each)] if number % 2 else each for number, each in enumerate(parts)]]}


def _flat(written: Any) -> tuple[str, list[Any]]:
    """Return a text with marks for values that exist only after deployment, and these values."""
    parts = [written] if isinstance(written, str) else written["Fn::Join"][1]
    values = [each for each in parts if not isinstance(each, str)]
    numbers = iter(range(len(values)))
    return "".join(each if isinstance(each, str) else f"<<{next(numbers)}>>" for each in parts), values


def _has(resource: Resource, properties: dict[str, Any]) -> bool:
    return all(resource["Properties"].get(name) == value for name, value in properties.items())


def _only(what: str, found: Iterable[str]) -> str:
    ids = list(found)
    if len(ids) != 1:
        raise LookupError(f"{what}: a fault edits one resource, found {ids}")
    return ids[0]


def _list(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _copy(source: str, target: str) -> None:
    if source.endswith(_TEMPLATE):
        shutil.copyfile(source, target)
    else:
        os.link(source, target)

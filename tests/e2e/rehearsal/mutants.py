"""Mutants: templates with one thing taken away or turned wrong, each of which a play must notice.

    mutant = MUTANTS["the node role has no access entry"]
    report = play([mutant.write(assembly, folder)], props)
    assert mutant.seen(report)

A scenario that no mutant fails checks nothing.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_rehearsal.assemblies import Assembly, read
from gpu_rehearsal.report import Line, Report

Resources = dict[str, dict[str, Any]]

_OBJECTS = "Custom::AWSCDK-EKS-KubernetesResource"
_RELEASES = "Custom::AWSCDK-EKS-HelmChart"
# A tag of the private subnets, which load balancers find them by: a discovery tag that a stack may select by.
_DISCOVERY = "kubernetes.io/role/internal-elb"
_LAUNCHES = ("ec2:CreateFleet", "ec2:RunInstances")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A way in which a stack may be wrong.

    Attributes:
        change: Makes it so, in the resources of a template.
        scenario: Scenario that must fail.
        names: A pattern of its failed lines: they must name the cause.
    """

    change: Callable[[Resources], None]
    scenario: str
    names: str

    def write(self, assembly: Assembly, folder: Path) -> Assembly:
        """Copy an assembly to a folder with this fault in its template, and return the stack as it is read there.

        Raises:
            LookupError: The stack has nothing that could be changed.
        """
        template = json.loads(assembly.file.read_text())
        self.change(template["Resources"])
        if template == json.loads(assembly.file.read_text()):
            raise LookupError(f"{assembly.stack}: nothing of it is changed")
        shutil.copytree(assembly.folder, folder, dirs_exist_ok=True)
        (folder / assembly.file.relative_to(assembly.folder)).write_text(json.dumps(template))
        [written] = (each for each in read(folder, region=assembly.region) if each.stack == assembly.stack)
        return written

    def seen(self, report: Report) -> list[Line]:
        """Return the failed lines that name it."""
        failed = (each for each in report.failed if each.scenario == self.scenario)
        return [each for each in failed if re.search(self.names, f"{each.promise}: {each.text}", re.DOTALL)]


def _subnets_lack_the_discovery_tag(resources: Resources) -> None:
    select_subnets_by_tag(resources)
    for subnet in _of_type(resources, "AWS::EC2::Subnet"):
        tags = subnet["Properties"]["Tags"]
        subnet["Properties"]["Tags"] = [each for each in tags if each["Key"] != _DISCOVERY]


def select_subnets_by_tag(resources: Resources) -> None:
    """Have node classes find the private subnets by their tag rather than by id, which works as well."""
    _edit(resources, "EC2NodeClass", lambda it: it["spec"].update(subnetSelectorTerms=[{"tags": {_DISCOVERY: "1"}}]))


def _the_role_may_pass_no_role(resources: Resources) -> None:
    for policy in _policies(resources):
        policy["Statement"] = [each for each in policy["Statement"] if "iam:PassRole" not in _actions(each)]


def _fleets_are_of_another_cluster(resources: Resources) -> None:
    for policy in _policies(resources):
        policy["Statement"] = [part for each in policy["Statement"] for part in _of_another_cluster(each)]


def _of_another_cluster(statement: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a statement whose launches, and nothing else of it, are allowed for another cluster alone."""
    launches = [each for each in _actions(statement) if each in _LAUNCHES]
    others = [each for each in _actions(statement) if each not in _LAUNCHES]
    if not launches:
        return [statement]
    narrowed = deepcopy(statement) | {"Action": launches}
    narrowed.pop("Sid", None)
    narrowed.setdefault("Condition", {}).setdefault("StringEquals", {})["aws:RequestTag/cluster"] = "another"
    return [narrowed, *([statement | {"Action": others}] if others else [])]


def _the_node_class_waits_for_no_definition(resources: Resources) -> None:
    releases = {name for name, each in resources.items() if each["Type"] == _RELEASES}
    for each in _of_type(resources, _OBJECTS):
        each["DependsOn"] = [name for name in _needs(each) if name not in releases]


def _the_handler_has_no_access(resources: Resources) -> None:
    _drop(resources, lambda each: each["Type"] == "AWS::EKS::AccessEntry" and "AccessPolicies" in each["Properties"])


def _nodes_have_no_access(resources: Resources) -> None:
    _drop(
        resources,
        lambda each: each["Type"] == "AWS::EKS::AccessEntry" and each["Properties"].get("Type") == "EC2_LINUX",
    )


def _the_plugin_tolerates_nothing(resources: Resources) -> None:
    _edit(resources, "DaemonSet", lambda it: it["spec"]["template"]["spec"].pop("tolerations", None))


def _the_plugin_seeks_other_nodes(resources: Resources) -> None:
    wanted = {"nodeSelector": {"example.com/gpu": "true"}}
    _edit(resources, "DaemonSet", lambda it: it["spec"]["template"]["spec"].update(wanted))


def _a_startup_taint_stays(resources: Resources) -> None:
    taints = [{"key": "example.com/agent", "effect": "NoSchedule"}]
    _edit(resources, "NodePool", lambda it: it["spec"]["template"]["spec"].update(startupTaints=taints))


def _instances_get_no_user_data(resources: Resources) -> None:
    _edit(resources, "EC2NodeClass", lambda it: it["spec"].update(amiFamily="Custom"))


def _the_association_names_another_account(resources: Resources) -> None:
    for each in _of_type(resources, "AWS::EKS::PodIdentityAssociation"):
        each["Properties"]["ServiceAccount"] = "karpenter-controller"


def _an_unwanted_taint(resources: Resources) -> None:
    taint = {"key": "example.com/x", "effect": "NoSchedule"}
    _edit(resources, "NodePool", lambda it: it["spec"]["template"]["spec"].setdefault("taints", []).append(taint))


def _the_queue_lets_nobody_send(resources: Resources) -> None:
    for queue in _of_type(resources, "AWS::SQS::QueuePolicy"):
        policy = queue["Properties"]["PolicyDocument"]
        policy["Statement"] = [each for each in policy["Statement"] if each["Effect"] == "Deny"]


MUTANTS: Mapping[str, Mutant] = {
    "subnets lack the discovery tag": Mutant(
        _subnets_lack_the_discovery_tag,
        "Scale",
        r"EC2NodeClass.*SubnetsReady.*SubnetSelector did not match any Subnets",
    ),
    "the controller's role may pass no role": Mutant(
        _the_role_may_pass_no_role, "Permissions", r"PodIdentityRoleKarpenter.*not authorized to perform: iam:PassRole"
    ),
    "fleets are allowed for another cluster": Mutant(
        _fleets_are_of_another_cluster, "Permissions", r"PodIdentityRoleKarpenter.*ec2:(CreateFleet|RunInstances)"
    ),
    "the node class waits for no definition": Mutant(
        _the_node_class_waits_for_no_definition, "Create", r"NodeClass.*no matches for kind \"EC2NodeClass\""
    ),
    "the handler has no access to the cluster": Mutant(
        _the_handler_has_no_access, "Create", r"(Unauthorized|must be logged in|provide credentials)"
    ),
    "the node role has no access entry": Mutant(_nodes_have_no_access, "Scale", r"isn.t a node: .*access entry"),
    "the device plugin tolerates nothing": Mutant(
        _the_plugin_tolerates_nothing, "Scale", r"taints nvidia.com/gpu:NoSchedule has no pod of .*nvidia-device-plugin"
    ),
    "the device plugin seeks other nodes": Mutant(
        _the_plugin_seeks_other_nodes, "Scale", r"has no pod of .*nvidia-device-plugin"
    ),
    "a startup taint stays": Mutant(_a_startup_taint_stays, "Scale", r"the job runs: .*example.com/agent"),
    "the association names another account": Mutant(
        _the_association_names_another_account,
        "Create",
        r"pod kube-system/karpenter\S*: container \S+ crashed 2 times: ",
    ),
    "a pool has an unwanted taint": Mutant(_an_unwanted_taint, "Scale", r"example.com/x"),
    "instances get no user data": Mutant(_instances_get_no_user_data, "Scale", r"isn.t a node: .*user data"),
    "the queue's policy allows no sender": Mutant(
        _the_queue_lets_nobody_send, "Permissions", r"events.amazonaws.com.*sqs:SendMessage.*doesn.t allow"
    ),
}


def _of_type(resources: Resources, kind: str) -> Iterator[dict[str, Any]]:
    return (each for each in resources.values() if each["Type"] == kind)


def _policies(resources: Resources) -> Iterator[dict[str, Any]]:
    for each in (*_of_type(resources, "AWS::IAM::ManagedPolicy"), *_of_type(resources, "AWS::IAM::Policy")):
        yield each["Properties"]["PolicyDocument"]


def _actions(statement: Mapping[str, Any]) -> list[str]:
    said = statement["Action"]
    return [said] if isinstance(said, str) else list(said)


def _needs(resource: Mapping[str, Any]) -> list[str]:
    said = resource.get("DependsOn", [])
    return [said] if isinstance(said, str) else list(said)


def _drop(resources: Resources, which: Callable[[dict[str, Any]], bool]) -> None:
    """Remove resources, and their names from DependsOn."""
    dropped = {name for name, each in resources.items() if which(each)}
    for name in dropped:
        del resources[name]
    for each in resources.values():
        if dropped & set(_needs(each)):
            each["DependsOn"] = [name for name in _needs(each) if name not in dropped]


def _edit(resources: Resources, kind: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the objects of a kind that a template applies."""
    for resource in _of_type(resources, _OBJECTS):
        properties = resource["Properties"]
        text, values = _flat(properties["Manifest"])
        objects = json.loads(text)
        for each in objects:
            if each["kind"] == kind:
                change(each)
        if json.loads(text) != objects:
            properties["Manifest"] = _joined(json.dumps(objects), values)


def _flat(said: Any) -> tuple[str, list[Any]]:
    """Return a text with marks where deployment puts values, and the values."""
    parts = [said] if isinstance(said, str) else said["Fn::Join"][1]
    values = [each for each in parts if not isinstance(each, str)]
    numbers = iter(range(len(values)))
    return "".join(each if isinstance(each, str) else f"<<{next(numbers)}>>" for each in parts), values


def _joined(text: str, values: list[Any]) -> Any:
    parts = re.split(r"<<(\d+)>>", text)
    return {"Fn::Join": ["", [values[int(each)] if number % 2 else each for number, each in enumerate(parts)]]}

"""Values that only deployment sets, in fields that rules judge: parameters without a default, imports, placeholders.

`judged_fields.json` maps each field that changes a rule's result in the examples to those rules. The long run of
`tests/preflight/properties/test_monotone.py` generates it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from gpu_constructs.preflight.model.cluster import Cluster
from gpu_constructs.preflight.reading.cloudformation import Resource
from gpu_constructs.preflight.reading.objects import Object, Origin
from gpu_constructs.preflight.reading.unknown import Unknown

# `${Name}`, `${Stack/Name.Attribute}`, `$NAME`, `$(NAME)` and `{{ action }}`.
_PART = re.compile(r"\$\{(?P<reference>[^{}]*)\}|\$[A-Za-z_]\w*|\$\([\w.]+\)|\{\{(?P<action>[^{}]*)\}\}")
_WHOLE = re.compile(r"\$\{\w+\}")
# What CloudFormation computes out of what it knows, and what AWS looks up.
_COMPUTED = ("AWS::", "Fn::")
_IMPORT = "Fn::ImportValue"
_LOOKED_UP = "resolve:"
# Paths of pod specs. A field means the same in each kind.
_POD = re.compile(
    r"^(?:Pod spec|(?:Deployment|StatefulSet|ReplicaSet|Job|CronJob) (?:spec\.jobTemplate\.)?spec\.template\.spec)"
    r"\.(?P<init>initC(?=ontainers))?"
)
# Users choose the keys of these maps.
_FREE_KEYS = re.compile(
    r"\b(nodeSelector|matchLabels|[lL]abels|nodeLabels|annotations|tags|data|stringData|parameters|StringEquals)\.\S+$"
)
# Programs and their texts, which tell what a controller is.
_PROGRAM = re.compile(r"^Pod spec\.containers\[\]\.(image|command|args|env|envFrom)\b")
# Namespaces and names of what makes nodes, advertises GPUs or holds jobs.
_CONTROLLER = re.compile(r"kube-system|karpenter|autoscaler|nvidia|gpu|device-plugin|kueue|keda|volcano|kai|csi|efa")
# Fields that a deployment usually fills in, and whose value seldom keeps a pod from running: programs, and parts of an
# account such as images, roles, networks and the name of the cluster.
_USUALLY_SET_FIELDS = re.compile(
    rf"{_PROGRAM.pattern}"
    r"|^EC2NodeClass spec\.(role|instanceProfile|\w+SelectorTerms)\b"
    r"|^AWS::\S+ \S*(Subnets?|SubnetIds?|VpcId|VPCZoneIdentifier|SecurityGroupIds|Groups|NodeRole|Arn|ImageId)\b"
    r"|^AWS::EKS::(Cluster|Nodegroup) (Name|Version|ReleaseVersion)$"
)
# How much of a pool a workload uses: other workloads share the pool.
_SIZE = re.compile(r" spec\.(replicas|parallelism)$| spec\.containers\[\]\.resources\.| spec\.resourceClaims\[\]\.")


@dataclass(frozen=True, slots=True)
class OpenValue:
    """A value that only deployment sets, in a field that rules judge.

    Attributes:
        owner: The object or the resource that has it.
        field: Kind and field, e.g. ``Pod spec.volumes[].persistentVolumeClaim.claimName``.
        expression: The value as it is written.
        rules: The rules that judge the field.
    """

    owner: Object | Resource
    field: str
    expression: str
    rules: tuple[str, ...]

    @property
    def origin(self) -> Origin:
        """Where it stands."""
        return self.owner.origin

    @property
    def text(self) -> str:
        """The value and its place."""
        return f"{self.field.partition(' ')[2]} of {self.origin.path} ({self.expression})"

    @property
    def is_program(self) -> bool:
        """Whether it is the program of a pod, or a text for it."""
        return _PROGRAM.search(self.field) is not None

    @property
    def is_size(self) -> bool:
        """Whether it decides how much room a workload takes."""
        return _SIZE.search(self.field) is not None

    @property
    def is_usual(self) -> bool:
        """Whether deployments usually set it."""
        return _USUALLY_SET_FIELDS.search(self.field) is not None


def field_name(kind: str, path: str) -> str:
    """Return kind and field: the same name for fields that mean the same.

    Args:
        kind: Kind of the object, or type of the resource.
        path: Keys, lists as ``[]``: ``spec.template.spec.containers[].image``.
    """
    name = _FREE_KEYS.sub(r"\1.*", f"{kind} {path.removesuffix('[]')}")
    return _POD.sub(_as_pod, name)


def _as_pod(found: re.Match[str]) -> str:
    return "Pod spec.c" if found.group("init") else "Pod spec."


@cache
def judged_fields() -> Mapping[str, tuple[str, ...]]:
    """Return the rules that judge each field, by the name that `field_name` gives it."""
    text = files("gpu_constructs.preflight.cluster").joinpath("judged_fields.json").read_text()
    return {name: tuple(rules) for name, rules in json.loads(text).items()}


def open_values(cluster: Cluster) -> tuple[OpenValue, ...]:
    """Return the values of a cluster that only deployment sets, in fields that rules judge."""
    kinds = {name.partition(" ")[0] for name in judged_fields()}
    gpu_owners = {id(each.owner) for each in cluster.workloads if each.asks_for_gpu}
    found: list[OpenValue] = []
    for each in cluster.objects:
        if not each.is_live:
            matters = id(each) in gpu_owners or _CONTROLLER.search(f"{each.namespace}/{each.name}")
            found += (
                one
                for one in _open_values_of_object(each, each.kind, each.content, cluster)
                if matters or not one.is_program
            )
    for resource in cluster.resources.values():
        if resource.type in kinds:
            found += _open_values_of_object(resource, resource.type, resource.properties, cluster)
    return tuple(found)


def _open_values_of_object(owner: Object | Resource, kind: str, content: Any, cluster: Cluster) -> Iterator[OpenValue]:
    seen = set()
    for path, expression in _expressions(content, ""):
        name = field_name(kind, path)
        rules = judged_fields().get(name)
        if rules is not None and (name, expression) not in seen and _is_open(expression, cluster):
            seen.add((name, expression))
            yield OpenValue(owner, name, expression, rules)


def _expressions(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield each value that is not known, and texts that are nothing but a placeholder, with their paths."""
    if isinstance(value, dict):
        for key, each in value.items():
            if isinstance(each, (dict, list, Unknown)) or (isinstance(each, str) and each[:2] == "${"):
                yield from _expressions(each, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for each in value:
            yield from _expressions(each, f"{path}[]")
    elif isinstance(value, Unknown):
        if not value.choices:
            yield path, value.expression
    elif isinstance(value, str) and _WHOLE.fullmatch(value):
        yield path, value


def _is_open(expression: str, cluster: Cluster) -> bool:
    """Whether a user sets part of the value at deployment."""
    for part in _PART.finditer(expression):
        action, reference = part.group("action"), part.group("reference")
        if action is not None:
            if not action.startswith(_LOOKED_UP):
                return True
        elif (
            reference is None
            or reference.startswith(_IMPORT)
            or (not _is_computed(reference) and reference.partition(".")[0] not in cluster.resources)
        ):
            return True
    return False


def _is_computed(reference: str) -> bool:
    """Whether CloudFormation, AWS or eksctl makes a value: eksctl the ``role of eksctl``."""
    return " " in reference or reference.startswith(_COMPUTED)

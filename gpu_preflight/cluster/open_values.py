"""Values that only deployment sets and that may decide whether a pod runs: parameters, imports, placeholders.

`judged_fields.json` maps each field that changes a rule's result in the examples to those rules. The long run of
`tests/preflight/properties/test_monotone.py` generates it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

from gpu_facts.light import dataclass, read_package_data, regex
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import Unknown

# `${Name}`, `${Stack/Name.Attribute}`, `$NAME`, `$(NAME)` and `{{ action }}`.
_PART = regex(r"\$\{(?P<reference>[^{}]*)\}|\$[A-Za-z_]\w*|\$\([\w.]+\)|\{\{(?P<action>[^{}]*)\}\}")
_WHOLE = regex(r"\$\{\w+\}")
# Values that CloudFormation computes from known ones, resources that eksctl creates, and values that AWS looks up.
_COMPUTED = ("AWS::", "Fn::")
_BY_EKSCTL = " of eksctl"
_IMPORT = "Fn::ImportValue"
_LOOKED_UP = "resolve:"
# Paths of pod specs. A field has the same meaning in each kind.
_POD = regex(
    r"^(?:Pod spec|(?:Deployment|StatefulSet|ReplicaSet|Job|CronJob) (?:spec\.jobTemplate\.)?spec\.template\.spec)"
    r"\.(?P<init>initC(?=ontainers))?"
)
# Users choose the keys of these maps.
_FREE_KEYS = regex(
    r"\b(nodeSelector|matchLabels|[lL]abels|nodeLabels|annotations|tags|data|stringData|StringEquals)\.\S+$"
)
# Programs and their texts, which show the kind of a controller.
_PROGRAM = regex(r"^Pod spec\.containers\[\]\.(image|command|args|env|envFrom)\b")
# Namespaces and names of components that launch nodes, advertise GPUs or hold jobs.
_CONTROLLER = regex(r"kube-system|karpenter|autoscaler|nvidia|gpu|device-plugin|kueue|keda|volcano|kai|csi|efa")
# Kinds whose every field may decide whether a pod runs.
_DECIDING = (
    *("Node", "Pod", "PersistentVolume", "PersistentVolumeClaim", "StorageClass", "RuntimeClass", "PriorityClass"),
    *("ResourceQuota", "LimitRange", "Namespace", "ResourceClaim", "ResourceClaimTemplate", "DeviceClass"),
    *("ClusterQueue", "LocalQueue", "ResourceFlavor", "Cohort", "Topology", "Queue", "PodGroup"),
    *("NodePool", "EC2NodeClass", "NodeClass", "NodeOverlay", "HorizontalPodAutoscaler", "ScaledObject"),
)
# Fields of these kinds that don't affect where a pod runs.
_FREE = regex(
    r"^\S+ (metadata\.(annotations|labels|ownerReferences|finalizers|uid|generateName))\b"
    r"|^Pod spec\.(hostAliases|hostname|subdomain|terminationGracePeriodSeconds|containers\[\]\.(name|ports|lifecycle"
    r"|\w+Probe|workingDir|termination\w+))\b"
    r"|^EC2NodeClass spec\.(tags|context|detailedMonitoring)\b"
    r"|^StorageClass (parameters\.(kmsKeyId|encrypted|tagSpecification)|reclaimPolicy)"
)
# Labels and annotations that do decide.
_LABELS = regex(r"\b(kueue\.x-k8s\.io/queue-name|kai\.scheduler/queue|pod-security\.kubernetes\.io/enforce)")
# Fields that a deployment usually sets, and whose value rarely prevents a pod from running: names and namespaces,
# programs, and parts of an account such as images, roles, networks and the name of the cluster.
_USUALLY_SET = regex(
    rf"{_PROGRAM.pattern}"
    r"|^\S+ metadata\.(name|namespace)$"
    r"|^Pod spec\.(serviceAccountName|imagePullSecrets)\b|^Pod spec\.volumes\[\]\.(secret|configMap|projected)\b"
    r"|^(Deployment|StatefulSet|ReplicaSet|DaemonSet) spec\.selector\b|^ClusterConfig metadata\.region$"
    r"|^NodePool spec\.template\.metadata\b|^EC2NodeClass spec\.tags\b"
    r"|^EC2NodeClass spec\.(role|instanceProfile|userData|\w+SelectorTerms|blockDeviceMappings\[\]\.ebs\.kmsKeyID)\b"
    r"|^AWS::\S+ \S*(Subnets?|SubnetIds?|VpcId|VPCZoneIdentifier|SecurityGroupIds|Groups|NodeRole|Arn|ImageId)\b"
    r"|^AWS::EKS::(Cluster|Nodegroup) (Name|Version|ReleaseVersion|Labels)\b"
)
# The scheduler checks each choice of `Fn::If` and of allowed values in these fields.
_CHOSEN = regex(r"^AWS::EKS::Nodegroup (AmiType|InstanceTypes|Taints|CapacityType|Labels)\b")
# How much of a pool a workload uses: other workloads share the pool.
_SIZE = regex(r" spec\.(replicas|parallelism)$| spec\.containers\[\]\.resources\b| spec\.resourceClaims\b")
_FUNCTION = "lambda.amazonaws.com"
# Principals in the trust policies of nodes and pods: EC2, Pod Identity and web identities.
_OF_NODES = ("ec2.", "pods.eks", "Federated")
_LONG = 60
_CONDITION, _TRUTH = "Condition", "true or false"
_OWNERS = ("Pod ", "Deployment ", "StatefulSet ", "ReplicaSet ", "Job ", "CronJob ")


@dataclass(frozen=True, slots=True)
class OpenValue:
    """A value that only deployment sets and that rules check, such as a placeholder or a parameter without default.

    Attributes:
        owner: The object or the resource that has it.
        field: Kind and field, e.g. ``Pod spec.volumes[].persistentVolumeClaim.claimName``. Fields of pods have the kind
            Pod for every kind of owner.
        value: The value as it is written.
        rules: The rules that check the field, and that have no certain result for it.
        is_name: Whether an object of the input has this name too. Then both are equal, for any value that deployment
            sets.
    """

    owner: Object | Resource
    field: str
    value: str
    rules: tuple[str, ...]
    is_name: bool = False

    @property
    def origin(self) -> Origin:
        """Its place in the input."""
        return self.owner.origin

    @property
    def text(self) -> str:
        """The value and its place."""
        return f"{self.place} ({shortened(self.value)})"

    @property
    def place(self) -> str:
        """Field and owner."""
        return f"{self.field.partition(' ')[2]} of {self.origin.path}"

    @property
    def is_of_pod(self) -> bool:
        """Whether it is in a pod or in the object that creates pods. Then it affects only this pod."""
        return self.field.startswith("Pod ") or self.owner.origin.path.startswith(_OWNERS)

    @property
    def is_condition(self) -> bool:
        """Whether it decides if its resource is created."""
        return self.value == _TRUTH

    @property
    def is_size(self) -> bool:
        """Whether it decides how much room a workload needs."""
        return _SIZE.search(self.field) is not None

    @property
    def is_usual(self) -> bool:
        """Whether deployments usually set it."""
        if _LABELS.search(self.field):
            return False
        return self.is_name or _USUALLY_SET.search(self.field) is not None


def shortened(expression: str) -> str:
    """Return an expression for messages. A long one is cut."""
    return expression if len(expression) <= _LONG else f"{expression[:_LONG]}..."


@lru_cache(maxsize=4096)
def field_name(kind: str, path: str) -> str:
    """Return kind and field: the same name for fields with the same meaning.

    Args:
        kind: Kind of the object, or type of the resource.
        path: Keys, with ``[]`` for lists: ``spec.template.spec.containers[].image``.
    """
    text = f"{kind} {path.removesuffix('[]')}"
    name = text if _LABELS.search(path) else _FREE_KEYS.sub(r"\1.*", text)
    return _POD.sub(_as_pod, name)


def _as_pod(found: re.Match[str]) -> str:
    return "Pod spec.c" if found.group("init") else "Pod spec."


@cache
def judged_fields() -> Mapping[str, tuple[str, ...]]:
    """Return the rules that check each field, by the name that `field_name` returns."""
    text = read_package_data("gpu_preflight.cluster", "judged_fields.json").decode()
    return {name: tuple(rules) for name, rules in json.loads(text).items()}


@cache
def field_rules(name: str) -> tuple[str, ...] | None:
    """Return the rules that check a field or a part of it; ``None`` if no rule does."""
    below = (f"{name}.", f"{name}[]")
    found = [rules for field, rules in judged_fields().items() if field == name or field.startswith(below)]
    return tuple(sorted({each for rules in found for each in rules})) if found else None


def open_values(cluster: Cluster) -> tuple[OpenValue, ...]:
    """Return the values of a cluster that only deployment sets and that may decide whether a pod runs."""
    kinds = {name.partition(" ")[0] for name in judged_fields()}
    gpu_owners = {id(each.owner) for each in cluster.workloads if each.pod.may_ask_for_gpu}
    found: list[OpenValue] = []
    for each in cluster.objects:
        named = f"{each.namespace}/{each.name}"
        matters = id(each) in gpu_owners or _CONTROLLER.search(named) is not None
        # In a dump of a running cluster, every pod matters: it has a node or needs one.
        matters = matters or "status" in each.content
        found += (
            one for one in _find_open_values(each, each.kind, each.content, cluster) if matters or not one.is_of_pod
        )
    for resource in cluster.resources.values():
        if resource.type in kinds and not _is_of_function(resource):
            found += _find_open_values(resource, resource.type, resource.properties, cluster)
            if resource.conditional:
                name = f"{resource.type} {_CONDITION}"
                found.append(OpenValue(resource, name, _TRUTH, field_rules(name) or ()))
    return tuple(found)


def _find_open_values(owner: Object | Resource, kind: str, content: Any, cluster: Cluster) -> Iterator[OpenValue]:
    seen = set()
    for path, value in _open_parts(content, "") if _may_be_open(content) else ():
        name, expression = field_name(kind, path), str(value)
        if (name, expression) in seen or (isinstance(value, Unknown) and value.choices and _CHOSEN.search(name)):
            continue
        seen.add((name, expression))
        if _is_open(expression, cluster) and (_may_decide(name, path) or _is_elsewhere(path, expression, cluster)):
            yield OpenValue(owner, name, expression, field_rules(name) or (), _is_name(path, expression, cluster))


@lru_cache(maxsize=4096)
def _may_decide(name: str, path: str) -> bool:
    """Whether a field may decide whether a pod runs."""
    of_kind = name.partition(" ")[0] in _DECIDING and not _FREE.search(name)
    named = path == "metadata.namespace" or _LABELS.search(path) is not None
    return of_kind or named or field_rules(name) is not None


def _is_of_function(resource: Resource) -> bool:
    """Whether a role is for a Lambda function, such as a provider function of the CDK, and not for nodes or pods."""
    trust = str(resource.properties.get("AssumeRolePolicyDocument"))
    return resource.type == "AWS::IAM::Role" and _FUNCTION in trust and not any(each in trust for each in _OF_NODES)


def _is_elsewhere(path: str, expression: str, cluster: Cluster) -> bool:
    """Whether a resource names a cluster by a value that isn't the name of a cluster in the input."""
    named = cluster.resource.properties.get("Name") if cluster.resource is not None else None
    return path == "ClusterName" and str(named) != expression


def _is_name(path: str, expression: str, cluster: Cluster) -> bool:
    return path.lower().endswith("name") and expression in cluster.open_names


def _may_be_open(content: Any) -> bool:
    """Whether a part of an object may be unknown. A text search is faster than reading every pod."""
    text = repr(content)
    return "${" in text or Unknown.__name__ in text


def _open_parts(value: Any, path: str) -> Iterator[tuple[str, Unknown | str]]:
    """Yield each unknown value, and each text that is only a placeholder, with their paths."""
    if isinstance(value, dict):
        for key, each in value.items():
            if isinstance(each, (dict, list, Unknown)) or (isinstance(each, str) and each[:2] == "${"):
                yield from _open_parts(each, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for each in value:
            yield from _open_parts(each, f"{path}[]")
    elif isinstance(value, Unknown) or (isinstance(value, str) and _WHOLE.fullmatch(value)):
        yield path, value


def _is_open(expression: str, cluster: Cluster) -> bool:
    """Whether a user sets part of the value at deployment."""
    if expression.startswith("${Fn::If "):
        return True
    if expression[2:-1] in cluster.resources:
        # A part of an eksctl config. The config's name is a separate open value.
        return False
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
    """Whether CloudFormation, AWS or eksctl sets a value (eksctl: the ``role of eksctl``)."""
    return _BY_EKSCTL in reference or reference.startswith(_COMPUTED)

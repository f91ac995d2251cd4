"""A pod and its only possible nodes: how to create many such pairs in one cluster, and the result of each."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpu_rehearsal.cluster.client import Object

# The name of every pod that is decided on; its namespace tells whose it is.
ASKED = "asked"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
# The term of a pod that asks for no node in particular.
ANY: Object = {}
# Not so: an error of the scheduler, after which it tries again.
VERDICTS = ("Unschedulable", "SchedulingGated")
# "0/9 nodes are available: 1 Insufficient cpu, 8 node(s) didn't satisfy plugin(s) [NodeAffinity]. no new claims to ..."
REASONS = re.compile(r"^0/\d+ nodes are available: (.*?)\.(?: .*)?$", re.DOTALL)
OF_OTHERS = "node(s) didn't satisfy plugin(s) [NodeAffinity]"


# Kinds of objects that belong to no namespace, and the part of a pod that names one.
NAMED_BY = {"RuntimeClass": "runtimeClassName", "PriorityClass": "priorityClassName"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A pod, its only possible nodes, the pods that are there already, and the objects that its admission needs.

    Attributes:
        node: The node. Its ``status.allocatable`` counts, that of ``pods`` included.
        pod: The pod to decide on.
        bound: Pods on the nodes, each on the node of its ``nodeName``, or on ``node``. Pods of a namespace other than
            the pod's stay apart from it.
        others: Further nodes it may go to, each of another name.
        objects: Objects that are there before the pod: its namespace, limit ranges in it, and classes that it names.
    """

    node: Object
    pod: Object
    bound: Sequence[Object] = ()
    others: Sequence[Object] = ()
    objects: Sequence[Object] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """The decision about a pod.

    Attributes:
        scheduled: Whether it went to its node.
        message: Why not, in the scheduler's words about that one node.
        refused: Why the API server took no such pod.
    """

    scheduled: bool
    message: str = ""
    refused: str = ""


def decision_on(pod: Object) -> Decision | None:
    """Return what the scheduler decided on a pod, or ``None`` where it has not yet."""
    if pod["spec"].get("nodeName"):
        return Decision(scheduled=True)
    for each in pod.get("status", {}).get("conditions", ()):
        if each["type"] == "PodScheduled" and each.get("reason") in VERDICTS:
            return Decision(scheduled=False, message=reasons(each.get("message", "")))
    return None


def reasons(message: str) -> str:
    """Return the part of a message about the one possible node, without the part about the others."""
    found = REASONS.match(message)
    if found is None:
        return message
    counted = found[1].split(", ")
    return ", ".join(re.sub(r"^\d+ ", "", each) for each in counted if OF_OTHERS not in each)


class Pair:
    """A case with unique names in a cluster that holds many.

    Args:
        case: The case.
        slot: Its place in the batch, which names its namespaces.
        number: A number that no other pair of this batch or of the one before has; it names its nodes and the objects
            there before its pod.
    """

    def __init__(self, case: Case, *, slot: int, number: int) -> None:
        # A namespace with objects in it is for one pair alone.
        self.number, self._suffix = number, f"{slot}-{number}" if case.objects else str(slot)
        self._names: dict[str, str] = {}
        self.nodes = [self._node(each, place) for place, each in enumerate((case.node, *case.others))]
        self.pod = self._pod(case.pod, ASKED)
        self.objects = [self._object(each) for each in case.objects]
        hold(self.pod["spec"], self._names)
        self.bound = [self._bound(each, place) for place, each in enumerate(case.bound)]

    def _node(self, node: Object, place: int) -> Object:
        made: Object = {"apiVersion": "v1", "kind": "Node"} | copy.deepcopy(node)
        metadata = made.setdefault("metadata", {})
        name = f"node-{self.number}-{place}" if place else f"node-{self.number}"
        self._names[metadata.get("name", name)] = name
        metadata["name"] = name
        return made

    def _bound(self, pod: Object, place: int) -> Object:
        made = self._pod(pod, f"bound-{place}")
        made["spec"]["nodeName"] = self._names.get(made["spec"].get("nodeName"), self.nodes[0]["metadata"]["name"])
        return made

    def _pod(self, pod: Object, name: str) -> Object:
        metadata = {key: value for key, value in pod.get("metadata", {}).items() if key != "generateName"}
        namespace = self._in_namespace(metadata.get("namespace", "default"))
        made = copy.deepcopy(pod | {"metadata": metadata | {"name": name, "namespace": namespace}})
        return {"apiVersion": "v1", "kind": "Pod"} | made

    def _object(self, written: Object) -> Object:
        """Return an object under a unique name, which the pod then uses."""
        made = copy.deepcopy(written)
        metadata, spec, part = made["metadata"], self.pod["spec"], NAMED_BY.get(made["kind"])
        if part:
            old, metadata["name"] = metadata["name"], f"{metadata['name']}-{self.number}"
            spec |= {part: metadata["name"]} if spec.get(part) == old else {}
        else:
            key = "name" if made["kind"] == "Namespace" else "namespace"
            metadata[key] = self._in_namespace(metadata[key])
        return made

    def _in_namespace(self, name: str) -> str:
        return f"{name}-{self._suffix}"

    @property
    def namespace(self) -> str:
        """Namespace of the pod, which no other pair has."""
        return str(self.pod["metadata"]["namespace"])

    @property
    def namespaces(self) -> set[str]:
        """Namespaces of all pods."""
        return {pod["metadata"]["namespace"] for pod in (self.pod, *self.bound)}


def hold(spec: Object, names: Mapping[str, str]) -> None:
    """Let a pod go to some nodes only, whatever else it asks for.

    Args:
        spec: ``spec`` of the pod, which is changed.
        names: The names of the nodes, by the old names that the pod may ask for.
    """
    affinity = spec.get("affinity") or {}
    of_node = affinity.get("nodeAffinity") or {}
    required = of_node.get(REQUIRED)
    terms = [ANY] if required is None else required.get("nodeSelectorTerms") or []
    held = [held_term(each, old, name) for each in terms for old, name in names.items()]
    spec["affinity"] = affinity | {"nodeAffinity": of_node | {REQUIRED: (required or {}) | {"nodeSelectorTerms": held}}}


def held_term(term: Object, old: str, name: str) -> Object:
    """Return a term that matches the node of that name where the term did, and no other."""
    fields = [
        each | {"values": [name if value == old else value for value in each.get("values") or ()]}
        for each in term.get("matchFields") or ()
    ]
    # A term that says nothing matches no node.
    nowhere = [] if term is ANY or fields or term.get("matchExpressions") else [_by_name("NotIn", name)]
    return term | {"matchFields": [*fields, *nowhere, _by_name("In", name)]}


def _by_name(operator: str, name: str) -> Object:
    return {"key": "metadata.name", "operator": operator, "values": [name]}


def last_pair(number: int) -> Pair:
    """Return a pair that always fits."""
    node = {"status": {"allocatable": {"pods": "1"}}}
    pod = {"metadata": {"namespace": "last"}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
    return Pair(Case(node=node, pod=pod), slot=0, number=number)

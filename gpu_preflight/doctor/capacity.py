"""The NodePools and node groups from which a waiting pod could get a node, and the nodes that are about to join.

A broken pool is a cause only for pods that could use it. The simulation decides that for NodePools. For node groups,
the answers of EKS and Auto Scaling, the status of Cluster Autoscaler and the running nodes are joined by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from gpu_facts.hardware.catalogue import catalogue, may_be_newer
from gpu_facts.labels import CAPACITY_TYPE, INSTANCE_TYPE, NODE_GROUP, NODE_POOL
from gpu_facts.light import dataclass, regex
from gpu_facts.quantities import resources
from gpu_facts.resources import GPU
from gpu_preflight.doctor.cause import Cause, Evidence
from gpu_preflight.doctor.dump import parse_time
from gpu_preflight.doctor.live import PASSING_TAINTS, Event, Live, Target
from gpu_preflight.doctor.patches import kubectl
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.label_values import exactly
from gpu_preflight.model.taints import Taint, object_taints, untolerated
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, items, mapping, mappings
from gpu_preflight.scheduling.verdict import PoolVerdict

# A pod that lacks only these could use the pool: its limit, its autoscaler or its own fault is in the way.
_OTHER_KINDS = ("limit", "autoscaler", "pool", "claim", "refused", "program", "rule")
# Names of Auto Scaling groups of EKS: eks-NAME-UUID.
_EKS_NAME = regex(r"eks-(.+?)-[0-9a-f]{4,8}(-[0-9a-f]{4}){0,3}(-[0-9a-f]{12})?$")
_TEMPLATE_GPUS = "k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/"
_KARPENTER_KINDS = ("karpenter", "auto-mode")
# GPUs of a node that has some, if their number isn't known. More than any EC2 type has.
_MANY = 99
# Events expire after an hour. A launch that failed earlier than this may have succeeded since then.
RECENT_SECONDS = 1800


@dataclass(frozen=True, slots=True)
class Group:
    """A node group.

    Attributes:
        name: The name of its EKS managed node group, or of its Auto Scaling group.
        scaling_group: The name of its Auto Scaling group; empty if it isn't known.
        managed: The answer of EKS; empty without it.
        scaling: The answer of Auto Scaling; empty without it.
        status: Its entry in the status of Cluster Autoscaler; empty without it.
        nodes: Its nodes.
    """

    name: str
    scaling_group: str
    managed: Mapping[str, Any]
    scaling: Mapping[str, Any]
    status: Mapping[str, Any]
    nodes: tuple[Object, ...]

    @property
    def title(self) -> str:
        """Its name in messages."""
        return f"node group {self.name}"

    @property
    def instance_types(self) -> tuple[str, ...]:
        """Its EC2 types, as far as they are known."""
        overrides = mappings(dig(self.scaling, "MixedInstancesPolicy", "LaunchTemplate", "Overrides"))
        every = (
            *items(self.managed.get("instanceTypes")),
            *(each.get("InstanceType") for each in overrides),
            *(each.get("InstanceType") for each in mappings(self.scaling.get("Instances"))),
            *(each.labels.get(INSTANCE_TYPE) for each in self.nodes),
        )
        return tuple(dict.fromkeys(str(each) for each in every if each))

    @property
    def tags(self) -> Mapping[str, str]:
        """The tags of its Auto Scaling group."""
        return {str(each.get("Key")): str(each.get("Value")) for each in mappings(self.scaling.get("Tags"))}

    @property
    def gpus(self) -> int | None:
        """Max GPUs of its nodes, which may share them; ``None`` if neither its nodes nor its types are known."""
        seen = [resources(dig(each.content, "status", "capacity")).get(GPU, 0) for each in self.nodes]
        if self.instance_types:
            return max([*seen, *map(_gpus_of_type, self.instance_types)])
        if any(each.startswith(_TEMPLATE_GPUS) for each in self.tags) or "NVIDIA" in str(self.managed.get("amiType")):
            return _MANY
        return max(seen, default=0) or None

    @property
    def max_size(self) -> int | None:
        """Its max size."""
        return _first_number(
            dig(self.status, "health", "maxSize"),
            self.scaling.get("MaxSize"),
            dig(self.managed, "scalingConfig", "maxSize"),
        )

    @property
    def size(self) -> int | None:
        """Its desired size."""
        return _first_number(
            dig(self.status, "health", "cloudProviderTarget"),
            self.scaling.get("DesiredCapacity"),
            dig(self.managed, "scalingConfig", "desiredSize"),
        )

    @property
    def subnets(self) -> tuple[str, ...]:
        """Ids of its subnets."""
        listed = str(self.scaling.get("VPCZoneIdentifier") or "").split(",")
        return tuple(map(str, items(self.managed.get("subnets")) or [each for each in listed if each]))

    def has_instance(self, tags: Mapping[str, str]) -> bool:
        """Whether an EC2 instance with such tags belongs to it."""
        named = tags.get("aws:autoscaling:groupName")
        return tags.get("eks:nodegroup-name") == self.name or bool(named and named == self.scaling_group)

    def accepts(self, target: Target, *, with_taints: bool = True) -> bool:
        """Whether its nodes could take a pod, as far as that is known."""
        if target.read.asks_for_gpu and self.gpus is not None and self.gpus < max(target.devices.get(GPU, 0), 1):
            return False
        if not with_taints:
            return True
        written = self.managed.get("taints") if self.managed else self.nodes[0].spec.get("taints") if self.nodes else ()
        taints = [each for each in object_taints(written) if not each.key.startswith(PASSING_TAINTS)]
        if untolerated(target.read.tolerations, taints):
            return False
        labels = {**(self.nodes[0].labels if self.nodes else {}), **mapping(self.managed.get("labels"))}
        if not labels:
            return True
        known = {str(key): exactly(str(value)) for key, value in labels.items()}
        unmet = [one for one, answer in target.read.selection.unmet(known) if answer is Answer.NO]
        return not any(one.key in known or self.nodes for one in unmet)


def _gpus_of_type(name: str) -> int:
    """Return the GPUs of an EC2 type; many, if it may be a GPU type that is newer than the catalogue."""
    row = catalogue().get(name)
    return (_MANY if may_be_newer(name) else 0) if row is None else max(row.gpus, row.ec2_gpus)


def _first_number(*values: Any) -> int | None:
    return next((each for each in values if isinstance(each, int)), None)


@lru_cache(maxsize=1)
def groups(live: Live) -> tuple[Group, ...]:
    """Return the node groups of the cluster."""
    by_group: dict[str, list[Object]] = {}
    by_instance = {instance_id(each): each for each in live.nodes}
    for node in live.nodes:
        by_group.setdefault(str(node.labels.get(NODE_GROUP) or ""), []).append(node)
    managed = {str(each.get("nodegroupName")): each for each in mappings(live.aws("nodegroup"))}
    scaling = {str(each.get("AutoScalingGroupName")): each for each in mappings(live.aws("AutoScalingGroups"))}
    status = {str(each.get("name")): each for each in mappings(live.autoscaler_status.get("nodeGroups"))}
    labelled = {str(each.labels.get(NODE_GROUP)): each for each in live.nodes if each.labels.get(NODE_GROUP)}
    active = [str(each.get("AutoScalingGroupName")) for each in mappings(live.aws("Activities"))]
    names: dict[str, str] = {}
    for name, answer in managed.items():
        for each in mappings(dig(answer, "resources", "autoScalingGroups")):
            names[str(each.get("name"))] = name
    for name in (*scaling, *status, *active):
        names.setdefault(name, _group_name(name, scaling.get(name, {}), (*managed, *labelled)))
    for name in (*managed, *labelled):
        if name not in names.values():
            names[f"={name}"] = name
    found = []
    for key, name in names.items():
        scaled = scaling.get(key, {})
        ids = {str(each.get("InstanceId")) for each in mappings(scaled.get("Instances"))}
        nodes = {each.name: each for each in by_group.get(name, ()) if name}
        nodes |= {by_instance[each].name: by_instance[each] for each in sorted(ids) if each in by_instance}
        own_name = "" if key.startswith("=") else key
        found.append(Group(name, own_name, managed.get(name, {}), scaled, status.get(key, {}), tuple(nodes.values())))
    return tuple(found)


def _group_name(scaling_group: str, answer: Mapping[str, Any], known: tuple[str, ...]) -> str:
    tags = {str(each.get("Key")): str(each.get("Value")) for each in mappings(answer.get("Tags"))}
    if "eks:nodegroup-name" in tags:
        return tags["eks:nodegroup-name"]
    named = [each for each in known if scaling_group.startswith(f"eks-{each}-")]
    match = _EKS_NAME.match(scaling_group)
    return max(named, key=len) if named else match[1] if match else scaling_group


def instance_id(node: Object) -> str:
    """Return the id of the EC2 instance of a node or NodeClaim; empty if it isn't known."""
    given = node.spec.get("providerID") or dig(node.content, "status", "providerID")
    return str(given or "").rpartition("/")[2]


def instances(live: Live) -> list[tuple[Mapping[str, Any], Mapping[str, str]]]:
    """Return the EC2 instances of the dump, each with its tags."""
    every = [one for each in mappings(live.aws("Reservations")) for one in mappings(each.get("Instances"))]
    every = [each for each in every if isinstance(each.get("InstanceId"), str)]
    return [
        (each, {str(one.get("Key")): str(one.get("Value")) for one in mappings(each.get("Tags"))}) for each in every
    ]


def is_ready(live: Live, node: Object) -> bool:
    """Whether the Ready condition of a node is True."""
    return live.is_true(node, "Ready")


def needs_node(live: Live, target: Target) -> bool:
    """Whether the scheduler found no node for a pod, so that autoscalers consider it."""
    if target.pod is None or target.node is not None or live.phase(target.pod) != "Pending":
        return False
    scheduled = live.condition(target.pod, "PodScheduled")
    if scheduled is None or scheduled.status == "True" or scheduled.reason not in ("Unschedulable", ""):
        return False
    return _has_more_rules(target) or not any(each.fits and is_ready(live, each.node) for each in live.fits(target))


def _has_more_rules(target: Target) -> bool:
    """Whether the scheduler applies rules to a pod that a comparison with each node alone doesn't have."""
    pod = target.read
    return bool(pod.claims or pod.spreads or pod.apart or pod.beside or any(each.is_claimed for each in pod.volumes))


def pool_verdicts(live: Live, target: Target) -> list[PoolVerdict]:
    """Return the simulated results of the NodePools, the nearest first, without running nodes."""
    verdict = live.verdict(target)
    every = verdict.pools if verdict is not None else ()
    return [each for each in every if each.pool.kind in _KARPENTER_KINDS and each.pool.observed is None]


def node_pools(live: Live, target: Target) -> list[Object]:
    """Return the NodePools that could take a pod, if they had no limit and no fault."""
    every = live.objects("NodePool")
    node = live.node(target)
    if node is not None:
        return [each for each in every if each.name == node.labels.get(NODE_POOL)]
    every = [each for each in every if not intolerable(each, target)]
    results = pool_verdicts(live, target)
    if not results:
        return every
    names = {
        each.pool.name
        for each in results
        if all(one.kind in _OTHER_KINDS for one in each.reasons if one.answer is Answer.NO)
    }
    return [each for each in every if each.name in names]


def capacity_types(pool: Object) -> list[str]:
    """Return the capacity types that a NodePool requires, such as ``reserved``; empty without a requirement."""
    every = mappings(dig(pool.spec, "template", "spec", "requirements"))
    own = [each for each in every if each.get("key") == CAPACITY_TYPE and each.get("operator") == "In"]
    return [str(value) for each in own for value in items(each.get("values"))]


def intolerable(pool: Object, target: Target) -> tuple[Taint, ...]:
    """Return the taints of a NodePool that a pod doesn't tolerate. The simulation adds tolerations, as EKS does."""
    taints = object_taints(dig(pool.spec, "template", "spec", "taints"))
    return tuple(one for one, answer in untolerated(target.read.tolerations, taints) if answer is Answer.NO)


def fitting_groups(live: Live, target: Target, *, with_taints: bool = True) -> list[Group]:
    """Return the node groups that could take a pod; the group of its node, if it has one."""
    node = live.node(target)
    if node is not None:
        return [each for each in groups(live) if any(one is node for one in each.nodes)]
    found = [each for each in groups(live) if each.accepts(target, with_taints=with_taints)]
    certain = [each for each in found if each.gpus]
    return certain or found


def has_unseen_groups(live: Live) -> bool:
    """Whether Cluster Autoscaler may know node groups that the dump doesn't show, because they have no node."""
    may_run = live.certainty("Deployment") is None or controller(live, "cluster-autoscaler") is not None
    return may_run and not live.autoscaler_status.get("nodeGroups")


def joining_nodes(live: Live, target: Target) -> list[Object]:
    """Return the nodes that aren't ready and that a pod has or could use."""
    node = live.node(target)
    if node is not None:
        return [] if is_ready(live, node) else [node]
    if not needs_node(live, target):
        return []
    pools = {each.name for each in node_pools(live, target)}
    names = {one.name for each in fitting_groups(live, target) for one in each.nodes}
    waiting = [each for each in live.nodes if not is_ready(live, each)]
    return [each for each in waiting if str(each.labels.get(NODE_POOL)) in pools or each.name in names]


def claims(live: Live, target: Target) -> list[Object]:
    """Return the NodeClaims that Karpenter created for a pod, or else all of the NodePools that could take it."""
    every = live.objects("NodeClaim")
    named = nominated_claim(live, target)
    if own := [each for each in every if each.name == named]:
        return own
    pools = {each.name for each in node_pools(live, target)}
    return [each for each in every if str(each.labels.get(NODE_POOL)) in pools]


def nominated_claim(live: Live, target: Target) -> str:
    """Return the name of the NodeClaim for which Karpenter nominated a pod last; empty without it."""
    if target.pod is None:
        return ""
    event = live.last_event(target.pod, "Nominated")
    return "" if event is None else event.message.partition("nodeclaim/")[2].split(",")[0].strip()


def refused_launches(live: Live, target: Target) -> Iterator[Event]:
    """Yield the events about NodeClaims that Karpenter deleted because EC2 had none of their instances.

    A launch that succeeded later in the same NodePool makes an event obsolete.
    """
    pools = [each.name for each in node_pools(live, target)]
    named = nominated_claim(live, target)
    for event in live.events:
        pool = event.name.rpartition("-")[0]
        if event.reason != "InsufficientCapacityError" or event.kind != "NodeClaim":
            continue
        if (pool not in pools and event.name != named) or (live.seconds_since(event.time) or 0) > RECENT_SECONDS:
            continue
        if not _launched_later(live, pool, event.time):
            yield event


def _launched_later(live: Live, pool: str, time: datetime | None) -> bool:
    for each in live.objects("NodeClaim"):
        created = live.created(each)
        is_later = time is not None and created is not None and created > time
        if each.labels.get(NODE_POOL) == pool and live.is_true(each, "Launched") and is_later:
            return True
    return False


def failed_activities(live: Live, group: Group) -> list[Mapping[str, Any]]:
    """Return the launches of an Auto Scaling group that failed after its last successful one, the newest first."""
    named = (each for each in mappings(live.aws("Activities")) if each.get("AutoScalingGroupName"))
    own = [each for each in named if each["AutoScalingGroupName"] == group.scaling_group]
    own = [each for each in own if "Launching" in str(each.get("Description"))]
    own.sort(key=lambda each: str(parse_time(each.get("StartTime")) or ""), reverse=True)
    found: list[Mapping[str, Any]] = []
    for each in own:
        if each.get("StatusCode") == "Successful":
            break
        if each.get("StatusCode") in ("Failed", "Cancelled") and each.get("StatusMessage"):
            found.append(each)
    return found


def controller(live: Live, name: str) -> Object | None:
    """Return the Deployment of an autoscaler, by its name or its image."""
    for each in live.objects("Deployment"):
        images = [str(one.get("image")) for one in mappings(dig(each.spec, "template", "spec", "containers"))]
        if name in each.name or any(f"{name}:" in one or f"{name}/controller" in one for one in images):
            return each
    return None


@dataclass(frozen=True, slots=True)
class ControllerFault:
    """Why no pod of a controller works.

    Attributes:
        text: The fault, to follow the name of its Deployment.
        evidence: The values that show it.
        fix: One action that removes the fault.
        command: A command that shows more.
        because: Why its pod doesn't run; ``None`` if that isn't known.
    """

    text: str
    evidence: tuple[Evidence, ...]
    fix: str
    command: str
    because: Cause | None


def controller_faults(live: Live, deployment: Object) -> ControllerFault | None:
    """Return why no pod of a controller works; ``None`` if one works."""
    from gpu_preflight.doctor.diagnosis import component_cause

    wanted, status = deployment.spec.get("replicas", 1), mapping(deployment.content.get("status"))
    ready = status.get("readyReplicas") or 0
    pods = controller_pods(live, deployment)
    broken = [each for each in pods if not live.is_fine(each)]
    # Without pods and status, nothing is known.
    works = len(broken) < len(pods) if pods else bool(ready or not status)
    if works and wanted != 0:
        return None
    shown = [Evidence(deployment.title, "status.readyReplicas", f"{ready} of {wanted}")]
    for pod in broken[:1]:
        states = [one.waiting or one.ended for one in live.containers(pod) if one.waiting or one.ended]
        shown += [Evidence(pod.title, "status.containerStatuses", each) for each in states[:1]]
        shown += [
            live.condition_evidence(pod, one) for one in live.conditions(pod) if one.status == "False" and one.message
        ]
    text = "is scaled to 0" if wanted == 0 else f"has no ready pod, and wants {wanted}"
    fix = f"find out why pod {broken[0].name} isn't ready" if broken else f"start {deployment.name}"
    because = component_cause(live, broken[0]) if broken and wanted != 0 else None
    return ControllerFault(text, tuple(shown), fix, kubectl("describe", deployment), because)


def controller_logs(live: Live, deployment: Object, *texts: str) -> Iterator[Evidence]:
    """Yield the last log line of a controller that has one of some texts."""
    for pod in controller_pods(live, deployment):
        for container, line in live.log_lines(pod, *texts):
            yield Evidence(f"log {pod.name}/{container}", "", line[:300])
            return


def controller_pods(live: Live, deployment: Object) -> list[Object]:
    """Return the pods of a Deployment."""
    below = live.owned(deployment, "ReplicaSet")
    return [pod for each in below for pod in live.owned(each, "Pod")]

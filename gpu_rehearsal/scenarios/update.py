"""Update: a running stack with work on it is changed, and the pods that end are compared with what was announced."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gpu_facts.labels import NODE_GROUP, NODE_POOL
from gpu_rehearsal.assemblies import Assembly
from gpu_rehearsal.cloudformation.events import Event
from gpu_rehearsal.cluster.pod_status import is_over, is_ready
from gpu_rehearsal.report import Line, Outcome
from gpu_rehearsal.scenarios.scale import one_node_more, waits_for_hands
from gpu_rehearsal.scenarios.witnesses import cause, wait_until_none, waits_for_the_absent
from gpu_rehearsal.stage import Stage

SCENARIO = "Update"
_RELEASE = "Custom::AWSCDK-EKS-HelmChart"
# How long pods that an update replaces may take to end and to run again, on new nodes if need be.
SETTLE_SECONDS = 300.0
# How long they may take before a node is added by hand: pods of a node that is gone are deleted after 40 s.
PATIENCE_SECONDS = 60.0
# Parts of the errors that the simulators return for a change that they don't support.
_UNPLAYED = ("nothing here updates", "nothing here removes", "nothing here plays", "is not played")


@dataclass(frozen=True, kw_only=True, slots=True)
class Announced:
    """A prediction of what a change does.

    Attributes:
        fails: Why the update fails; empty if it works.
        ends: Names of the pools, workloads and releases whose pods end.
        drifts: Those of them whose nodes an autoscaler may replace later.
    """

    fails: tuple[str, ...] = ()
    ends: frozenset[str] = frozenset()
    drifts: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class Pod:
    """A running pod.

    Attributes:
        name: Namespace and name of its workload, or of itself.
        parts: Names whose announced end explains its own: its workload, its release, the pool of its node.
        node: Name of its node.
        of_daemon_set: Whether each node has one of its kind, so that it ends with its node.
    """

    name: str
    parts: frozenset[str]
    node: str = ""
    of_daemon_set: bool = False


Announce = Callable[[Assembly, Assembly], Announced]


def update(stage: Stage, versions: Sequence[tuple[str, Assembly]], announce: Announce) -> Iterator[Line]:
    """Update a stack from each version to the next, and report on each update.

    Args:
        stage: Where the first version is deployed.
        versions: What changed, and the assembly with all changes so far; of the first, nothing changed.
        announce: Predicts what a change does.
    """
    before, drifts = versions[0][1], frozenset[str]()
    for number, (what, after) in enumerate(versions[1:], start=1):
        announced, pods = announce(before, after), running_pods(stage)
        events = stage.update(after)
        by_hand = waits_for_hands(stage)
        runs = wait_until_none(lambda: _unready(stage), PATIENCE_SECONDS if by_hand else SETTLE_SECONDS)
        if not runs and by_hand and one_node_more(stage):
            wait_until_none(lambda: _unready(stage), SETTLE_SECONDS)
        nodes = {each["metadata"]["name"] for each in stage.client.list("/api/v1/nodes")}
        # An autoscaler may remove a node without work at any time.
        stays = nodes | {each.node for each in pods.values() if not each.of_daemon_set}
        gone = [pods[uid] for uid in pods.keys() - running_pods(stage).keys()]
        drifts |= announced.drifts
        ended = [each for each in gone if each.node in stays]
        outcome, text = compare(events, ended, announced, drifts=drifts, unready=_unready(stage))
        yield Line(scenario=SCENARIO, promise=f"{number}. {what}", outcome=outcome, text=text)
        if not any(each.failed for each in events):
            before = after
        elif stage.stacks[after.stack].status == "UPDATE_ROLLBACK_FAILED":
            text = "its rollback failed, and no such stack can be updated"
            yield Line(scenario=SCENARIO, promise="the rest of the updates", outcome=Outcome.NOT_PLAYED, text=text)
            return


def compare(
    events: Sequence[Event],
    ended: Sequence[Pod],
    announced: Announced,
    *,
    drifts: frozenset[str] = frozenset(),
    unready: Sequence[str] = (),
) -> tuple[Outcome, str]:
    """Compare an update with what was announced.

    Args:
        events: What became of each changed resource.
        ended: Pods that ran before and don't run any more.
        announced: What was announced of it.
        drifts: Pools whose nodes are replaced since this update or an earlier one.
        unready: Nodes, DaemonSets and pods that aren't ready afterwards, with the cause.
    """
    failed = [each for each in events if each.failed]
    why = "; ".join(f"{each.logical_id}: {each.reason}" for each in failed)
    if any(text in each.reason for each in failed for text in _UNPLAYED):
        return Outcome.NOT_PLAYED, why
    if failed and not announced.fails:
        return Outcome.FAILED, f"it fails, which review doesn't announce: {why}"
    if announced.fails and not failed:
        return Outcome.FAILED, f"it works, but review announces that it fails: {'; '.join(announced.fails)}"
    surprising = sorted({each.name for each in ended if not each.parts & (announced.ends | drifts)})
    if surprising:
        return Outcome.FAILED, f"pods end that review doesn't announce: {', '.join(surprising)}"
    if unready:
        return Outcome.FAILED, f"pods don't run afterwards: {'; '.join(unready)}"
    pods = ", ".join(sorted({each.name for each in ended})) or "no pod"
    changed = len({each.logical_id for each in events})
    return Outcome.HELD, f"fails as announced: {why}" if failed else f"{changed} resources changed, {pods} ended"


def running_pods(stage: Stage) -> dict[str, Pod]:
    """Return the running pods by uid."""
    listed, logical_ids = stage.client.list("/api/v1/nodes"), _logical_ids(stage)
    nodes = {str(each["metadata"]["name"]): each["metadata"].get("labels", {}) for each in listed}
    found = {}
    for each in stage.client.list("/api/v1/pods"):
        metadata = each["metadata"]
        on = str(each["spec"].get("nodeName"))
        if not is_ready(each) or "deletionTimestamp" in metadata or on not in nodes:
            continue
        owner = next(iter(metadata.get("ownerReferences", ())), {"kind": "", "name": metadata["name"]})
        workload = str(owner["name"]).removesuffix(f"-{metadata.get('labels', {}).get('pod-template-hash', '')}")
        labels = nodes[on]
        release = metadata.get("labels", {}).get("app.kubernetes.io/instance", "")
        deployed = logical_ids.get(labels.get(NODE_GROUP, ""), set()) | logical_ids.get(release, set())
        found[str(metadata["uid"])] = Pod(
            name=f"{metadata['namespace']}/{workload}",
            parts=frozenset({workload, release, labels.get(NODE_POOL, ""), *deployed} - {""}),
            node=on,
            of_daemon_set=owner["kind"] == "DaemonSet",
        )
    return found


def _logical_ids(stage: Stage) -> dict[str, set[str]]:
    """Return the logical ids of each release, and of each node group and its launch template, by their names."""
    found = {}
    for stack in stage.stacks.values():
        types = {name: each.resource.type for name, each in stack.resources.items()}
        for name, each in stack.resources.items():
            if types[name] == "AWS::EKS::Nodegroup":
                templates = {one for one in each.after if types.get(one) == "AWS::EC2::LaunchTemplate"}
                found[each.made.ref.rpartition("/")[2]] = {name} | templates
            elif types[name] == _RELEASE:
                found[str(each.properties["Release"])] = {name}
    return found


def _unready(stage: Stage) -> list[str]:
    """Return what isn't ready, with the cause: nodes whose instance has ended, DaemonSets that are updated, and pods.

    Pods that wait for programs that aren't simulated are left out. A node stays a while after its instance has ended,
    and its pods count as running until the garbage collector of pods deletes them.
    """
    nodes = {str(each["metadata"]["name"]): each["spec"] for each in stage.client.list("/api/v1/nodes")}
    pages = stage.aws.client("ec2").get_paginator("describe_instances").paginate()
    instances = (each for page in pages for group in page["Reservations"] for each in group["Instances"])
    running = {each["InstanceId"] for each in instances if each["State"]["Name"] in ("pending", "running")}
    found = [
        f"node {name}: its instance has ended"
        for name, spec in nodes.items()
        if str(spec.get("providerID")).rpartition("/")[2] not in running
    ]
    # A DaemonSet replaces its pods one at a time, so pods that it hasn't replaced yet are ready.
    for each in stage.client.list("/apis/apps/v1/daemonsets"):
        metadata, status = each["metadata"], each["status"]
        updated = status.get("updatedNumberScheduled", 0) >= status["desiredNumberScheduled"]
        if status.get("observedGeneration") != metadata["generation"] or not updated:
            found.append(f"DaemonSet {metadata['namespace']}/{metadata['name']}: its update isn't complete")
    for each in stage.client.list("/api/v1/pods"):
        node, name = each["spec"].get("nodeName"), f"{each['metadata']['namespace']}/{each['metadata']['name']}"
        if node and node not in nodes:
            found.append(f"{name}: its node {node} is gone")
        elif not is_ready(each) and not is_over(each) and not waits_for_the_absent(stage, each):
            found.append(f"{name}: {cause(stage, each)}")
    return found

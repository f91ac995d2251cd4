"""Create and Update: stacks are created, and a running stack is updated.

Create: every resource is created, each DaemonSet runs on its nodes, and every pod and Service of the stack works.
Update: pods run while a stack is updated, and the pods that end are compared with the announced ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from gpu_facts.kubernetes import KUBE_SYSTEM
from gpu_facts.labels import INSTANCE_TYPE, NODE_GROUP, NODE_POOL
from gpu_rehearsal.assemblies import Assembly
from gpu_rehearsal.cloudformation.changes import Event
from gpu_rehearsal.cluster.client import Client, Object
from gpu_rehearsal.cluster.pod_status import is_over, is_ready
from gpu_rehearsal.report import Line, Moment, Outcome, Report
from gpu_rehearsal.scenarios.pools import cause, event_messages, unsimulated_dependency, wait_until, wait_until_none
from gpu_rehearsal.scenarios.scale import MAX_ROUNDS, NO_AUTOSCALER, grow_node_groups, needs_manual_scaling
from gpu_rehearsal.stage import RELEASE_TYPE, Stage

CREATE = "Create"
_KINDS = {"Deployment": "/apis/apps/v1/deployments", "StatefulSet": "/apis/apps/v1/statefulsets"}
_PROBES = {"startupProbe", "readinessProbe", "livenessProbe"}
_JOBS, _PODS = "/apis/batch/v1/jobs", "/api/v1/pods"
# Helm sets it on every object that it installs.
# Source: https://github.com/helm/helm/blob/v3.18.0/pkg/action/validate.go (helmReleaseNameAnnotation)
_RELEASE_ANNOTATION = "meta.helm.sh/release-name"
# Max seconds until a job ends. Simulated pods end after some seconds.
END_SECONDS = 60.0
# Max seconds until pods of a complete stack run. Images aren't pulled here.
_SETTLE_SECONDS = 120.0
# How long pods may wait for devices of existing nodes before a node is added by hand.
_PATIENCE_SECONDS = 15.0


def workloads(stage: Stage) -> Iterator[Line]:
    """Report on each Deployment, StatefulSet, Job, lone Pod and Service outside charts and add-ons."""
    client = stage.client
    for kind, path in _KINDS.items():
        for each in filter(_is_own, client.list(path)):
            yield _line(stage, kind, each, wanted=each["spec"].get("replicas", 1), none="it has no replicas")
    for each in filter(_is_own, client.list(_JOBS)):
        wanted = 0 if each["spec"].get("suspend") else each["spec"].get("completions") or 1
        yield _line(stage, "Job", each, wanted=wanted, none="it is suspended")
    for each in filter(_is_own, client.list(_PODS)):
        if not each["metadata"].get("ownerReferences"):
            yield _line(stage, "Pod", each, wanted=1, none="")
    for each in filter(_is_own, client.list("/api/v1/services")):
        if each["spec"].get("selector") and not each["metadata"].get("ownerReferences"):
            yield _service_line(stage, each)
    probed = [
        f"{kind} {each['metadata']['namespace']}/{each['metadata']['name']}"
        for kind, path in {**_KINDS, "Job": _JOBS}.items()
        for each in filter(_is_own, client.list(path))
        if any(_PROBES & container.keys() for container in each["spec"]["template"]["spec"]["containers"])
    ]
    if probed:
        text = f"simulated pods become ready after some seconds: {', '.join(probed)}"
        yield Line(scenario=CREATE, promise="probes and ports answer", outcome=Outcome.NOT_PLAYED, text=text)


def _service_line(stage: Stage, service: Object) -> Line:
    namespace, name = service["metadata"]["namespace"], service["metadata"]["name"]
    selector = ",".join(f"{key}={value}" for key, value in service["spec"]["selector"].items())
    pods = stage.client.list(f"/api/v1/namespaces/{quote(namespace)}/pods", labelSelector=selector)
    if any(map(is_ready, pods)):
        outcome, text = Outcome.HELD, ""
    elif pods or _has_idle_pods(stage, service):
        outcome, text = Outcome.NOT_PLAYED, "no pod that it selects runs now"
    else:
        outcome, text = Outcome.FAILED, f"its selector {selector} selects no pod"
    return Line(scenario=CREATE, promise=f"Service {namespace}/{name} selects a pod", outcome=outcome, text=text)


def _has_idle_pods(stage: Stage, service: Object) -> bool:
    """Whether a workload without replicas would have pods that a Service selects."""
    found = (each for path in _KINDS.values() for each in stage.client.list(path))
    here = (each for each in found if each["metadata"]["namespace"] == service["metadata"]["namespace"])
    labels = (each["spec"]["template"]["metadata"].get("labels", {}) for each in here)
    return any(service["spec"]["selector"].items() <= each.items() for each in labels)


def _is_own(workload: Object) -> bool:
    metadata = workload["metadata"]
    return metadata["namespace"] != KUBE_SYSTEM and _RELEASE_ANNOTATION not in metadata.get("annotations", {})


def _line(stage: Stage, kind: str, workload: Object, *, wanted: int, none: str) -> Line:
    metadata = workload["metadata"]
    outcome, text = _workload_outcome(stage, workload, _pods(stage, kind, workload), wanted, none)
    if kind == "Job" and outcome is Outcome.HELD:
        path = stage.client.object_path({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata})
        ended = wait_until(lambda: _has_ended(stage.client.find(path)), END_SECONDS)
        outcome, text = (outcome, f"{text}; it ended") if ended else (Outcome.FAILED, f"{text}; it doesn't end")
    promise = f"{kind} {metadata['namespace']}/{metadata['name']} runs"
    return Line(scenario=CREATE, promise=promise, outcome=outcome, text=text)


def _has_ended(job: Object | None) -> bool:
    """Whether a job succeeded. A job is only removed after its success."""
    conditions = job["status"].get("conditions", ()) if job else ()
    return job is None or any(each["type"] == "Complete" and each["status"] == "True" for each in conditions)


def _pods(stage: Stage, kind: str, workload: Object) -> list[Object]:
    if kind == "Pod":
        return [workload]
    labels = ",".join(f"{key}={value}" for key, value in workload["spec"]["selector"].get("matchLabels", {}).items())
    path = f"/api/v1/namespaces/{quote(workload['metadata']['namespace'])}/pods"
    return stage.client.list(path, labelSelector=labels)


def _workload_outcome(
    stage: Stage, workload: Object, pods: list[Object], wanted: int, none: str
) -> tuple[Outcome, str]:
    if not wanted:
        return Outcome.NOT_PLAYED, none
    if absent := next(filter(None, (unsimulated_dependency(stage, each) for each in pods)), ""):
        return Outcome.NOT_PLAYED, absent
    good = [each for each in pods if is_ready(each) or each["status"].get("phase") == "Succeeded"]
    failing = [each for each in pods if each not in good]
    if len(good) >= wanted and not failing:
        places = sorted({_node_description(stage, each) for each in good})
        return Outcome.HELD, f"{len(good)} {'pod' if len(good) == 1 else 'pods'}, {'; '.join(places)}"
    why = [cause(stage, each) for each in failing] or event_messages(stage.client, workload)
    return Outcome.FAILED, "; ".join(dict.fromkeys((f"{len(good)} of {wanted} pods", *why)))


def _node_description(stage: Stage, pod: Object) -> str:
    """Return the type and pool of a pod's node and the pod's devices, without names, which differ between plays."""
    node = stage.client.find(f"/api/v1/nodes/{pod['spec'].get('nodeName')}") or {"metadata": {}}
    labels = node["metadata"].get("labels", {})
    pool = labels.get(NODE_POOL) or labels.get(NODE_GROUP)
    where = f"on {labels.get(INSTANCE_TYPE)}" + (f" of {pool}" if pool else "") if labels else "on a node that is gone"
    devices = ", ".join(dict.fromkeys(_devices(pod)))
    return where + (f" with {devices}" if devices else "")


def _devices(pod: Object) -> Iterator[str]:
    for container in pod["spec"]["containers"]:
        resources = container.get("resources", {})
        yield from (f"{amount} {name}" for name, amount in resources.get("limits", {}).items() if "/" in name)
        yield from (f"claim {each['name']}" for each in resources.get("claims", ()))


def create(
    stage: Stage,
    assemblies: Iterable[Assembly],
    report: Report,
    *,
    first: Callable[[Assembly], Iterable[Line]] = lambda assembly: (),
) -> bool:
    """Deploy stacks one after the other, and report whether their pods run. Return whether all stacks were created.

    Args:
        assemblies: The stacks, in the order of deployment.
        first: Called before each stack is created.
    """
    for assembly in assemblies:
        report.add(first(assembly))
        events = stage.deploy(assembly)
        report.add(_creation_lines(stage, assembly.stack, events))
        report.follow(_moments(assembly.stack, events))
        if any(each.status == "CREATE_FAILED" for each in events):
            return False
    report.add(_readiness_lines(stage))
    report.add(_substitution_lines(stage))
    return True


def _moments(stack: str, events: Iterable[Event]) -> list[Moment]:
    """Return the time of each creation. Names include the stack, because stacks may have the same logical ids."""
    return [
        Moment(what=f"{stack}/{each.logical_id}", began=each.started, ended=each.ended)
        for each in events
        if each.status in ("CREATE_COMPLETE", "CREATE_FAILED")
    ]


def _creation_lines(stage: Stage, stack: str, events: list[Event]) -> Iterator[Line]:
    counts = Counter(each.status for each in events)
    created = counts["CREATE_COMPLETE"]
    if not counts["CREATE_FAILED"]:
        yield Line(scenario=CREATE, promise=f"{stack}: {created} resources are created", outcome=Outcome.HELD)
    for each in sorted(events, key=lambda each: each.logical_id):
        promise = f"{stack}: {each.type} {each.logical_id} is created"
        if each.status == "CREATE_FAILED":
            text = each.reason if each.type != RELEASE_TYPE else "; ".join((each.reason, *_failing(stage)))
            yield Line(scenario=CREATE, promise=promise, outcome=Outcome.FAILED, text=text)
        elif each.status == "NOT_PLAYED":
            yield Line(scenario=CREATE, promise=promise, outcome=Outcome.NOT_PLAYED, text=each.reason)


def _failing(stage: Stage) -> list[str]:
    """Return why pods aren't ready, once for each workload. helm waits for them without a report."""
    known = stage.stopped()
    found = {f"pods of {_owner(each)}": cause(stage, each) for each in _unready(stage.client)}
    return [f"{name}: {why}" for name, why in sorted(found.items()) if not known]


def _readiness_lines(stage: Stage) -> Iterator[Line]:
    added = _scale_manually(stage) if needs_manual_scaling(stage) else 0
    wait_until_none(lambda: [] if stage.stopped() else _unready_causes(stage), _SETTLE_SECONDS)
    settled = not _unready_causes(stage)
    absent = list(_unsimulated_lines(stage))
    known = [f"after {added} nodes were added to its groups by hand"] if added else []
    known += ["except pods that are not played"] if absent else []
    causes = [*_unready_causes(stage), *_never_joined(stage)]
    yield Line(
        scenario=CREATE,
        promise="every pod that the stack installs runs",
        outcome=Outcome.HELD if settled else Outcome.FAILED,
        text=", ".join(known) if settled else "; ".join(causes),
    )
    yield from absent
    if added:
        yield Line(
            scenario=CREATE,
            promise="its autoscaler creates the nodes that its pods wait for",
            outcome=Outcome.NOT_PLAYED,
            text=NO_AUTOSCALER,
        )
    yield from workloads(stage)


def daemon_sets(stage: Stage) -> Iterator[Line]:
    """Report on every DaemonSet, after the pools had nodes."""
    path = "/apis/apps/v1/daemonsets"
    wait_until_none(lambda: [each for each in stage.client.list(path) if _daemon_set_shortfall(each)], _SETTLE_SECONDS)
    for each in sorted(stage.client.list(path), key=lambda each: str(each["metadata"]["name"])):
        yield _daemon_set_line(stage, each)


def _scale_manually(stage: Stage) -> int:
    """Add nodes while pods wait for nodes, and return how many."""
    added = 0
    for _ in range(MAX_ROUNDS):
        wait_until_none(lambda: _starting_pods(stage.client), _SETTLE_SECONDS)
        if wait_until_none(lambda: _unready_causes(stage), _PATIENCE_SECONDS):
            break
        more = grow_node_groups(stage)
        added += len(more)
        if not more:
            break
        wait_until_none(lambda: _unready_causes(stage), _SETTLE_SECONDS / 2)
    return added


def _unready_causes(stage: Stage) -> list[str]:
    """Return each unready pod with its cause, except pods that wait for something that isn't simulated."""
    found = _unready(stage.client)
    return sorted(_pod_cause(stage, each) for each in found if not unsimulated_dependency(stage, each))


def _unsimulated_lines(stage: Stage) -> Iterator[Line]:
    """Yield a line for the pods of each owner that wait for something that isn't simulated."""
    found = {_owner(each): why for each in _unready(stage.client) if (why := unsimulated_dependency(stage, each))}
    for owner, why in sorted(found.items()):
        yield Line(scenario=CREATE, promise=f"pods of {owner} run", outcome=Outcome.NOT_PLAYED, text=why)


def _owner(pod: Object) -> str:
    """Return namespace and name of a pod's workload, without generated suffixes."""
    if job := pod["metadata"].get("labels", {}).get("batch.kubernetes.io/job-name"):
        return f"{pod['metadata']['namespace']}/{job}"
    name = str(pod["metadata"].get("generateName") or pod["metadata"]["name"]).rstrip("-")
    hashed = pod["metadata"].get("labels", {}).get("pod-template-hash")
    return f"{pod['metadata']['namespace']}/{name.removesuffix(f'-{hashed}')}"


def _never_joined(stage: Stage) -> list[str]:
    return sorted({f"an instance didn't become a node: {why}" for why in stage.nodes.never.values()})


def _starting_pods(client: Client) -> list[str]:
    """Return pending pods that have a node or that the scheduler hasn't seen."""
    found = client.list("/api/v1/pods", fieldSelector="status.phase=Pending")
    return [each["metadata"]["name"] for each in found if not _is_unschedulable(each)]


def _is_unschedulable(pod: Object) -> bool:
    return any(each.get("reason") == "Unschedulable" for each in pod["status"].get("conditions", ()))


def _substitution_lines(stage: Stage) -> Iterator[Line]:
    for service in sorted(stage.webhooks.substitutes):
        yield Line(
            scenario=CREATE,
            promise=f"webhooks of {service} allow and reject the right objects",
            outcome=Outcome.NOT_PLAYED,
            text="its program isn't available; every request was allowed as soon as a pod of it was ready",
        )
    for image, version in sorted(stage.programs.substitutes.items()):
        yield Line(
            scenario=CREATE,
            promise=f"the program of {image} runs",
            outcome=Outcome.NOT_PLAYED,
            text=f"it isn't available; {version} ran instead",
        )


def _unready(client: Client) -> list[Object]:
    """Return each pod that isn't ready and hasn't succeeded."""
    found = client.list("/api/v1/pods")
    return [each for each in found if not is_ready(each) and each["status"].get("phase") != "Succeeded"]


def _pod_cause(stage: Stage, pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}: {cause(stage, pod)}"


def _daemon_set_shortfall(daemon_set: Object) -> str:
    """Return how a DaemonSet's pods differ from the expected ones; empty if they don't."""
    status = daemon_set["status"]
    wanted, ready = status["desiredNumberScheduled"], status.get("numberReady", 0)
    astray = status.get("numberMisscheduled", 0)
    return f"{ready} of {wanted}, {astray} misscheduled" if ready != wanted or astray else ""


def _daemon_set_line(stage: Stage, daemon_set: Object) -> Line:
    name, astray = str(daemon_set["metadata"]["name"]), _daemon_set_shortfall(daemon_set)
    seen = daemon_set["status"]["desiredNumberScheduled"] or name in stage.daemon_sets_seen
    held, why = (Outcome.HELD, "") if seen else (Outcome.NOT_PLAYED, "no node that it selects was created")
    return Line(
        scenario=CREATE,
        promise=f"DaemonSet {name} runs on every node that it selects and whose taints it tolerates",
        outcome=Outcome.FAILED if astray else held,
        text=astray or why,
    )


UPDATE = "Update"
# Max seconds until replaced pods run again, possibly on new nodes.
_UPDATE_SECONDS = 300.0
# Seconds before a node is added by hand. Pods of a removed node are deleted after 40 s.
_UPDATE_PATIENCE_SECONDS = 60.0
# Parts of the errors that the simulators return for a change that they don't support.
_UNSUPPORTED = ("nothing here updates", "nothing here removes", "nothing here simulates", "isn't simulated")


@dataclass(frozen=True, kw_only=True, slots=True)
class Announced:
    """The predicted effects of an update.

    Attributes:
        fails: Why the update fails; empty if it works.
        ends: Names of the pools, workloads and releases whose pods end.
        drifts: Names of pools whose nodes an autoscaler may replace later.
    """

    fails: tuple[str, ...] = ()
    ends: frozenset[str] = frozenset()
    drifts: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class Pod:
    """A running pod.

    Attributes:
        name: Namespace and name of its workload, or of itself.
        parts: Names whose announced end includes the pod: its workload, its release, the pool of its node.
        node: Name of its node.
        of_daemon_set: Whether a DaemonSet owns it, so that it ends with its node.
    """

    name: str
    parts: frozenset[str]
    node: str = ""
    of_daemon_set: bool = False


Announce = Callable[[Assembly, Assembly], Announced]


def update(stage: Stage, versions: Sequence[tuple[str, Assembly]], announce: Announce) -> Iterator[Line]:
    """Update a stack from each version to the next, and report on each update.

    Args:
        stage: The environment with the deployed first version.
        versions: Name of the change, and the assembly with all changes so far. The first version has no change.
        announce: Predicts the effects of an update.
    """
    before, drifts = versions[0][1], frozenset[str]()
    for number, (what, after) in enumerate(versions[1:], start=1):
        announced, pods = announce(before, after), _running_pods(stage)
        events = stage.update(after)
        by_hand = needs_manual_scaling(stage)
        runs = wait_until_none(
            lambda: _unready_objects(stage), _UPDATE_PATIENCE_SECONDS if by_hand else _UPDATE_SECONDS
        )
        if not runs and by_hand and grow_node_groups(stage):
            wait_until_none(lambda: _unready_objects(stage), _UPDATE_SECONDS)
        nodes = {each["metadata"]["name"] for each in stage.client.list("/api/v1/nodes")}
        # An autoscaler may remove a node without work at any time.
        stays = nodes | {each.node for each in pods.values() if not each.of_daemon_set}
        gone = [pods[uid] for uid in pods.keys() - _running_pods(stage).keys()]
        drifts |= announced.drifts
        ended = [each for each in gone if each.node in stays]
        outcome, text = compare(events, ended, announced, drifts=drifts, unready=_unready_objects(stage))
        yield Line(scenario=UPDATE, promise=f"{number}. {what}", outcome=outcome, text=text)
        if not any(each.failed for each in events):
            before = after
        elif stage.stacks[after.stack].status == "UPDATE_ROLLBACK_FAILED":
            text = "its rollback failed, and no such stack can be updated"
            yield Line(scenario=UPDATE, promise="the rest of the updates", outcome=Outcome.NOT_PLAYED, text=text)
            return


def compare(
    events: Sequence[Event],
    ended: Sequence[Pod],
    announced: Announced,
    *,
    drifts: frozenset[str] = frozenset(),
    unready: Sequence[str] = (),
) -> tuple[Outcome, str]:
    """Compare an update with its announcement.

    Args:
        events: Events of the changed resources.
        ended: Pods that ran before and don't run any more.
        announced: The announcement.
        drifts: Pools whose nodes are replaced since this update or an earlier one.
        unready: Nodes, DaemonSets and pods that aren't ready afterwards, with the cause.
    """
    failed = [each for each in events if each.failed]
    why = "; ".join(f"{each.logical_id}: {each.reason}" for each in failed)
    if any(text in each.reason for each in failed for text in _UNSUPPORTED):
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


def _running_pods(stage: Stage) -> dict[str, Pod]:
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
                found[each.physical.ref.rpartition("/")[2]] = {name} | templates
            elif types[name] == RELEASE_TYPE:
                found[str(each.properties["Release"])] = {name}
    return found


def _unready_objects(stage: Stage) -> list[str]:
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
        elif not is_ready(each) and not is_over(each) and not unsimulated_dependency(stage, each):
            found.append(f"{name}: {cause(stage, each)}")
    return found

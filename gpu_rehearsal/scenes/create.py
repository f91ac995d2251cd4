"""Create: every resource is made, every DaemonSet reaches its nodes, every pod that the stack brings runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from gpu_rehearsal.assemblies import Assembly
from gpu_rehearsal.players.cloudformation.events import Event
from gpu_rehearsal.players.cluster.client import Client, Object
from gpu_rehearsal.players.cluster.pod_status import is_ready
from gpu_rehearsal.report import Line, Moment, Outcome, Report
from gpu_rehearsal.scenes.scale import NO_AUTOSCALER, ROUNDS, one_node_more, waits_for_hands
from gpu_rehearsal.scenes.witnesses import cause, wait_until_none, waits_for_the_absent
from gpu_rehearsal.scenes.workloads import workloads
from gpu_rehearsal.stage import Stage

SCENE = "Create"
_RELEASE = "Custom::AWSCDK-EKS-HelmChart"
# How long pods of a stack may take after it is complete; images are not pulled here.
SETTLE_SECONDS = 120.0
# How long pods may wait for what a node that is there will still show, before another is asked for.
PATIENCE_SECONDS = 15.0


def create(
    stage: Stage,
    assemblies: Iterable[Assembly],
    report: Report,
    *,
    first: Callable[[Assembly], Iterable[Line]] = lambda assembly: (),
) -> bool:
    """Deploy stacks one after the other, and report whether what they bring runs; return whether all were created.

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
    report.add(_settled(stage))
    report.add(_substitution_lines(stage))
    return True


def _moments(stack: str, events: Iterable[Event]) -> list[Moment]:
    """Return when each resource was made; the same logical id may stand in several stacks."""
    return [
        Moment(
            what=f"{stack}/{each.logical_id}",
            began=each.started,
            ended=each.ended,
        )
        for each in events
        if each.status in ("CREATE_COMPLETE", "CREATE_FAILED")
    ]


def _creation_lines(stage: Stage, stack: str, events: list[Event]) -> Iterator[Line]:
    counts = Counter(each.status for each in events)
    made = counts["CREATE_COMPLETE"]
    if not counts["CREATE_FAILED"]:
        yield Line(scene=SCENE, promise=f"{stack}: {made} resources are created", outcome=Outcome.HELD)
    for each in sorted(events, key=lambda each: each.logical_id):
        promise = f"{stack}: {each.type} {each.logical_id} is created"
        if each.status == "CREATE_FAILED":
            text = each.reason if each.type != _RELEASE else "; ".join((each.reason, *_failing(stage)))
            yield Line(scene=SCENE, promise=promise, outcome=Outcome.FAILED, text=text)
        elif each.status == "NOT_PLAYED":
            yield Line(scene=SCENE, promise=promise, outcome=Outcome.NOT_PLAYED, text=each.reason)


def _failing(stage: Stage) -> list[str]:
    """Return why pods aren't ready, once for each workload: helm waits for them and doesn't report it."""
    known = stage.stopped()
    found = {f"pods of {_owner(each)}": cause(stage, each) for each in _unready(stage.client)}
    return [f"{name}: {why}" for name, why in sorted(found.items()) if not known]


def _settled(stage: Stage) -> Iterator[Line]:
    asked = _with_hands(stage) if waits_for_hands(stage) else 0
    wait_until_none(lambda: [] if stage.stopped() else _that_should_run(stage), SETTLE_SECONDS)
    settled = not _that_should_run(stage)
    absent = list(_absent(stage))
    known = [f"after {asked} nodes were asked of its groups by hand"] if asked else []
    known += ["but for those that are not played"] if absent else []
    said = [*_that_should_run(stage), *_never_joined(stage)]
    yield Line(
        scene=SCENE,
        promise="every pod that the stack brings runs",
        outcome=Outcome.HELD if settled else Outcome.FAILED,
        text=", ".join(known) if settled else "; ".join(said),
    )
    yield from absent
    if asked:
        yield Line(
            scene=SCENE,
            promise="its autoscaler makes the nodes that its pods wait for",
            outcome=Outcome.NOT_PLAYED,
            text=NO_AUTOSCALER,
        )
    yield from workloads(stage)


def daemon_sets(stage: Stage) -> Iterator[Line]:
    """Report on every DaemonSet, after the pools had nodes."""
    path = "/apis/apps/v1/daemonsets"
    wait_until_none(lambda: [each for each in stage.client.list(path) if _astray(each)], SETTLE_SECONDS)
    for each in sorted(stage.client.list(path), key=lambda each: str(each["metadata"]["name"])):
        yield _reach(stage, each)


def _with_hands(stage: Stage) -> int:
    """Ask for nodes while pods wait for some, and return for how many."""
    asked = 0
    for _ in range(ROUNDS):
        wait_until_none(lambda: _that_start(stage.client), SETTLE_SECONDS)
        if wait_until_none(lambda: _that_should_run(stage), PATIENCE_SECONDS):
            break
        more = one_node_more(stage)
        asked += len(more)
        if not more:
            break
        wait_until_none(lambda: _that_should_run(stage), SETTLE_SECONDS / 2)
    return asked


def _that_should_run(stage: Stage) -> list[str]:
    """Return each unready pod with why, but for those that wait for what is not on stage."""
    found = _unready(stage.client)
    return sorted(_pod_cause(stage, each) for each in found if not waits_for_the_absent(stage, each))


def _absent(stage: Stage) -> Iterator[Line]:
    """Yield a line for the pods of each owner that wait for what is not on stage."""
    found = {_owner(each): why for each in _unready(stage.client) if (why := waits_for_the_absent(stage, each))}
    for owner, why in sorted(found.items()):
        yield Line(scene=SCENE, promise=f"pods of {owner} run", outcome=Outcome.NOT_PLAYED, text=why)


def _owner(pod: Object) -> str:
    """Return what a pod is of, without what is made up for each."""
    if job := pod["metadata"].get("labels", {}).get("batch.kubernetes.io/job-name"):
        return f"{pod['metadata']['namespace']}/{job}"
    name = str(pod["metadata"].get("generateName") or pod["metadata"]["name"]).rstrip("-")
    hashed = pod["metadata"].get("labels", {}).get("pod-template-hash")
    return f"{pod['metadata']['namespace']}/{name.removesuffix(f'-{hashed}')}"


def _never_joined(stage: Stage) -> list[str]:
    return sorted({f"an instance became no node: {why}" for why in stage.nodes.never.values()})


def _that_start(client: Client) -> list[str]:
    """Return the pods that have a node and are not ready, and those that nobody has looked at."""
    found = client.list("/api/v1/pods", fieldSelector="status.phase=Pending")
    return [each["metadata"]["name"] for each in found if not _is_unschedulable(each)]


def _is_unschedulable(pod: Object) -> bool:
    return any(each.get("reason") == "Unschedulable" for each in pod["status"].get("conditions", ()))


def _substitution_lines(stage: Stage) -> Iterator[Line]:
    for service in sorted(stage.webhooks.stood_in):
        yield Line(
            scene=SCENE,
            promise=f"webhooks of {service} let pass what they should",
            outcome=Outcome.NOT_PLAYED,
            text="its program is not here; all was let pass as soon as a pod of it was ready",
        )
    for image, version in sorted(stage.programs.stood_in.items()):
        yield Line(
            scene=SCENE,
            promise=f"the program of {image} runs",
            outcome=Outcome.NOT_PLAYED,
            text=f"it is not here; {version} ran in its place",
        )


def _unready(client: Client) -> list[Object]:
    """Return each pod that neither runs nor has ended."""
    found = client.list("/api/v1/pods")
    return [each for each in found if not is_ready(each) and each["status"].get("phase") != "Succeeded"]


def _pod_cause(stage: Stage, pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}: {cause(stage, pod)}"


def _astray(daemon_set: Object) -> str:
    """Return how a DaemonSet's pods differ from those that it should have; empty if they don't."""
    status = daemon_set["status"]
    wanted, ready = status["desiredNumberScheduled"], status.get("numberReady", 0)
    astray = status.get("numberMisscheduled", 0)
    return f"{ready} of {wanted}, {astray} astray" if ready != wanted or astray else ""


def _reach(stage: Stage, daemon_set: Object) -> Line:
    name, astray = str(daemon_set["metadata"]["name"]), _astray(daemon_set)
    seen = daemon_set["status"]["desiredNumberScheduled"] or name in stage.daemon_sets_seen
    held, why = (Outcome.HELD, "") if seen else (Outcome.NOT_PLAYED, "no node that it selects was created")
    return Line(
        scene=SCENE,
        promise=f"DaemonSet {name} runs on every node that it selects and whose taints it tolerates",
        outcome=Outcome.FAILED if astray else held,
        text=astray or why,
    )

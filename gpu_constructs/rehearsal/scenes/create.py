"""Create: every resource is made, every DaemonSet reaches its nodes, every pod that the stack brings runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from gpu_constructs.rehearsal.assemblies import Assembly
from gpu_constructs.rehearsal.players.cloudformation.events import Event
from gpu_constructs.rehearsal.players.cluster.client import Client, Object
from gpu_constructs.rehearsal.players.cluster.pod.status import is_ready
from gpu_constructs.rehearsal.report import Line, Moment, Outcome, Report
from gpu_constructs.rehearsal.scenes.by_hand import NO_AUTOSCALER, ROUNDS, one_node_more, waits_for_hands
from gpu_constructs.rehearsal.scenes.delivery import deliver
from gpu_constructs.rehearsal.scenes.waiting import wait_until_none
from gpu_constructs.rehearsal.scenes.waiting_pods import waits_for_the_absent
from gpu_constructs.rehearsal.stage import Stage

SCENE = "Create"
# How long pods of a stack may take after it is complete; images are not pulled here.
SETTLE_SECONDS = 120.0
# How long pods may wait for what a node that is there will still show, before another is asked for.
PATIENCE_SECONDS = 15.0


def create(stage: Stage, assemblies: Iterable[Assembly], report: Report) -> bool:
    """Deploy stacks one after the other, and report whether what they bring runs; return whether all were created."""
    for assembly in assemblies:
        events = stage.deploy(assembly)
        report.add(_of_events(assembly.stack, events))
        report.follow(_moments(assembly.stack, events))
        if any(each.status == "CREATE_FAILED" for each in events):
            return False
        if assembly.files:
            report.add(deliver(stage, assembly.stack, assembly.files))
    report.add(_settled(stage))
    report.add(_stood_in(stage))
    return True


def _moments(stack: str, events: Iterable[Event]) -> list[Moment]:
    """Return when each resource was made; the same logical id may stand in several stacks."""
    return [
        Moment(
            what=f"{stack}/{each.logical_id}",
            began=each.started,
            ended=each.ended,
            after=tuple(sorted(f"{stack}/{name}" for name in each.after)),
        )
        for each in events
        if each.status in ("CREATE_COMPLETE", "CREATE_FAILED")
    ]


def _of_events(stack: str, events: list[Event]) -> Iterator[Line]:
    counts = Counter(each.status for each in events)
    made = counts["CREATE_COMPLETE"]
    if not counts["CREATE_FAILED"]:
        yield Line(scene=SCENE, promise=f"{stack}: {made} resources are created", outcome=Outcome.HELD)
    for each in sorted(events, key=lambda each: each.logical_id):
        promise = f"{stack}: {each.type} {each.logical_id} is created"
        if each.status == "CREATE_FAILED":
            yield Line(scene=SCENE, promise=promise, outcome=Outcome.FAILED, text=each.reason)
        elif each.status == "NOT_PLAYED":
            yield Line(scene=SCENE, promise=promise, outcome=Outcome.NOT_PLAYED, text=each.reason)


def _settled(stage: Stage) -> Iterator[Line]:
    asked = _with_hands(stage) if waits_for_hands(stage) else 0
    settled = wait_until_none(lambda: _that_should_run(stage), SETTLE_SECONDS)
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
    found = stage.client.list("/apis/apps/v1/daemonsets")
    for each in sorted(found, key=lambda each: str(each["metadata"]["name"])):
        yield _reach(each)


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
    return sorted(_told(each) for each in found if not waits_for_the_absent(stage, each))


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


def _stood_in(stage: Stage) -> Iterator[Line]:
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


def _told(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}: {why_not(pod)}"


def why_not(pod: Object) -> str:
    """Return why a pod is not ready, in the words of who says so."""
    said = [each for each in pod["status"].get("conditions", ()) if each["status"] != "True" and each.get("message")]
    return str(said[0]["message"]) if said else str(pod["status"].get("phase", "not seen"))


def _reach(daemon_set: Object) -> Line:
    name, status = daemon_set["metadata"]["name"], daemon_set["status"]
    wanted, ready = status["desiredNumberScheduled"], status.get("numberReady", 0)
    astray = status.get("numberMisscheduled", 0)
    return Line(
        scene=SCENE,
        promise=f"DaemonSet {name} runs on every node that it selects and whose taints it tolerates",
        outcome=Outcome.HELD if ready == wanted and not astray else Outcome.FAILED,
        text=f"{ready} of {wanted}, {astray} astray",
    )

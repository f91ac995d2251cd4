"""Workloads and Services of the stack, a line for each.

The line of a workload has where its pods run, with which devices, and whether they ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from gpu_facts.kubernetes import KUBE_SYSTEM
from gpu_facts.labels import INSTANCE_TYPE, NODE_GROUP, NODE_POOL
from gpu_rehearsal.players.cluster.client import Object
from gpu_rehearsal.players.cluster.pod_status import is_ready
from gpu_rehearsal.report import Line, Outcome
from gpu_rehearsal.scenes.witnesses import cause, event_messages, wait_until, waits_for_the_absent
from gpu_rehearsal.stage import Stage

SCENE = "Create"
_KINDS = {"Deployment": "/apis/apps/v1/deployments", "StatefulSet": "/apis/apps/v1/statefulsets"}
_PROBES = {"startupProbe", "readinessProbe", "livenessProbe"}
_JOBS, _PODS = "/apis/batch/v1/jobs", "/api/v1/pods"
# Helm puts it on every object that it installs.
# Source: https://github.com/helm/helm/blob/v3.18.0/pkg/action/validate.go (helmReleaseNameAnnotation)
_RELEASE = "meta.helm.sh/release-name"
# How long a job may take to end; simulated pods end after some seconds.
END_SECONDS = 60.0


def workloads(stage: Stage) -> Iterator[Line]:
    """Report on each Deployment, StatefulSet, Job, lone Pod and Service that isn't of a chart or an add-on."""
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
        for kind, path in _KINDS.items()
        for each in filter(_is_own, client.list(path))
        if any(_PROBES & container.keys() for container in each["spec"]["template"]["spec"]["containers"])
    ]
    if probed:
        text = f"simulated pods become ready after some seconds: {', '.join(probed)}"
        yield Line(scene=SCENE, promise="probes and ports answer", outcome=Outcome.NOT_PLAYED, text=text)


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
    return Line(scene=SCENE, promise=f"Service {namespace}/{name} selects a pod", outcome=outcome, text=text)


def _has_idle_pods(stage: Stage, service: Object) -> bool:
    """Whether a workload without replicas would have pods that a Service selects."""
    found = (each for path in _KINDS.values() for each in stage.client.list(path))
    here = (each for each in found if each["metadata"]["namespace"] == service["metadata"]["namespace"])
    labels = (each["spec"]["template"]["metadata"].get("labels", {}) for each in here)
    return any(service["spec"]["selector"].items() <= each.items() for each in labels)


def _is_own(workload: Object) -> bool:
    metadata = workload["metadata"]
    return metadata["namespace"] != KUBE_SYSTEM and _RELEASE not in metadata.get("annotations", {})


def _line(stage: Stage, kind: str, workload: Object, *, wanted: int, none: str) -> Line:
    metadata = workload["metadata"]
    outcome, text = _seen(stage, workload, _pods(stage, kind, workload), wanted, none)
    if kind == "Job" and outcome is Outcome.HELD:
        path = stage.client.object_path({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata})
        ended = wait_until(lambda: _has_ended(stage.client.find(path)), END_SECONDS)
        outcome, text = (outcome, f"{text}; it ended") if ended else (Outcome.FAILED, f"{text}; it doesn't end")
    promise = f"{kind} {metadata['namespace']}/{metadata['name']} runs"
    return Line(scene=SCENE, promise=promise, outcome=outcome, text=text)


def _has_ended(job: Object | None) -> bool:
    """Whether a job succeeded; one that is gone was removed since it did."""
    conditions = job["status"].get("conditions", ()) if job else ()
    return job is None or any(each["type"] == "Complete" and each["status"] == "True" for each in conditions)


def _pods(stage: Stage, kind: str, workload: Object) -> list[Object]:
    if kind == "Pod":
        return [workload]
    labels = ",".join(f"{key}={value}" for key, value in workload["spec"]["selector"].get("matchLabels", {}).items())
    path = f"/api/v1/namespaces/{quote(workload['metadata']['namespace'])}/pods"
    return stage.client.list(path, labelSelector=labels)


def _seen(stage: Stage, workload: Object, pods: list[Object], wanted: int, none: str) -> tuple[Outcome, str]:
    if not wanted:
        return Outcome.NOT_PLAYED, none
    if absent := next(filter(None, (waits_for_the_absent(stage, each) for each in pods)), ""):
        return Outcome.NOT_PLAYED, absent
    good = [each for each in pods if is_ready(each) or each["status"].get("phase") == "Succeeded"]
    failing = [each for each in pods if each not in good]
    if len(good) >= wanted and not failing:
        places = sorted({_place(stage, each) for each in good})
        return Outcome.HELD, f"{len(good)} {'pod' if len(good) == 1 else 'pods'}, {'; '.join(places)}"
    why = [cause(stage, each) for each in failing] or event_messages(stage.client, workload)
    return Outcome.FAILED, "; ".join(dict.fromkeys((f"{len(good)} of {wanted} pods", *why)))


def _place(stage: Stage, pod: Object) -> str:
    """Return the type and pool of a pod's node, its devices, and whether it ended: not the names, which differ."""
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

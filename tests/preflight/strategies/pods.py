"""Pods that ask for any of the things that pods ask for, and the workloads that make them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.preflight.strategies.admission import PRIORITY_CLASS, RUNTIME_CLASS
from tests.preflight.strategies.mistakes import mistaken
from tests.preflight.strategies.selection import affinity, comparing_tolerations, keys, spreads, tolerations, values
from tests.preflight.strategies.vocabulary import GPU, NAMESPACE, Json, seldom, some, written

LABELS = {"app": "pod"}
_DEVICES = (GPU, "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb", "vpc.amazonaws.com/efa")
_AMOUNTS = {
    # Sizes of nodes with four cores, with and without the DaemonSets, and a little more.
    "cpu": ("100m", "1", "0.5", "3", "3660m", "3661m", "3910m", "3911m", "3920m", "3921m", "4", "16", "96"),
    "memory": ("512Mi", "1e9", "2G", "8Gi", "13Gi", "14500Mi", "60Gi", "1.5Ti"),
    "ephemeral-storage": ("1Gi", "10Gi", "15Gi", "200Gi"),
}
_COUNTS = ("1", "2", "4", "8")
_PAGES = "hugepages-2Mi"
_RESTRICTED: Json = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
_contexts = st.sampled_from((_RESTRICTED, {"privileged": True}, {"capabilities": {"add": ["SYS_ADMIN"]}}))


@st.composite
def amounts(draw: st.DrawFn, *, devices: bool = True) -> Json:
    """Some of everything that a container may ask for."""
    found = {
        name: draw(st.sampled_from(listed))
        for name, listed in _AMOUNTS.items()
        if draw(seldom(st.just(True), one_in=2 if name == "cpu" else 4))
    }
    if devices and (device := draw(some(st.sampled_from((GPU, GPU, GPU, *_DEVICES))))):
        found[device] = draw(st.sampled_from(_COUNTS))
    if devices and found and draw(seldom(st.just(True), one_in=20)):
        found |= {_PAGES: draw(st.sampled_from(("2Mi", "64Mi", "20Gi"))), "memory": found.get("memory", "512Mi")}
    return found


@st.composite
def resources(draw: st.DrawFn) -> Json:
    """Limits that are requests as well, or requests with the limits that devices must have."""
    asked = draw(amounts())
    if not asked or not draw(seldom(st.just(True))):
        return {"limits": asked} if asked else {}
    limited = {name: amount for name, amount in asked.items() if "/" in name or name == _PAGES}
    return {"requests": asked, "limits": limited} if limited else {"requests": asked}


_ports = st.fixed_dictionaries(
    {"containerPort": st.just(9400), "hostPort": st.sampled_from((9400, 8080))},
    optional={"protocol": st.sampled_from(("TCP", "UDP")), "hostIP": st.sampled_from(("127.0.0.1", "0.0.0.0"))},
).map(lambda each: [each])


def containers(name: str) -> st.SearchStrategy[Json]:
    """A container."""
    return written(
        name=st.just(name),
        image=st.just("app:1"),
        resources=resources(),
        ports=seldom(_ports) if name == "main-0" else st.none(),
        securityContext=seldom(_contexts),
    )


@st.composite
def init_containers(draw: st.DrawFn, number: int) -> Json:
    """An init container, or a sidecar."""
    container: Json = {"name": f"first-{number}", "image": "app:1"}
    if asked := draw(amounts(devices=number == 0)):
        container["resources"] = {"limits": asked}
    return container | draw(st.sampled_from(({}, {"restartPolicy": "Always"})))


@st.composite
def specs(draw: st.DrawFn) -> Json:
    """``spec`` of a pod."""
    count = draw(st.sampled_from((1, 1, 2)))
    spec: Json = {
        "containers": [draw(containers(f"main-{number}")) for number in range(count)],
        "initContainers": [draw(init_containers(number)) for number in range(draw(st.sampled_from((0, 0, 0, 1, 2))))],
        "tolerations": [
            *draw(st.lists(tolerations(), max_size=2)),
            *filter(None, [draw(seldom(comparing_tolerations()))]),
        ],
        "nodeSelector": draw(seldom(st.dictionaries(keys, values, min_size=1, max_size=1))),
        "affinity": draw(seldom(affinity, one_in=3)),
        "topologySpreadConstraints": draw(seldom(st.lists(spreads(), min_size=1, max_size=1))),
        "runtimeClassName": draw(seldom(st.just(RUNTIME_CLASS), one_in=5)),
        "priorityClassName": draw(seldom(st.sampled_from((PRIORITY_CLASS, "system-node-critical")))),
    }
    spec = {key: value for key, value in spec.items() if value}
    return _asking_as_a_whole(spec, draw(amounts(devices=False))) if draw(seldom(st.just(True))) else spec


def _asking_as_a_whole(spec: Json, asked: Json) -> Json:
    """Return a pod that asks for processors and memory as a whole, and whose containers ask for devices only."""
    whole = {name: amount for name, amount in asked.items() if name in ("cpu", "memory")}
    own = [{**each, "resources": _devices_only(each)} for each in spec["containers"]]
    without = {key: value for key, value in spec.items() if key != "initContainers"} | {"containers": own}
    return without | ({"resources": {"requests": whole}} if whole else {})


def _devices_only(container: Json) -> Json:
    limits: Json = container.get("resources", {}).get("limits", {})
    return {"limits": {name: amount for name, amount in limits.items() if "/" in name}}


@st.composite
def pods(draw: st.DrawFn, *, most: int, one_mistaken_in: int | None = None) -> list[Json]:
    """Some pods, each of another name.

    Args:
        draw: Hypothesis' function that draws.
        most: Most pods.
        one_mistaken_in: One out of so many pods has a mistake that the API server rejects. Default: none has.
    """
    drawn = draw(st.lists(specs(), min_size=1, max_size=most))
    if one_mistaken_in:
        drawn = [draw(_or_mistaken(each, one_mistaken_in)) for each in drawn]
    return [_pod(f"pod-{number}", spec) for number, spec in enumerate(drawn)]


def _or_mistaken(spec: Json, one_in: int) -> st.SearchStrategy[Json]:
    return st.sampled_from(range(one_in)).flatmap(lambda way: mistaken(spec) if way == one_in - 1 else st.just(spec))


def _pod(name: str, spec: Json) -> Json:
    metadata = {"name": name, "namespace": NAMESPACE, "labels": LABELS}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@st.composite
def jobs(draw: st.DrawFn, *, most: int = 6) -> list[Json]:
    """Pods, some of them several of a Deployment."""
    return [draw(st.just(each) | _deployed(each)) for each in draw(pods(most=most))]


def _deployed(pod: Json) -> st.SearchStrategy[Json]:
    metadata = {key: pod["metadata"][key] for key in ("name", "namespace")}
    template: dict[str, Any] = {"metadata": {"labels": LABELS}, "spec": pod["spec"]}
    return st.sampled_from((1, 3, 50, 0)).map(
        lambda replicas: {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": template},
        }
    )

"""Causes of images that can't be pulled, or that are pulled slowly.

Sources: kubernetes v1.36.2 pkg/kubelet/images/image_manager.go and pkg/kubelet/events/event.go, containerd 2.1
core/remotes/docker/resolver.go (2026-11)
"""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.light import regex
from gpu_preflight.doctor.cause import Cause, Clock, Evidence
from gpu_preflight.doctor.live import ContainerState, Event, Live, Target
from gpu_preflight.doctor.patches import kubectl
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import mappings

_SLOW_PULL_SECONDS = 180
_SERIAL = "https://kubernetes.io/docs/concepts/containers/images/#serial-and-parallel-image-pulls"
_NOT_PULLED = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError")
_QUOTED = regex(r'image "([^"]{1,1024})"')
_ERROR = regex(r"(?:Failed to pull image \"[^\"]*\"|Back-off pulling image \"[^\"]*\"): (?:ErrImagePull: )?(.*)")
# Parts of the error of a pull: id, texts, fault, fix. The first one that matches counts.
_PULLS = (
    ("P11", ("no match for platform",), "has no variant for the CPU architecture of the node", "build it for both"),
    ("I6", ("no space left on device",), "doesn't fit on the disk of the node", "give the node a larger disk"),
    (
        "I2",
        ("toomanyrequests", "429 Too Many"),
        "was rejected because of a rate limit of the registry",
        "log in to the registry with an image pull secret, or use a pull-through cache",
    ),
    (
        "I2",
        (
            "no basic auth credentials",
            "403 Forbidden",
            "401 Unauthorized",
            "pull access denied",
            "authorization failed",
        ),
        "was denied by the registry",
        "allow the node role to pull from the repository, or add an image pull secret",
    ),
    (
        "I5",
        ("i/o timeout", "no such host", "connection refused", "TLS handshake timeout", "context deadline exceeded"),
        "comes from a registry that the node can't reach",
        "add a NAT gateway or VPC endpoints for the registry to the subnet of the node",
    ),
    (
        "I3",
        ("ErrImageNeverPull",),
        "isn't on the node, and its imagePullPolicy is Never",
        "set imagePullPolicy to IfNotPresent, or put the image on the node",
    ),
    (
        "I3",
        ("not found", "manifest unknown", "name unknown", "InvalidImageName", "couldn't parse image"),
        "doesn't exist",
        "correct the name or tag of the image",
    ),
)


def image_causes(live: Live, target: Target, pod: Object) -> Iterator[Cause]:
    """Yield why the images of a pod aren't on its node."""
    for state in live.containers(pod):
        image = _image(pod, state.name)
        if state.waiting in _NOT_PULLED:
            yield _not_pulled(live, target, pod, state, image)
    yield from _slow_pull(live, pod)


def _image(pod: Object, name: str) -> str:
    every = (*mappings(pod.spec.get("containers")), *mappings(pod.spec.get("initContainers")))
    return next((str(each.get("image")) for each in every if each.get("name") == name), "")


def _not_pulled(live: Live, target: Target, pod: Object, state: ContainerState, image: str) -> Cause:
    """Return the cause that an image can't be pulled. The event Failed has the error, the back-off repeats it."""
    failed = [each for each in live.object_events(pod, reason="Failed") if "Failed to pull image" in each.message]
    events = [each for each in failed if f'image "{image}"' in each.message] or failed
    text = " ".join([state.waiting, state.message, *(each.message for each in events[:1])])
    where = f"status.containerStatuses[{state.name}].state.waiting"
    own = Evidence(pod.title, where, f"{state.waiting}: {state.message}" if state.message else state.waiting)
    evidence = (own, *(live.event_evidence(each) for each in events[:1]))
    secrets = live.last_event(pod, "FailedToRetrieveImagePullSecret")
    for id, parts, fault, fix in _PULLS:
        if any(part in text for part in parts):
            error = _ERROR.search(events[0].message if events else state.message)
            detail = f": {error[1]}" if error is not None else ""
            message = f"Image {image} of {pod.title} {fault}{detail}"
            excluded = ("the registry answered, so the network works",) if id in ("I2", "I3") and events else ()
            if id == "I2" and secrets is not None:
                evidence += (live.event_evidence(secrets),)
                fix = "create the image pull secret that the pod names in its namespace"
            return Cause(id, pod.title, message, "proven", evidence, fix, excluded=excluded)
    message = f"Image {image} of {pod.title} can't be pulled: {state.message or state.waiting}"
    return Cause("I5", pod.title, message, "possible", evidence, "read the events of the pod", kubectl("describe", pod))


def _slow_pull(live: Live, pod: Object) -> Iterator[Cause]:
    """Yield the pull that takes longer than 3 minutes: the newest one that hasn't ended."""
    waits = any(each.waiting in ("ContainerCreating", "PodInitializing") for each in live.containers(pod))
    if not waits or live.phase(pod) != "Pending":
        return
    ended = {_pulled(each) for reason in ("Pulled", "Failed") for each in live.object_events(pod, reason=reason)}
    started = [each for each in live.object_events(pod, reason="Pulling") if _pulled(each) not in ended]
    age = live.seconds_since(started[0].time) if started else None
    if age is None or age <= _SLOW_PULL_SECONDS:
        return
    image, rates = _pulled(started[0]), live.object_events(pod, reason="Pulled")
    message = f"Image {image} of {pod.title} is being pulled for {age / 60:.0f} minutes"
    clock = Clock("the pull ends", live.time_text(started[0].time), "as long as the disk and network need", _SERIAL)
    fix = "wait, or use a faster disk, SOCI snapshotter or a node image with the container image"
    evidence = tuple(map(live.event_evidence, (started[0], *rates[:1])))
    excluded = ("no pull failed",)
    yield Cause("I1", pod.title, message, "likely", evidence, fix, excluded=excluded, clock=clock)


def _pulled(event: Event) -> str:
    found = _QUOTED.search(event.message)
    return found[1] if found is not None else ""

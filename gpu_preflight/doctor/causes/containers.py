"""Causes after kubelet accepted the pod: sandbox, image, start, program, probes, eviction.

Texts of programs are in logs, which the dump has only if they were written into it.

Sources: kubernetes v1.36.2 pkg/kubelet/events/event.go, pkg/kubelet/kuberuntime and pkg/kubelet/eviction/helpers.go,
pkg/kubelet/images/image_manager.go, containerd 2.1 internal/cri and core/remotes/docker/resolver.go,
NVIDIA/libnvidia-container src/cli (2026-11)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpu_facts.light import regex
from gpu_preflight.doctor.cause import Cause, Clock, Confidence, Evidence, Symptom, first_symptom
from gpu_preflight.doctor.live import ContainerState, Event, Live, Target
from gpu_preflight.doctor.patches import kubectl
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, known_text, mapping, mappings

_SILENT_SECONDS = 600
# Components that report about a pod after it has a node.
_ON_NODE = ("kubelet", "attachdetach-controller")
_INIT = "https://kubernetes.io/docs/concepts/workloads/pods/init-containers/"
_REBOOT = "reboot or replace the node"
_WITH_DRIVER = "use an image with the NVIDIA driver"
# Errors of a sandbox, and of a sandbox or container start.
_SANDBOXES = (
    Symptom(
        "R1",
        ("failed to assign an IP address",),
        "has no free address",
        "use a larger subnet or prefix delegation",
    ),
    Symptom(
        "R3",
        ("no runtime for",),
        "has no container runtime handler {handler}",
        "install the NVIDIA Container Toolkit",
    ),
)
_STARTS = (
    Symptom("R5", ("driver/library version mismatch",), "has a loaded driver of another version", _REBOOT),
    Symptom("R5", ("load library failed",), "has no NVIDIA driver", _WITH_DRIVER),
    Symptom(
        "R5",
        ("unresolvable CDI devices",),
        "has no CDI specification of its GPUs",
        "restart the NVIDIA Container Toolkit",
    ),
    Symptom("R5", ("driver not loaded",), "has no loaded NVIDIA driver", _WITH_DRIVER),
    Symptom(
        "R5",
        ("unsatisfied condition",),
        "has an older driver than the image requires",
        "use an older CUDA image",
    ),
    Symptom("R5", ("nvidia-container-cli",), "has an NVIDIA container hook that fails", "replace the node"),
)
# Texts in the log of a program. Shared memory and missing GPUs have conditions of their own.
_NO_GPU = (
    "no CUDA-capable device is detected",
    "No CUDA GPUs are available",
    "Found no NVIDIA driver on your system",
    "CUDA_ERROR_NO_DEVICE",
)
_LOGS = (
    Symptom(
        "R6",
        ("CUDA driver version is insufficient for CUDA runtime version", "NVIDIA driver on your system is too old"),
        "needs a newer NVIDIA driver than node {node} has",
        "use an image with an older CUDA version, or nodes with a newer driver",
    ),
    Symptom(
        "R8",
        (
            "CUDA out of memory",
            "CUDA error: out of memory",
            "CUDA_ERROR_OUT_OF_MEMORY",
            "RESOURCE_EXHAUSTED: Out of memory",
            "OOM when allocating tensor",
            "No available memory for the cache blocks",
            "less than desired GPU memory utilization",
        ),
        "needs more GPU memory than it gets",
        "reduce the batch size or the context length, or use a larger GPU or more GPUs",
    ),
    Symptom(
        "P11", ("exec format error",), "has an image for another CPU architecture than node {node}", "build it for both"
    ),
)
_SHARED_MEMORY = ("Bus error", "Error while creating shared memory segment", "unable to allocate shared memory")

_SLOW_PULL_SECONDS = 180
_SERIAL = "https://kubernetes.io/docs/concepts/containers/images/#serial-and-parallel-image-pulls"
_NOT_PULLED = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError")
_QUOTED = regex(r'image "([^"]{1,1024})"')
_ERROR = regex(r"(?:Failed to pull image \"[^\"]*\"|Back-off pulling image \"[^\"]*\"): (?:ErrImagePull: )?(.*)")
# Errors of a pull. The first one that matches counts.
_PULLS = (
    Symptom(
        "P11", ("no match for platform",), "has no variant for the CPU architecture of the node", "build it for both"
    ),
    Symptom("I6", ("no space left on device",), "doesn't fit on the disk of the node", "give the node a larger disk"),
    Symptom(
        "I2",
        ("toomanyrequests", "429 Too Many"),
        "was rejected because of a rate limit of the registry",
        "log in to the registry with an image pull secret, or use a pull-through cache",
    ),
    Symptom(
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
    Symptom(
        "I5",
        ("i/o timeout", "no such host", "connection refused", "TLS handshake timeout", "context deadline exceeded"),
        "comes from a registry that the node can't reach",
        "add a NAT gateway or VPC endpoints for the registry to the subnet of the node",
    ),
    Symptom(
        "I3",
        ("ErrImageNeverPull",),
        "isn't on the node, and its imagePullPolicy is Never",
        "set imagePullPolicy to IfNotPresent, or put the image on the node",
    ),
    Symptom(
        "I3",
        ("not found", "manifest unknown", "name unknown", "InvalidImageName", "couldn't parse image"),
        "doesn't exist",
        "correct the name or tag of the image",
    ),
)


def find(live: Live, target: Target) -> Iterator[Cause]:
    """Yield why the containers of a pod on a node don't run."""
    pod = target.pod
    if pod is None or target.node is None:
        return
    if live.is_fine(pod):
        # A program may go on without a GPU.
        yield from _no_gpu(live, target, pod)
        return
    if live.phase(pod) == "Failed" and dig(pod.content, "status", "reason") == "Evicted":
        text = str(dig(pod.content, "status", "message") or "")
        message = f"{pod.title} was evicted by the kubelet: {text.strip()}"
        fix = "request the ephemeral storage or memory that the pod uses, or use nodes with a larger disk"
        yield Cause("R12", pod.title, message, "proven", (Evidence(pod.title, "status.message", text),), fix)
        return
    found = [
        *_sandbox(live, target, pod),
        *_image_causes(live, target, pod),
        *_starts(live, target, pod),
        *_logs(live, target, pod),
        *_ends(live, target, pod),
        *_init(live, pod),
    ]
    yield from found or _silent(live, pod)


def _sandbox(live: Live, target: Target, pod: Object) -> Iterator[Cause]:
    failed = live.last_event(pod, "FailedCreatePodSandBox")
    if failed is None or not live.is_creating(pod):
        return
    symptom = first_symptom((*_SANDBOXES, *_STARTS), failed.message)
    if symptom is not None:
        handler = target.read.runtime_class or "of its RuntimeClass"
        message = f"Node {target.node} {symptom.fault.format(handler=handler)} for {pod.title}"
        yield Cause(symptom.id, f"Node {target.node}", message, "likely", (live.event_evidence(failed),), symptom.fix)


def _starts(live: Live, target: Target, pod: Object) -> Iterator[Cause]:
    """Yield why the runtime can't start a container."""
    failed = next(
        (each for each in live.object_events(pod, reason="Failed") if each.message.startswith("Error: ")), None
    )
    texts: list[tuple[ContainerState, str, Confidence]] = []
    for state in live.containers(pod):
        if state.waiting == "CreateContainerConfigError":
            message = f"Container {state.name} of {pod.title} can't be created: {state.message}"
            fix = "create the Secret or ConfigMap in the namespace of the pod, or correct its name in the container"
            yield Cause("R4", pod.title, message, "proven", (_state_evidence(pod, state),), fix)
            return
        started = state.waiting in ("RunContainerError", "CreateContainerError", "CrashLoopBackOff")
        if started or state.ended in ("StartError", "ContainerCannotRun"):
            texts.append((state, f"{state.message} {state.last_message}", "proven"))
    # The event doesn't name its container, so the status of each container comes first.
    texts += [(state, failed.message, "likely") for state, _, _ in texts if failed is not None]
    for state, text, sure in texts:
        if "exec format error" in text:
            message = f"{pod.title} has an image for another CPU architecture than node {target.node}"
            fix = "build it for both, or select kubernetes.io/arch"
            yield Cause("P11", pod.title, message, sure, (_state_evidence(pod, state),), fix)
            return
        symptom = first_symptom(_STARTS, text)
        if symptom is not None:
            message = f"Node {target.node} {symptom.fault}, so container {state.name} of {pod.title} can't start"
            evidence = (_state_evidence(pod, state), *((live.event_evidence(failed),) if failed is not None else ()))
            excluded = ("the program didn't start, so the image itself isn't the fault",)
            yield Cause(symptom.id, f"Node {target.node}", message, sure, evidence, symptom.fix, excluded=excluded)
            return


def _state_evidence(pod: Object, state: ContainerState) -> Evidence:
    """Return the state of a container, with the end of its last run."""
    last = f", last run ended with {state.last_ended} and exit code {state.last_exit_code}" if state.last_ended else ""
    text = state.last_message or state.message
    now = state.waiting or (f"{state.ended}, exit code {state.exit_code}" if state.ended else "runs, not ready")
    return Evidence(pod.title, f"status.containerStatuses[{state.name}]", f"{now}{last}{': ' + text if text else ''}")


def _logs(live: Live, target: Target, pod: Object) -> Iterator[Cause]:
    """Yield what the logs of a program that ended, or that isn't ready, report."""
    if not any(
        each.ended not in ("", "Completed") or each.last_ended or not each.ready for each in live.containers(pod)
    ):
        return
    for symptom in _LOGS:
        line = next(live.log_lines(pod, *symptom.texts), None)
        if line is not None:
            message = f"Container {line[0]} of {pod.title} {symptom.fault.format(node=target.node)}: {line[1]}"
            yield Cause(symptom.id, pod.title, message, "likely", (live.log_evidence(pod, line),), symptom.fix)
    yield from _no_gpu(live, target, pod)
    line = next(live.log_lines(pod, *_SHARED_MEMORY), None)
    if line is not None and not _has_own_shared_memory(target, line[0]):
        message = f"Container {line[0]} of {pod.title} has 64 MiB of shared memory, which is too little"
        fix = "mount an emptyDir with the medium Memory at /dev/shm"
        yield Cause("R9", pod.title, message, "likely", (live.log_evidence(pod, line),), fix)


def _no_gpu(live: Live, target: Target, pod: Object) -> Iterator[Cause]:
    """Yield the cause that a pod requests no GPU, and its program needs one."""
    line = None if target.read.asks_for_gpu else next(live.log_lines(pod, *_NO_GPU), None)
    if line is not None:
        message = f"{pod.title} requests no GPU, so its container {line[0]} sees none"
        fix = "add the limit nvidia.com/gpu to the container"
        yield Cause("P1", pod.title, message, "likely", (live.log_evidence(pod, line),), fix)


def _has_own_shared_memory(target: Target, container: str) -> bool:
    """Whether a container has other shared memory than the 64 MiB of the runtime: a volume, or its node's."""
    found = (each for each in target.read.every_container if each.name == container)
    return target.spec.get("hostIPC") is True or any("/dev/shm" in each.mounts for each in found)


def _ends(live: Live, target: Target, pod: Object) -> Iterator[Cause]:
    """Yield why containers ended: out of memory, a probe, or an error of the program."""
    node = live.node(target)
    oom = live.last_event(node, "SystemOOM") if node is not None else None
    for state in live.containers(pod):
        evidence = (_state_evidence(pod, state),)
        limit, is_oom = _memory_limit(target, state.name), "OOMKilled" in (state.ended, state.last_ended)
        if is_oom and limit:
            message = f"Container {state.name} of {pod.title} used more memory than its limit {limit}"
            yield Cause("R7", pod.title, message, "proven", evidence, "raise the memory limit of the container")
        elif is_oom or (137 in (state.exit_code, state.last_exit_code) and oom is not None):
            why = f": {oom.message}" if oom is not None else f", because node {target.node} ran out of memory"
            message = f"Container {state.name} of {pod.title}, which has {limit or 'no'} memory limit, was killed{why}"
            fix = "request the memory that the container uses"
            shown = (*((live.event_evidence(oom),) if oom is not None else ()), *evidence)
            yield Cause("R7", pod.title, message, "likely", shown, fix)
        elif (state.restarts or state.ended) and (killed := _killed_by_probe(live, pod, state.name)) is not None:
            probe = "startup" if "startup" in killed.message else "liveness"
            unhealthy = live.last_event(pod, "Unhealthy")
            seen = (live.event_evidence(killed), *((live.event_evidence(unhealthy),) if unhealthy is not None else ()))
            message = f"Container {state.name} of {pod.title} fails its {probe} probe, so the kubelet restarts it"
            fix = "give the program time to load with a startupProbe: raise failureThreshold or periodSeconds"
            excluded = ("the container wasn't killed for its memory",)
            yield Cause("R11", pod.title, message, "proven", (*seen, *evidence), fix, excluded=excluded)
        again = state.restarts > 1 and state.last_exit_code and not state.ready and not state.waiting
        if state.waiting == "CrashLoopBackOff" or (state.ended and state.exit_code) or again:
            yield _crash(live, pod, state, evidence)


def _memory_limit(target: Target, name: str) -> str:
    """Return the memory limit of a container, or of its pod; empty without one."""
    limits = [each.limits for each in target.read.every_container if each.name == name]
    found = (known_text(mapping(each).get("memory")) for each in (*limits, target.read.limits))
    return next((each for each in found if each), "")


def _killed_by_probe(live: Live, pod: Object, name: str) -> Event | None:
    events = live.object_events(pod, reason="Killing")
    return next((e for e in events if f"ontainer {name} failed" in e.message and "probe" in e.message), None)


def _crash(live: Live, pod: Object, state: ContainerState, evidence: tuple[Evidence, ...]) -> Cause:
    """Return the cause that a container ends again and again. Other causes explain why, if there are any."""
    code = state.exit_code if state.exit_code is not None else state.last_exit_code
    log = dict(live.logs(pod)).get(state.name, "").strip().splitlines()
    times = f", after {state.restarts} restarts" if state.restarts else ""
    message = f"Container {state.name} of {pod.title} ended with exit code {code}{times}"
    evidence += (live.log_evidence(pod, (state.name, log[-1].strip())),) if log else ()
    previous = ["--previous"] if state.restarts else []
    command = kubectl("logs", pod, "-c", state.name, *previous)
    return Cause(
        "R14", pod.title, message, "proven", evidence, "fix the error that the log of the program has", command
    )


def _init(live: Live, pod: Object) -> Iterator[Cause]:
    """Yield the init container that hasn't ended."""
    sidecars = {str(e.get("name")) for e in mappings(pod.spec.get("initContainers")) if e.get("restartPolicy")}
    for state in live.containers(pod):
        runs = state.init and not (state.waiting or state.ended)
        if runs and state.name not in sidecars and live.phase(pod) == "Pending":
            statuses = mappings(dig(pod.content, "status", "initContainerStatuses"))
            own = next((each for each in statuses if each.get("name") == state.name), {})
            began = str(dig(own, "state", "running", "startedAt") or "")
            message = f"Init container {state.name} of {pod.title} hasn't ended, so its containers don't start"
            command = kubectl("logs", pod, "-c", state.name)
            evidence = (Evidence(pod.title, f"status.initContainerStatuses[{state.name}]", f"running since {began}"),)
            clock = Clock("the init container ends", began, "as long as its work takes", _INIT)
            fix = "read its log: a download of a model takes long, anything else may wait for another component"
            cause = Cause("R15", pod.title, message, "proven", evidence, fix, command)
            yield replace(cause, clock=clock) if began else cause
            return


def _silent(live: Live, pod: Object) -> Iterator[Cause]:
    """Yield the cause that a pod waits on its node for long, and nothing reports why."""
    bound = live.condition(pod, "PodScheduled")
    age = live.seconds_since(bound.time if bound is not None and bound.time is not None else live.created(pod))
    warned = [e for e in live.object_events(pod) if e.type == "Warning" and e.component in _ON_NODE]
    if not live.is_creating(pod) or warned or age is None or age <= _SILENT_SECONDS:
        return
    message = f"{pod.title} waits on its node for {age / 60:.0f} minutes, and no event reports why"
    states = ", ".join(f"{each.name}: {each.waiting}" for each in live.containers(pod)) or "none"
    evidence = (Evidence(pod.title, "status.containerStatuses", states),)
    fix = "delete the pod, so that its owner creates it again and new events appear"
    yield Cause("R16", pod.title, message, "possible", evidence, fix, kubectl("describe", pod))


def _image_causes(live: Live, target: Target, pod: Object) -> Iterator[Cause]:
    """Yield why the images of a pod aren't on its node."""
    images = {each.name: each.image_text for each in target.read.every_container}
    for state in live.containers(pod):
        if state.waiting in _NOT_PULLED:
            yield _not_pulled(live, pod, state, images.get(state.name, ""))
    yield from _slow_pull(live, pod)


def _not_pulled(live: Live, pod: Object, state: ContainerState, image: str) -> Cause:
    """Return the cause that an image can't be pulled. The event Failed has the error, the back-off repeats it."""
    failed = [each for each in live.object_events(pod, reason="Failed") if "Failed to pull image" in each.message]
    own_events = [each for each in failed if f'image "{image}"' in each.message]
    text = " ".join([state.waiting, state.message, *(each.message for each in own_events[:1])])
    symptom = first_symptom(_PULLS, text)
    sure: Confidence = "proven" if symptom is not None else "likely"
    if symptom is None and failed:
        # An event about another image may be about the same registry or disk.
        symptom = first_symptom(_PULLS, failed[0].message)
    events = own_events if sure == "proven" else failed
    where = f"status.containerStatuses[{state.name}].state.waiting"
    own = Evidence(pod.title, where, f"{state.waiting}: {state.message}" if state.message else state.waiting)
    evidence = (own, *(live.event_evidence(each) for each in events[:1]))
    secrets = live.last_event(pod, "FailedToRetrieveImagePullSecret")
    if symptom is not None:
        fix, error = symptom.fix, _ERROR.search(events[0].message if events else state.message)
        detail = f": {error[1]}" if error is not None else ""
        message = f"Image {image} of {pod.title} {symptom.fault}{detail}"
        excluded = ("the registry answered, so the network works",) if symptom.id in ("I2", "I3") and events else ()
        if symptom.id == "I2" and secrets is not None:
            evidence += (live.event_evidence(secrets),)
            fix = "create the image pull secret that the pod names in its namespace"
        return Cause(symptom.id, pod.title, message, sure, evidence, fix, excluded=excluded)
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

"""Rules for probes and Services with wrong ports, or probes that give a container too little time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_facts.model_servers import estimate_weights
from gpu_preflight.case import Case
from gpu_preflight.model.container import Container
from gpu_preflight.model.pod import Workload
from gpu_preflight.model.programs import SERVERS, Program, programs
from gpu_preflight.reading.unknown import Unknown, known_number, known_text, mappings, may_equal
from gpu_preflight.rule import Problem, check_each_pod, rule

# Ports that servers listen on by default.
# Sources: the argument parsers that `programs` names; the image of text-generation-inference sets PORT (2026-11)
_DEFAULT_PORT = {"vllm": 8000, "sglang": 30000, "tensorrt-llm": 8000, "lmdeploy": 23333}
# Seconds that a server needs before it answers, in addition to loading the weights: imports, compilation, CUDA graphs.
# https://github.com/kaito-project/kaito/issues/2325 measures 195 s for the engine of vLLM (2026-09). The value is a
# quarter of it, so only short probes are reported.
_ENGINE_SECONDS = 45
# Bytes of weights a second. Assumption, without a source: faster than any disk or network that usually holds them.
_BYTES_PER_SECOND = 2e9
# Labels that controllers add to pods.
_MADE_LABELS = ("pod-template-hash", "statefulset.kubernetes.io/", "apps.kubernetes.io/")


@rule("GPU489", "warning", source="https://github.com/kaito-project/kaito/issues/2325")
def probe_that_ends_a_server_while_it_loads(case: Case) -> Iterator[Problem]:
    """Liveness or startup probe gives up before the model is loaded.

    kubelet restarts the container while it loads the model, and the load starts again. The pod never becomes ready.

    Fix: Add a startupProbe with periodSeconds: 30 and failureThreshold: 60, or more if the model takes longer to load.
    """
    for workload, container, program in case.gpu_programs:
        if program.name not in SERVERS or len(programs(container)) != 1:
            continue
        name = "startupProbe" if container.probes["startupProbe"].written else "livenessProbe"
        allowed, needed = container.probes[name].allowed_seconds, _load_seconds(program)
        if allowed is not None and allowed < needed:
            text = f"{name} restarts container {container.name} after {allowed} s without an answer, but"
            loads = f"{program.name} takes about {needed:.0f} s or more to load {program.model or 'its model'}"
            fix = "Raise failureThreshold of the startupProbe, so it waits longer than the model takes to load."
            own = fix if name == "startupProbe" else ""
            yield Problem.from_subject(workload, f"{text} {loads}", fix=own, unknown=True)


def _load_seconds(program: Program) -> float:
    model = program.model
    weights = estimate_weights(model) if isinstance(model, str) else None
    return _ENGINE_SECONDS + (weights.bytes_min / _BYTES_PER_SECOND if weights is not None else 0)


@rule(
    "GPU490",
    "error",
    source="https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/",
    at_start=True,
)
def probe_port_without_listener(case: Case) -> Iterator[Problem]:
    """Probe checks a port that no container of the pod listens on.

    The probe fails each time. The pod never becomes ready, or kubelet restarts the container again and again.

    Fix: Set the port of the probe to the port of the server, or the server's --port to the port of the probe.
    """
    yield from check_each_pod(case.gpu_workloads, _probes_of_other_ports)


def _probes_of_other_ports(workload: Workload) -> Iterator[Problem]:
    for container in workload.pod.containers or ():
        listens = _listens(workload, container)
        named = _named_ports(container)
        for name, probe in container.probes.items():
            port = probe.port
            text = f"{name} of container {container.name} checks port {port}"
            if isinstance(port, str) and known_number(port) is None and "$" not in port and "{" not in port:
                if named is not None and port not in named:
                    fix = f"Set the port of the {name} to a port of the container, or name one of its ports {port}."
                    yield Problem.from_subject(workload, f"{text}, but no port of the container has this name", fix=fix)
                port = (named or {}).get(port)
            number = known_number(port)
            if listens is not None and number is not None and number != listens[1]:
                yield Problem.from_subject(
                    workload,
                    f"{text}, but {listens[0].name} listens on {listens[1]}",
                    fix=f"Set the port of the {name} to {listens[1]}, or --port of {listens[0].name} to {number}.",
                    unknown=not listens[0].is_sure,
                )
            elif listens is None and number is not None and _is_undeclared(number, workload):
                text = f"{text}, but no container of the pod declares this port"
                yield Problem.from_subject(workload, text, unknown=True)


def _is_undeclared(port: int, workload: Workload) -> bool:
    """Whether the containers of a pod declare other ports; a program may also listen on undeclared ports."""
    every = (*(workload.pod.containers or ()), *(each for each in workload.pod.init_containers if each.sidecar))
    declared = [known_number(one.container) for each in every for one in each.ports]
    return bool(declared) and None not in declared and port not in declared


@rule("GPU491", "warning", source="https://kubernetes.io/docs/concepts/services-networking/service/#defining-a-service")
def target_port_without_listener(case: Case) -> Iterator[Problem]:
    """Service sends requests to a port that the server doesn't listen on.

    Clients get "connection refused", while the pods are ready and keep their GPUs.

    Fix: Set targetPort to the port of the server.
    """
    for service in case.cluster.objects_of_kind("Service"):
        selector = service.spec.get("selector")
        if not isinstance(selector, dict) or not selector:
            continue
        for workload in case.gpu_workloads:
            if workload.namespace != service.namespace or any(
                workload.labels.get(key) != value for key, value in selector.items()
            ):
                continue
            for each in mappings(service.spec.get("ports")):
                why, fix = _unreached(workload, each.get("targetPort", each.get("port")))
                if why:
                    text = f"Service {service.namespace}/{service.name} sends requests to {why}"
                    yield Problem.from_subject(workload, text, fix=fix)


@rule("GPU505", "warning", source="https://kubernetes.io/docs/concepts/services-networking/service/#defining-a-service")
def service_that_selects_no_pod(case: Case) -> Iterator[Problem]:
    """Service selects no pod, although a workload has its name.

    Clients get "connection refused" or time out, while the pods are ready and keep their GPUs.

    Fix: Set spec.selector of the Service to labels of the workload's pods.
    """
    gpus = {id(each) for each in case.gpu_workloads}
    for service in case.cluster.objects_of_kind("Service"):
        selector = service.spec.get("selector")
        if not isinstance(selector, dict) or any(each.startswith(_MADE_LABELS) for each in selector):
            continue
        near = [each for each in case.cluster.workloads if each.namespace == service.namespace]
        if any(_may_be_selected(each, selector) for each in near):
            continue
        for each in near:
            meant = each.owner.kind in ("Deployment", "StatefulSet") and each.owner.name == service.name
            if meant and id(each) in gpus:
                wanted = ", ".join(f"{key}={value}" for key, value in selector.items())
                text = (
                    f"Service {service.namespace}/{service.name} selects label {wanted}, which no pod in the input has"
                )
                yield Problem.from_subject(each, text)


def _may_be_selected(workload: Workload, selector: Mapping[str, Any]) -> bool:
    pairs = [(workload.labels.get(key), value) for key, value in selector.items()]
    return all(left is not None and may_equal(str(left), str(right)) for left, right in pairs)


def _unreached(workload: Workload, target: Any) -> tuple[str, str]:
    """Return why no program listens on a target port, and the fix; empty texts if one does or may."""
    containers = workload.pod.containers or ()
    name = known_text(target)
    if name is not None and known_number(name) is None:
        named = [
            _named_ports(each) for each in (*containers, *(one for one in workload.pod.init_containers if one.sidecar))
        ]
        ports = {key: value for each in named if each is not None for key, value in each.items()}
        if None in named or "$" in name or "{" in name:
            return "", ""
        if name not in ports:
            fix = f"Add name: {name} to a port of the server's container, or set targetPort to the number of its port."
            return f"port {name}, but no port of its pods has this name", fix
        target = ports[name]
    number = known_number(target)
    found = _listens(workload, containers[0]) if len(containers) == 1 else None
    if found is None or number is None or number == found[1] or not found[0].is_sure:
        return "", ""
    # Servers have other ports too: for metrics, or between the parts of a model.
    if str(number) in found[0].options.values() or number in {each.container for each in containers[0].ports}:
        return "", ""
    return f"port {number}, but {found[0].name} listens on {found[1]}", f"Set targetPort to {found[1]}."


def _listens(workload: Workload, container: Container) -> tuple[Program, int] | None:
    """Return the server of a pod and its port if it is the only program of the only container."""
    containers = workload.pod.containers or ()
    others = [each for each in workload.pod.init_containers if each.sidecar]
    found = programs(container)
    if len(containers) != 1 or others or len(found) != 1 or found[0].name not in SERVERS:
        return None
    [program] = found
    # A script may start proxies and other servers next to it.
    starts_others = any("\n" in str(each) or " & " in str(each) or ";" in str(each) for each in container.words)
    if starts_others or program.is_worker or program.is_open or "headless" in program.options:
        return None
    port = program.number("port", _DEFAULT_PORT.get(program.name))
    return (program, port) if isinstance(port, int) and "VLLM_PORT" not in container.env else None


def _named_ports(container: Container) -> Mapping[str, Any] | None:
    """Return the numbers of the named ports of a container; ``None`` if some aren't known."""
    found: dict[str, Any] = {}
    for each in container.ports:
        if isinstance(each.name, Unknown):
            return None
        found[str(each.name)] = each.container
    return found

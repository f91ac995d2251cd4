"""Pods that operators create from custom resources, and pods outside the pools: Fargate, other schedulers.

Source, read 2026-11: https://docs.aws.amazon.com/eks/latest/userguide/fargate-profile.html

The module maps each object to the operator that creates its pods.

Source of the objects that contain others: project-codeflare/appwrapper api/v1beta2/appwrapper_types.go (2026-11-22)

Graphs of Dynamo and services of KServe.

Sources: ai-dynamo/dynamo, reference of DynamoGraphDeployment v1alpha1 and v1beta1 (2026-11-22); kserve/kserve
v0.20.0-rc1 pkg/apis/serving/v1beta1/predictor.go and pkg/controller/v1beta1/inferenceservice/utils/utils.go

Jobs of Volcano and of Kubeflow's trainer.

Sources: volcano-sh/apis v1.15.0 pkg/apis/batch/v1alpha1/job.go; kubeflow/trainer v2.3.0
pkg/apis/trainer/v1alpha1/trainjob_types.go (2026-11)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from gpu_facts.charts import VOLCANO
from gpu_facts.light import dataclass
from gpu_facts.resources import GPU
from gpu_preflight.cluster.references import cluster_resources
from gpu_preflight.cluster.software import defining_charts
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.pod import Workload
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, is_true, known_number, known_text, mapping, mappings

_PROFILES = ("AWS::EKS::FargateProfile", "Custom::AWSCDK-EKS-FargateProfile")
# Fields that an object outside the input may add to a pod.
OPEN = {name: Unknown(f"${{{name} of the runtime}}") for name in ("nodeSelector", "affinity", "tolerations")}
_SERVING_RUNTIMES = ("ClusterServingRuntime", "ServingRuntime")
_FROM_RUNTIMES = ("nodeSelector", "affinity", "tolerations", "containers")
_OF_MODELS = ("image", "resources", "args", "env")
# The current form, and the older form of single servers.
_MODELS = (
    "model",
    "huggingface",
    "triton",
    "pytorch",
    "tensorflow",
    "onnx",
    "sklearn",
    "xgboost",
    "lightgbm",
    "paddle",
)
_KSERVE_COMPONENTS = ("predictor", "transformer", "explainer")
_ROLE = "trainer.kubeflow.org/trainjob-ancestor-step"
_OVERRIDES = ("runtimePatches", "podTemplateOverrides", "podSpecOverrides")
_RUNTIMES = ("ClusterTrainingRuntime", "TrainingRuntime")
_VOLCANO_GROUP = "batch.volcano.sh"
# Part of the name of scheduler programs. The name that pods use is in their configuration.
_CALLED = "scheduler"
_NAME_FLAG = "--scheduler-name"


def fargate_profiles(cluster: Cluster) -> list[Resource]:
    """Return the Fargate profiles of a cluster that is in the input."""
    if cluster.resource is None:
        return []
    own = {each.key for each in cluster_resources(cluster, *_PROFILES)}
    names = (cluster.name, str(cluster.resource.ref()))
    return [
        each
        for each in cluster.resources_of_type(*_PROFILES)
        if each.key in own or str(mapping(each.properties.get("Config")).get("clusterName")) in names
    ]


def takes(profile: Resource, workload: Workload) -> bool:
    """Whether a Fargate profile certainly selects the pods of a workload."""
    config = mapping(profile.properties.get("Config"))
    selectors = mappings(profile.properties.get("Selectors")) or mappings(config.get("selectors"))
    return any(_selects(each, workload) for each in selectors)


def _selects(selector: Mapping[str, Any], workload: Workload) -> bool:
    namespace = known_text(selector.get("Namespace") or selector.get("namespace"))
    given = selector.get("Labels") or selector.get("labels")
    pairs = [(each.get("Key"), each.get("Value")) for each in mappings(given)] or list(mapping(given).items())
    if namespace is None or isinstance(given, Unknown) or not _matches(workload.namespace, namespace):
        return False
    labels = [(key, value) for key, value in workload.labels.items() if isinstance(value, str)]
    return all(any(_matches(key, str(k)) and _matches(value, str(v)) for key, value in labels) for k, v in pairs)


def _matches(text: str, pattern: str) -> bool:
    """Whether a text matches a pattern with ``*`` and ``?``. Brackets are literal."""
    return fnmatchcase(text, pattern.replace("[", "[[]"))


@dataclass(frozen=True, slots=True)
class Part:
    """Pods of an object that are alike.

    Attributes:
        name: Name of the part; empty for the whole object.
        template: Template of its pods.
        replicas: Number of pods; ``None`` if it isn't known.
        together: Whether all must run at once.
    """

    name: str
    template: Any
    replicas: int | None
    together: bool = False


def count(value: Any, absent: int = 1) -> int | None:
    """Return a number of pods; ``None`` if it isn't known."""
    if value is None:
        return absent
    number = known_number(value)
    return max(number, 0) if number is not None else None


def named(name: Any, kinds: tuple[str, ...], every: Iterable[Object]) -> Object | None:
    """Return the object of some kinds that has a name."""
    return next((each for each in every if each.kind in kinds and each.name == str(name)), None)


def dynamo_graph(owner: Object) -> Iterator[Part]:
    """Yield the pods of each component, or of each service in the older API version."""
    for each in mappings(owner.spec.get("components")):
        yield _multinode_part(str(each.get("name")), each, mapping(each.get("podTemplate")))
    services = owner.spec.get("services")
    listed = [(str(each.get("name")), each) for each in mappings(services)] or list(mapping(services).items())
    for name, each in listed:
        if isinstance(each, dict):
            yield _multinode_part(str(name), each, _dynamo_template(each))


def _multinode_part(name: str, component: Mapping[str, Any], template: Mapping[str, Any]) -> Part:
    replicas, nodes = (
        count(component.get("replicas")),
        count(dig(component, "multinode", "nodeCount"), _default_node_count(component)),
    )
    pods = None if replicas is None or nodes is None else replicas * nodes
    return Part(name, template, pods, together=nodes is not None and nodes > 1)


def _default_node_count(component: Mapping[str, Any]) -> int:
    """Return the default number of nodes of a component."""
    return 2 if "multinode" in component else 1


def _dynamo_template(service: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod template of a service, which has separate fields for GPUs."""
    if "podTemplate" in service:
        return mapping(service.get("podTemplate"))
    extra = mapping(service.get("extraPodSpec"))
    main = {"name": "main", **mapping(extra.get("mainContainer"))}
    if "resources" in service:
        main["resources"] = _dynamo_resources(service["resources"])
    spec = {key: value for key, value in extra.items() if key != "mainContainer"}
    return {"spec": {**spec, "containers": [*mappings(spec.get("containers")), main]}}


def _dynamo_resources(written: Any) -> Any:
    if not isinstance(written, dict):
        return written
    return {part: _dynamo_amounts(amounts) for part, amounts in written.items() if part in ("requests", "limits")}


def _dynamo_amounts(written: Any) -> Any:
    if not isinstance(written, dict):
        return written
    kind = written.get("gpuType") or GPU
    renamed = {str(kind) if name == "gpu" else name: amount for name, amount in written.items()}
    own = {name: amount for name, amount in renamed.items() if name not in ("custom", "gpuType")}
    return own | mapping(written.get("custom"))


def inference_service(owner: Object, every: Iterable[Object]) -> Iterator[Part]:
    """Yield the pods of each component of a KServe service."""
    for name in _KSERVE_COMPONENTS:
        component = mapping(owner.spec.get(name))
        if component:
            spec = _served(component, list(every))
            least = count(component.get("minReplicas"))
            # A component that scales to zero starts with the first request.
            yield Part(name, {"spec": spec}, None if least is None else max(least, 1))
            worker = mapping(component.get("workerSpec"))
            if worker:
                size = count(worker.get("pipelineParallelSize"), absent=2)
                workers = None if size is None or least is None else (size - 1) * max(least, 1)
                yield Part(f"{name} worker", {"spec": worker}, workers, together=True)


def _served(component: Mapping[str, Any], every: list[Object]) -> dict[str, Any]:
    """Return the pod of a component: its own spec, merged into the pod of the runtime that serves its model."""
    model = next((mapping(component[each]) for each in _MODELS if each in component), {})
    runtime = named(model.get("runtime"), _SERVING_RUNTIMES, every) if model else None
    given: Mapping[str, Any] = runtime.spec if runtime else OPEN if model else {}
    base = {key: given[key] for key in _FROM_RUNTIMES if key in given}
    containers = mappings(component.get("containers")) or mappings(base.get("containers"))
    if model:
        own: dict[str, Any] = {key: model[key] for key in _OF_MODELS if key in model}
        containers = _serving(containers, own)
    # The pod of the component is merged into the runtime's pod. A list of tolerations replaces the runtime's list.
    return {**base, **component, "containers": containers}


def _serving(containers: list[dict[str, Any]], own: dict[str, Any]) -> list[dict[str, Any]]:
    working = next((each for each in containers if each.get("name") == "kserve-container"), None)
    if working is None:
        return [{"name": "kserve-container", "image": Unknown("${image of the runtime}"), **own}, *containers]
    return [{**each, **own} if each is working else each for each in containers]


def llm_inference_service(owner: Object) -> Iterator[Part]:
    """Yield the pods that decode, and those that prefill."""
    for name, spec in (("", owner.spec), ("prefill", mapping(owner.spec.get("prefill")))):
        template = spec.get("template")
        if template and not is_true(spec.get("disabled")):
            yield Part(name, {"spec": mapping(template)}, count(spec.get("replicas")))


def volcano_job(owner: Object) -> Iterator[Part]:
    """Yield the pods of each task."""
    tasks = mappings(owner.spec.get("tasks"))
    counts = [count(each.get("replicas")) for each in tasks]
    total = sum(each or 0 for each in counts)
    least = known_number(owner.spec.get("minAvailable"))
    together = least is None or least >= total
    for number, (task, replicas) in enumerate(zip(tasks, counts, strict=True)):
        template = _set_scheduler(mapping(task.get("template")), owner.spec.get("schedulerName") or VOLCANO)
        yield Part(str(task.get("name") or number), template, replicas, together)


def _set_scheduler(template: Mapping[str, Any], scheduler: Any) -> dict[str, Any]:
    spec = mapping(template.get("spec"))
    return {**template, "spec": {"schedulerName": scheduler, **spec}}


def train_job(owner: Object, every: Iterable[Object]) -> Iterator[Part]:
    """Yield the pods that train, with the runtime that the job names."""
    trainer, runtime = (
        mapping(owner.spec.get("trainer")),
        named(dig(owner.spec, "runtimeRef", "name"), _RUNTIMES, every),
    )
    own: dict[str, Any] = {key: trainer[key] for key in ("image", "command", "args", "env") if key in trainer}
    if "resourcesPerNode" in trainer:
        own["resources"] = trainer["resourcesPerNode"]
    open_parts = OPEN if runtime is None or any(owner.spec.get(each) for each in _OVERRIDES) else {}
    template = _step(runtime) if runtime else {}
    spec = mapping(template.get("spec"))
    default = dig(runtime.spec, "mlPolicy", "numNodes") if runtime else None
    nodes = trainer.get("numNodes", default if runtime else Unknown("${numNodes of the runtime}"))
    pod = {**spec, **open_parts, "containers": _with_own(mappings(spec.get("containers")), own)}
    yield Part("", {**template, "spec": pod}, count(nodes), together=True)


def _step(runtime: Object) -> dict[str, Any]:
    """Return the pod template of a runtime's training step."""
    jobs = mappings(dig(runtime.spec, "template", "spec", "replicatedJobs"))
    marked = [each for each in jobs if dig(each, "template", "metadata", "labels", _ROLE) == "trainer"]
    chosen = marked or [each for each in jobs if each.get("name") == "node"] or jobs[-1:]
    return mapping(dig(chosen[0], "template", "spec", "template")) if chosen else {}


def _with_own(containers: list[dict[str, Any]], own: dict[str, Any]) -> list[dict[str, Any]]:
    """Return containers. The container that does the work gets the settings of the object."""
    if not containers:
        return [{"name": "node", **own}]
    working = next((each for each in containers if each.get("name") == "node"), containers[0])
    return [{**each, **own} if each is working else each for each in containers]


def parts(owner: Object, every: Iterable[Object]) -> Iterator[Part]:
    """Yield the pods that an operator creates from an object; none for an unknown object."""
    if owner.kind == "Job" and owner.group == _VOLCANO_GROUP:
        yield from volcano_job(owner)
    elif owner.kind == "TrainJob":
        yield from train_job(owner, every)
    elif owner.kind == "DynamoGraphDeployment":
        yield from dynamo_graph(owner)
    elif owner.kind == "InferenceService" and owner.group.startswith("serving.kserve"):
        yield from inference_service(owner, every)
    elif owner.kind == "LLMInferenceService":
        yield from llm_inference_service(owner)


def wrapped(owner: Object) -> Iterator[Object]:
    """Yield the objects that are embedded in another object."""
    for each in mappings(owner.spec.get("components")) if owner.kind == "AppWrapper" else ():
        template = mapping(each.get("template"))
        if isinstance(template.get("kind"), str):
            yield Object(template, owner.origin, owner.cluster)


def scheduler_runs(name: str, cluster: Cluster) -> Answer:
    """Return whether a scheduler with a name runs in a cluster.

    Unknown if the configuration of software in the input may name it, or if its objects are in a plain file: the API
    server accepts them only if it is installed.
    """
    releases = {one for each in cluster.charts for one in (each.name, each.origin.path.rpartition("/")[2])}
    if name in releases or any(_is_called(name, each) for each in cluster.workloads):
        return Answer.YES
    hidden = not cluster.sees_programs or any(_CALLED in each for each in releases)
    by_hand = not cluster.charts and any(
        name in defining_charts(each) for each in cluster.objects if each.origin.resource is None
    )
    return Answer.UNKNOWN if hidden or by_hand or any(map(_schedules, cluster.workloads)) else Answer.NO


def _is_called(name: str, workload: Workload) -> bool:
    words = (word for each in workload.containers for word in each.words)
    return workload.owner.name == name or f"{_NAME_FLAG}={name}" in words


def _schedules(workload: Workload) -> bool:
    """Whether a workload seems to be a scheduler, under any name."""
    images = (each.image_text.rpartition("/")[2] for each in workload.containers)
    return _CALLED in workload.owner.name or any(_CALLED in each for each in images)

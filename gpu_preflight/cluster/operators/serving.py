"""Graphs of Dynamo and services of KServe.

Sources: ai-dynamo/dynamo, reference of DynamoGraphDeployment v1alpha1 and v1beta1 (2026-11-22); kserve/kserve
v0.20.0-rc1 pkg/apis/serving/v1beta1/predictor.go and pkg/controller/v1beta1/inferenceservice/utils/utils.go
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpu_facts.resources import GPU
from gpu_preflight.cluster.operators.part import OPEN, Part, count, named
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, is_true, mapping, mappings

_SERVING_RUNTIMES = ("ClusterServingRuntime", "ServingRuntime")
_FROM_RUNTIMES = ("nodeSelector", "affinity", "tolerations", "containers")
_OF_MODELS = ("image", "resources", "args", "env")
# The form of today, and those of single servers before it.
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


def dynamo_graph(owner: Object) -> Iterator[Part]:
    """Yield the pods of each component, or of each service as it was called before."""
    for each in mappings(owner.spec.get("components")):
        yield _of_nodes(str(each.get("name")), each, mapping(each.get("podTemplate")))
    services = owner.spec.get("services")
    listed = [(str(each.get("name")), each) for each in mappings(services)] or list(mapping(services).items())
    for name, each in listed:
        if isinstance(each, dict):
            yield _of_nodes(str(name), each, _dynamo_template(each))


def _of_nodes(name: str, component: Mapping[str, Any], template: Mapping[str, Any]) -> Part:
    replicas, nodes = (
        count(component.get("replicas")),
        count(dig(component, "multinode", "nodeCount"), _of_many(component)),
    )
    pods = None if replicas is None or nodes is None else replicas * nodes
    return Part(name, template, pods, together=nodes is not None and nodes > 1)


def _of_many(component: Mapping[str, Any]) -> int:
    """Return of how many nodes a component is that does not say so."""
    return 2 if "multinode" in component else 1


def _dynamo_template(service: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod template of a service, whose GPUs stand under a name of their own."""
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
    """Yield the pods of each component of a service of KServe."""
    for name in _KSERVE_COMPONENTS:
        component = mapping(owner.spec.get(name))
        if component:
            spec = _served(component, list(every))
            least = count(component.get("minReplicas"))
            # One that scales to zero comes with the first request.
            yield Part(name, {"spec": spec}, None if least is None else max(least, 1))
            worker = mapping(component.get("workerSpec"))
            if worker:
                size = count(worker.get("pipelineParallelSize"), absent=2)
                workers = None if size is None or least is None else (size - 1) * max(least, 1)
                yield Part(f"{name} worker", {"spec": worker}, workers, together=True)


def _served(component: Mapping[str, Any], every: list[Object]) -> dict[str, Any]:
    """Return the pod of a component: its own, on top of that of the runtime which serves its model."""
    model = next((mapping(component[each]) for each in _MODELS if each in component), {})
    runtime = named(model.get("runtime"), _SERVING_RUNTIMES, every) if model else None
    given: Mapping[str, Any] = runtime.spec if runtime else OPEN if model else {}
    base = {key: given[key] for key in _FROM_RUNTIMES if key in given}
    containers = mappings(component.get("containers")) or mappings(base.get("containers"))
    if model:
        own: dict[str, Any] = {key: model[key] for key in _OF_MODELS if key in model}
        containers = _serving(containers, own)
    # The pod of the component is merged into the runtime's: a list of tolerations takes the place of the other.
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

"""Which operator makes pods of an object.

Source of the objects that hold others: project-codeflare/appwrapper api/v1beta2/appwrapper_types.go (2026-11-22)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpu_preflight.cluster.operators.part import Part
from gpu_preflight.cluster.operators.serving import dynamo_graph, inference_service, llm_inference_service
from gpu_preflight.cluster.operators.training import train_job, volcano_job
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import mapping, mappings

VOLCANO = "batch.volcano.sh"


def parts(owner: Object, every: Iterable[Object]) -> Iterator[Part]:
    """Yield the pods that an operator makes of an object; none for an object that it does not know."""
    if owner.kind == "Job" and owner.group == VOLCANO:
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
    """Yield the objects that stand inside another one."""
    for each in mappings(owner.spec.get("components")) if owner.kind == "AppWrapper" else ():
        template = mapping(each.get("template"))
        if isinstance(template.get("kind"), str):
            yield Object(template, owner.origin, owner.cluster)

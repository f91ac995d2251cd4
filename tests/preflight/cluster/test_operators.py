"""Pods that operators make of objects in forms of their own."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gpu_preflight.cluster.clusters import workloads
from gpu_preflight.model.pod import Workload
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import Unknown


def made(text: str) -> list[Workload]:
    return list(workloads([Object(each, Origin("file", "thing")) for each in yaml.safe_load_all(text)]))


def told(found: list[Workload]) -> list[tuple[str, int | None, bool, int | None]]:
    """Name of the part, pods, whether all at once, GPUs of each."""
    return [
        (each.name.partition(" ")[2].partition(" ")[2], each.replicas, each.together, _gpus(each)) for each in found
    ]


def _gpus(each: Workload) -> int | None:
    return each.pod.requests.get("nvidia.com/gpu")


POD = "{spec: {containers: [{name: a, resources: {limits: {nvidia.com/gpu: 2}}}]}}"
VOLCANO = f"""
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: train}}
spec:
  tasks: [{{name: head, replicas: 1, template: {POD}}}, {{name: worker, replicas: 3, template: {POD}}}]
"""


def test_a_volcano_job_is_a_gang_of_its_tasks() -> None:
    found = made(VOLCANO)

    assert told(found) == [("head", 1, True, 2), ("worker", 3, True, 2)]
    assert {each.pod.scheduler for each in found} == {"volcano"}


@pytest.mark.parametrize(("least", "together"), [(4, True), (2, False)])
def test_a_volcano_job_may_start_with_fewer(least: int, together: bool) -> None:
    assert {each.together for each in made(f"{VOLCANO}  minAvailable: {least}\n")} == {together}


def test_a_job_of_kubernetes_is_none_of_volcano() -> None:
    found = made(f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: a}}\nspec: {{parallelism: 2, template: {POD}}}\n")

    assert told(found) == [("", 2, False, 2)]


TRAIN = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: train}
spec:
  runtimeRef: {name: torch}
  trainer: {numNodes: 2, image: mine, resourcesPerNode: {limits: {nvidia.com/gpu: 8}}}
"""
RUNTIME = """
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch}
spec:
  mlPolicy: {numNodes: 4}
  template:
    spec:
      replicatedJobs:
      - name: initializer
        template: {spec: {template: {spec: {containers: [{name: init}]}}}}
      - name: node
        template:
          spec:
            template:
              spec:
                tolerations: [{key: nvidia.com/gpu, operator: Exists}]
                containers: [{name: node, image: theirs, resources: {limits: {nvidia.com/gpu: 1}}}]
"""


def test_a_train_job_whose_runtime_is_elsewhere_may_tolerate_anything() -> None:
    [found] = made(TRAIN)

    assert (found.replicas, found.together, _gpus(found)) == (2, True, 8)
    assert isinstance(found.pod.tolerations[0].key, Unknown)


def test_a_train_job_is_put_into_its_runtime() -> None:
    [found] = made(TRAIN + RUNTIME)

    assert (found.replicas, _gpus(found), found.containers[0].image) == (2, 8, "mine")
    assert [each.key for each in found.pod.tolerations] == ["nvidia.com/gpu"]


def test_a_train_job_takes_the_number_of_nodes_of_its_runtime() -> None:
    assert made(TRAIN.replace("numNodes: 2, ", "") + RUNTIME)[0].replicas == 4
    assert made(TRAIN.replace("numNodes: 2, ", ""))[0].replicas is None


def test_a_train_job_with_overrides_may_tolerate_anything() -> None:
    [found] = made(TRAIN + "  podTemplateOverrides: [{spec: {}}]\n" + RUNTIME)

    assert isinstance(found.pod.tolerations[0].key, Unknown)


DYNAMO = """
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: graph}
spec:
  services:
    Frontend: {replicas: 1, extraPodSpec: {mainContainer: {image: front}}}
    Worker:
      replicas: 2
      multinode: {nodeCount: 2}
      resources: {limits: {gpu: "4", cpu: "8", custom: {vpc.amazonaws.com/efa: "1"}}}
      extraPodSpec: {tolerations: [{key: nvidia.com/gpu, operator: Exists}], mainContainer: {image: work}}
"""


def test_services_of_dynamo() -> None:
    found = made(DYNAMO)

    assert told(found) == [("Frontend", 1, False, None), ("Worker", 4, True, 4)]
    assert found[1].pod.requests["vpc.amazonaws.com/efa"] == 1
    assert [each.key for each in found[1].pod.tolerations] == ["nvidia.com/gpu"]
    assert found[1].containers[0].image == "work"


def test_gpus_of_dynamo_under_another_name() -> None:
    found = made(DYNAMO.replace('gpu: "4"', 'gpu: "4", gpuType: nvidia.com/gpu.shared'))

    assert found[1].pod.requests["nvidia.com/gpu.shared"] == 4


def test_components_of_dynamo() -> None:
    found = made(
        "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeployment\nmetadata: {name: graph}\n"
        f"spec: {{components: [{{name: worker, replicas: 3, podTemplate: {POD}}}]}}\n"
    )

    assert told(found) == [("worker", 3, False, 2)]


def kserve(predictor: Any) -> str:
    spec = {"predictor": predictor}
    head = {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": {"name": "llm"}}
    return yaml.safe_dump({**head, "spec": spec})


MODEL = {"modelFormat": {"name": "huggingface"}, "resources": {"limits": {"nvidia.com/gpu": "1"}}}


def test_a_model_of_kserve_may_get_tolerations_of_its_runtime() -> None:
    [found] = made(kserve({"minReplicas": 6, "model": MODEL}))

    assert (found.replicas, _gpus(found)) == (6, 1)
    assert isinstance(found.pod.tolerations[0].key, Unknown)


def test_a_model_of_kserve_in_its_runtime() -> None:
    runtime = {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ClusterServingRuntime",
        "metadata": {"name": "vllm"},
        "spec": {
            "containers": [{"name": "kserve-container", "image": "vllm"}],
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        },
    }

    [found] = made(f"{kserve({'model': {**MODEL, 'runtime': 'vllm'}})}---\n{yaml.safe_dump(runtime)}")

    assert (found.containers[0].image, _gpus(found)) == ("vllm", 1)
    assert [each.key for each in found.pod.tolerations] == ["nvidia.com/gpu"]


def test_containers_of_kserve_are_known() -> None:
    container = {"name": "kserve-container", "resources": {"limits": {"nvidia.com/gpu": 2}}}

    [found] = made(kserve({"minReplicas": 0, "containers": [container]}))

    assert (found.replicas, _gpus(found), found.pod.tolerations) == (1, 2, ())


def test_tolerations_of_one_s_own_take_the_place_of_the_runtime_s() -> None:
    own = [{"key": "mine", "operator": "Exists"}]

    [found] = made(kserve({"tolerations": own, "huggingface": {"resources": {"limits": {"nvidia.com/gpu": 1}}}}))

    assert ([each.key for each in found.pod.tolerations], _gpus(found)) == (["mine"], 1)


def test_a_component_of_dynamo_has_two_nodes_by_default() -> None:
    found = made(DYNAMO.replace("{nodeCount: 2}", "{}"))

    assert told(found)[1] == ("Worker", 4, True, 4)


def test_a_knative_service_is_none_of_kserve() -> None:
    assert made("apiVersion: x/v1\nkind: InferenceService\nmetadata: {name: a}\nspec: {predictor: {model: {}}}\n") == []


def test_an_llm_of_kserve() -> None:
    found = made(
        "apiVersion: serving.kserve.io/v1alpha1\nkind: LLMInferenceService\nmetadata: {name: a}\n"
        f"spec: {{replicas: 2, template: {POD[7:-1]}, prefill: {{replicas: 3, template: {POD[7:-1]}}}}}\n"
    )

    assert told(found) == [("", 2, False, 2), ("prefill", 3, False, 2)]


def test_what_an_app_wrapper_wraps() -> None:
    found = made(
        "apiVersion: workload.codeflare.dev/v1beta2\nkind: AppWrapper\nmetadata: {name: a}\n"
        f"spec: {{components: [{{template: {{apiVersion: batch/v1, kind: Job, metadata: {{name: b}},"
        f" spec: {{parallelism: 2, template: {POD}}}}}}}]}}\n"
    )

    assert [(each.name, each.replicas) for each in found] == [("Job default/b", 2)]

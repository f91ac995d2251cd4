"""Scalers of pods: HorizontalPodAutoscaler, KEDA, VPA, and the metrics they go by."""

from __future__ import annotations

from typing import Any

from tests.mutations.families.nodes.node_classes import charts
from tests.mutations.operator import MEASURED, operator
from tests.mutations.written import Written, look, put, replace

KEDA = "https://keda.sh/docs/2.20/reference/scaledobject-spec/"
HPA = "https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/"
VPA = "https://github.com/kubernetes/autoscaler/blob/vertical-pod-autoscaler-1.7.1/vertical-pod-autoscaler/docs/api.md"


def hpas(given: Written) -> list[Any]:
    """The HorizontalPodAutoscalers."""
    return given.objects("HorizontalPodAutoscaler")


def scaled(given: Written) -> list[Any]:
    """The ScaledObjects whose target is in the input."""
    there = {each["metadata"]["name"] for each in given.objects("Deployment", "StatefulSet")}
    return [each for each in given.objects("ScaledObject") if look(each, "spec", "scaleTargetRef", "name") in there]


def prometheus(given: Written) -> list[Any]:
    """The triggers on Prometheus."""
    return [one for each in scaled(given) for one in each["spec"]["triggers"] if one.get("type") == "prometheus"]


@operator(MEASURED + "scale to zero by the queue of the model server itself")
def zero_by_its_own_queue(given: Written) -> bool:
    """The server is scaled to zero by the length of the queue inside the server."""
    for each in prometheus(given):
        put(each, "metadata", "query", to='sum(vllm:num_requests_waiting{namespace="inference"})')
    return any(put(each, "spec", "minReplicaCount", to=0) for each in scaled(given) if prometheus(given))


@operator(MEASURED + "maxReplicas beyond what the pools hold")
def hpa_beyond_the_pools(given: Written) -> bool:
    """The HorizontalPodAutoscaler goes to 50 replicas, for which there are no nodes."""
    there = {each["metadata"]["name"] for each in given.gpu_workloads}
    found = [each for each in hpas(given) if each["spec"]["scaleTargetRef"]["name"] in there]
    return any(put(each, "spec", "maxReplicas", to=50) for each in found)


@operator(MEASURED + "maxReplicaCount beyond what the pools hold")
def keda_beyond_the_pools(given: Written) -> bool:
    """KEDA goes to 50 replicas, for which there are no nodes."""
    return any(put(each, "spec", "maxReplicaCount", to=50) for each in scaled(given))


@operator(MEASURED + "a metric of the resource nvidia.com/gpu")
def hpa_by_the_gpu_as_a_resource(given: Written) -> bool:
    """The HorizontalPodAutoscaler scales on the resource nvidia.com/gpu, which has no measurements."""
    target = {"type": "Utilization", "averageUtilization": 70}
    metric = {"type": "Resource", "resource": {"name": "nvidia.com/gpu", "target": target}}
    return any(put(each, "spec", "metrics", to=[metric]) for each in hpas(given))


@operator(HPA)
def hpa_by_the_cpu_without_a_request(given: Written) -> bool:
    """The HorizontalPodAutoscaler scales on a share of the CPU that the pods don't request."""
    target = {"type": "Utilization", "averageUtilization": 70}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    if not hpas(given):
        return False
    for each in given.gpu_workloads:
        for one in look(each, "spec", "template", "spec", "containers") or []:
            (look(one, "resources", "requests") or {}).pop("cpu", None)
    return any(put(each, "spec", "metrics", to=[metric]) for each in hpas(given) if given.gpu_workloads)


@operator(HPA)
def hpa_of_a_target_that_is_not_there(given: Written) -> bool:
    """The target of the HorizontalPodAutoscaler is misspelt."""
    return any(
        put(each, "spec", "scaleTargetRef", "name", to="lmm") for each in hpas(given) if given.objects("Deployment")
    )


@operator(KEDA)
def keda_of_a_target_that_is_not_there(given: Written) -> bool:
    """The target of the ScaledObject is misspelt."""
    return any(put(each, "spec", "scaleTargetRef", "name", to="lmm") for each in scaled(given))


@operator(HPA)
def hpa_with_less_at_most_than_at_least(given: Written) -> bool:
    """The maximum of the HorizontalPodAutoscaler is below its minimum."""
    return any(put(each, "spec", "minReplicas", to=10) for each in hpas(given))


@operator(HPA)
def metric_that_nothing_serves(given: Written) -> bool:
    """The metric is misspelt, and the adapter serves none of that name."""
    return any(
        replace(each, "spec", "metrics", 0, "pods", "metric", "name", to="request_waiting")
        for each in hpas(given)
        if charts(given, "prometheus-adapter")
    )


@operator(HPA)
def no_metrics_server_for_prometheus(given: Written) -> bool:
    """The adapter for metrics of pods is not installed."""
    for template in given.templates:
        for name, each in list(template["Resources"].items()):
            if look(each, "Properties", "Chart") == "prometheus-adapter":
                del template["Resources"][name]
                return True
    return False


@operator(KEDA)
def no_keda(given: Written) -> bool:
    """KEDA is not installed."""
    for template in given.templates:
        for name, each in list(template["Resources"].items()):
            if look(each, "Properties", "Chart") == "keda":
                del template["Resources"][name]
                return True
    return False


@operator(KEDA)
def authentication_that_is_not_there(given: Written) -> bool:
    """The trigger names an authentication that is not there."""
    return any(
        replace(one, "authenticationRef", "name", to="aws-auth")
        for each in scaled(given)
        for one in each["spec"]["triggers"]
    )


@operator(KEDA)
def trigger_of_an_unknown_type(given: Written) -> bool:
    """The type of the trigger is misspelt."""
    return any(
        put(one, "type", to="aws-sqs")
        for each in scaled(given)
        for one in each["spec"]["triggers"]
        if one["type"] == "aws-sqs-queue"
    )


@operator(KEDA)
def trigger_without_threshold(given: Written) -> bool:
    """The trigger on Prometheus has no threshold."""
    return any(each["metadata"].pop("threshold", None) is not None for each in prometheus(given))


@operator(KEDA)
def server_of_another_name(given: Written) -> bool:
    """Prometheus is asked under a name that its chart does not give it."""
    return any(
        put(each, "metadata", "serverAddress", to="http://prometheus.monitoring.svc:9090")
        for each in prometheus(given)
        if charts(given, "kube-prometheus-stack")
    )


@operator("https://github.com/NVIDIA/dcgm-exporter/issues/151")
def scaled_by_gpu_memory(given: Written) -> bool:
    """A model server that takes all memory of its GPU at once is scaled by that."""
    for each in prometheus(given):
        put(each, "metadata", "query", to='sum(DCGM_FI_DEV_FB_USED{exported_namespace="inference"})')
        return True
    return False


@operator(HPA)
def two_scalers_of_one_deployment(given: Written) -> bool:
    """A HorizontalPodAutoscaler and a ScaledObject have one target."""
    return any(
        put(each, "spec", "scaleTargetRef", "name", to=one["spec"]["scaleTargetRef"]["name"])
        for each in scaled(given)
        for one in hpas(given)
    )


@operator(VPA)
def vpa_in_charge_of_gpus(given: Written) -> bool:
    """VPA is to set the GPUs."""
    policy = {"containerPolicies": [{"containerName": "*", "controlledResources": ["cpu", "nvidia.com/gpu"]}]}
    return any(put(each, "spec", "resourcePolicy", to=policy) for each in given.objects("VerticalPodAutoscaler"))


@operator("https://prometheus-operator.dev/docs/api-reference/api/#monitoring.coreos.com/v1.ServiceMonitor")
def monitor_of_a_port_that_is_not_there(given: Written) -> bool:
    """The ServiceMonitor names the port by its number."""
    return any(replace(each, "spec", "endpoints", 0, "port", to=8000) for each in given.objects("ServiceMonitor"))


@operator("https://github.com/prometheus-operator/kube-prometheus/issues/1392")
def monitor_that_prometheus_does_not_select(given: Written) -> bool:
    """The ServiceMonitor lacks the label by which kube-prometheus-stack selects it."""
    return any(put(each, "metadata", "labels", to={"app": "llm"}) for each in given.objects("ServiceMonitor"))

"""Pods that want GPUs, and the workloads that create them."""

from __future__ import annotations

import copy
from typing import Any

from tests.mutations.operator import MEASURED, operator
from tests.mutations.written import Written, containers, drop, look, pod, put, swap

DOCS = "https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/"
SCHEDULING = "https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/"


def limits(given: Written) -> list[Any]:
    """The limits of containers with GPUs."""
    return [each for one in given.gpu_workloads for c in containers(one) if (each := look(c, "resources", "limits"))]


def ask(given: Written, name: str, amount: Any) -> bool:
    """Have every container with GPUs ask for something else."""
    changed = [put(each, name, to=amount) for each in limits(given)]
    return any(changed)


@operator(SCHEDULING)
def more_gpus_than_a_node(given: Written) -> bool:
    """The pod asks for more GPUs than any node has."""
    return ask(given, "nvidia.com/gpu", 16)


@operator(SCHEDULING)
def name_of_another_vendor(given: Written) -> bool:
    """The pod asks for amd.com/gpu."""
    changed = [drop(each, "nvidia.com/gpu") and put(each, "amd.com/gpu", to=1) for each in limits(given)]
    return any(changed)


@operator(MEASURED + "the GPU by its name of Kubernetes before 1.8")
def name_of_kubernetes_1_7(given: Written) -> bool:
    """The pod asks for alpha.kubernetes.io/nvidia-gpu."""
    changed = [
        drop(each, "nvidia.com/gpu") and put(each, "alpha.kubernetes.io/nvidia-gpu", to=1) for each in limits(given)
    ]
    return any(changed)


@operator(SCHEDULING)
def name_in_the_plural(given: Written) -> bool:
    """The pod asks for nvidia.com/gpus."""
    changed = [drop(each, "nvidia.com/gpu") and put(each, "nvidia.com/gpus", to=1) for each in limits(given)]
    return any(changed)


@operator(SCHEDULING)
def requests_differ_from_limits(given: Written) -> bool:
    """The request of GPUs is below the limit."""
    for each in given.gpu_workloads:
        for one in containers(each):
            if look(one, "resources", "limits", "nvidia.com/gpu"):
                one["resources"].setdefault("requests", {})["nvidia.com/gpu"] = 1
                return put(one, "resources", "limits", "nvidia.com/gpu", to=2)
    return False


@operator(DOCS)
def toleration_of_another_taint(given: Written) -> bool:
    """A pod that asks for shares or slices tolerates another key."""
    tolerations = [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]
    return any(
        put(pod(each), "spec", "tolerations", to=tolerations)
        for each in given.gpu_workloads
        if any("nvidia.com/gpu" not in (look(one, "resources", "limits") or {}) for one in containers(each))
    )


@operator(DOCS)
def taint_that_evicts(given: Written) -> bool:
    """The taint of the group is of the effect that the pods do not tolerate."""
    taint = {"Key": "nvidia.com/gpu", "Value": "true", "Effect": "NO_EXECUTE"}
    return any(put(each, "Taints", to=[taint]) for each in given.resources("AWS::EKS::Nodegroup") if each.get("Taints"))


@operator(DOCS)
def effect_of_a_toleration_misspelt(given: Written) -> bool:
    """The effect of the toleration has the spelling that EKS has for the taint of a group."""
    return any(put(pod(each), "spec", "tolerations", 0, "effect", to="NO_SCHEDULE") for each in given.gpu_workloads)


@operator(SCHEDULING)
def label_that_no_node_has(given: Written) -> bool:
    """The pod selects a label that no node has."""
    selector = {"accelerator": "nvidia-tesla-t4"}
    return any(put(pod(each), "spec", "nodeSelector", to=selector) for each in given.gpu_workloads)


@operator(SCHEDULING)
def architecture_of_other_nodes(given: Written) -> bool:
    """The pod selects Arm nodes."""
    selector = {"kubernetes.io/arch": "arm64"}
    return any(put(pod(each), "spec", "nodeSelector", to=selector) for each in given.gpu_workloads)


@operator(SCHEDULING)
def all_of_the_cpu(given: Written) -> bool:
    """The pod asks for every CPU of its instance, of which kubelet and daemons take a part."""
    changed = False
    for each in given.gpu_workloads:
        for one in containers(each):
            requests = look(one, "resources", "requests")
            changed = (bool(requests) and put(requests, "cpu", to="192")) or changed
    return changed


@operator(SCHEDULING)
def memory_in_thousandths(given: Written) -> bool:
    """The memory is written with a small m, for thousandths of a byte."""
    changed = [put(one, "memory", to="16m") for each in limits(given) for one in [each]]
    return any(changed)


@operator(MEASURED + "a DaemonSet that takes the GPUs, told to install a device plugin")
def daemon_set_takes_the_gpus(given: Written) -> bool:
    """A DaemonSet asks for a GPU of each node."""
    for each in given.gpu_workloads:
        if not look(containers(each)[0], "resources", "limits", "nvidia.com/gpu"):
            continue
        template = copy.deepcopy(pod(each))
        one = containers(each)[0]
        spec = {
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "burn", "image": one["image"], "resources": {"limits": {"nvidia.com/gpu": 1}}}],
        }
        template = {"metadata": {"labels": {"app": "burn"}}, "spec": spec}
        body = {"selector": {"matchLabels": {"app": "burn"}}, "template": template}
        meta = {"name": "burn", "namespace": "kube-system"}
        given.documents.append({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta, "spec": body})
        return True
    return False


def _runs(given: Written, workload: Any, replicas: int) -> bool:
    """Write the replicas of a workload, and other fields that state them: a scaler would reduce them at once."""
    for each in given.objects("ScaledObject"):
        if look(each, "spec", "scaleTargetRef", "name") == workload["metadata"]["name"]:
            each["spec"] |= {"minReplicaCount": replicas, "maxReplicaCount": replicas}
    return put(workload, "spec", "replicas", to=replicas)


@operator(MEASURED + "a port of the node, not named as the reason")
def port_of_the_node(given: Written) -> bool:
    """More replicas than nodes all want one port of the node."""
    for each in given.gpu_workloads:
        if each["kind"] == "Deployment" and "spec" in each:
            _runs(given, each, 20)
            return put(containers(each)[0], "ports", to=[{"containerPort": 8000, "hostPort": 8000}])
    return False


@operator(SCHEDULING)
def more_replicas_than_nodes(given: Written) -> bool:
    """The replicas are more than the pools can ever hold."""
    return any(_runs(given, each, 500) for each in given.gpu_workloads if each["kind"] in ("Deployment", "StatefulSet"))


@operator(MEASURED + "two workloads that do not fit together")
def two_workloads_for_one_place(given: Written) -> bool:
    """A copy of the workload comes in with as many replicas as fit alone."""
    for each in given.gpu_workloads:
        if each["kind"] == "Deployment":
            put(each, "spec", "replicas", to=5)
            twin = copy.deepcopy(each)
            put(twin, "metadata", "name", to="twin")
            given.documents.append(twin)
            return True
    return False


@operator(MEASURED + "a gang of PyTorchJob without its operator")
def pytorch_job_without_operator(given: Written) -> bool:
    """The job is a PyTorchJob, and nothing in the cluster knows that kind."""
    for each in given.objects("Job"):
        if each not in given.gpu_workloads:
            continue
        template = look(each, "spec", "template")
        replicas = {"Worker": {"replicas": 2, "restartPolicy": "Never", "template": template}}
        each.update(apiVersion="kubeflow.org/v1", kind="PyTorchJob", spec={"pytorchReplicaSpecs": replicas})
        return True
    return False


@operator(MEASURED + "overhead of a RuntimeClass that is not added")
def overhead_of_the_runtime(given: Written) -> bool:
    """The RuntimeClass of the pod has more overhead than a node has room for."""
    runtime = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "kata"}, "handler": "kata"}
    for each in given.gpu_workloads:
        given.documents.append({**runtime, "overhead": {"podFixed": {"memory": "4000Gi", "cpu": "250m"}}})
        return put(pod(each), "spec", "runtimeClassName", to="kata")
    return False


@operator("https://github.com/ContainerSolutions/kubernetes-examples/pull/13")
def job_that_restarts_always(given: Written) -> bool:
    """The pods of the job are to be restarted always, which the API server refuses."""
    return any(
        put(pod(each), "spec", "restartPolicy", to="Always") for each in given.gpu_workloads if each["kind"] == "Job"
    )


@operator("https://kubernetes.io/docs/reference/using-api/deprecation-guide/")
def api_version_that_is_gone(given: Written) -> bool:
    """The Deployment is of apps/v1beta2."""
    return any(
        put(each, "apiVersion", to="apps/v1beta2") for each in given.gpu_workloads if each["kind"] == "Deployment"
    )


@operator("https://kubernetes.io/docs/concepts/containers/images/")
def image_name_in_capitals(given: Written) -> bool:
    """The name of the image has capitals, on which kubelet refuses it."""
    return any(swap(one, "image", old="/", new="/ML/") for each in given.gpu_workloads for one in containers(each))


@operator("https://github.com/awsdocs/amazon-eks-user-guide/issues/22")
def image_of_a_cuda_that_the_driver_does_not_know(given: Written) -> bool:
    """The image's CUDA is newer than the driver of the nodes."""
    return any(
        put(one, "image", to="nvidia/cuda:14.1.0-runtime-ubuntu24.04")
        for each in given.gpu_workloads
        for one in containers(each)
    )


@operator("https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/")
def image_of_a_cuda_that_does_not_know_the_gpu(given: Written) -> bool:
    """The image's CUDA is older than the GPU."""
    return any(
        put(one, "image", to="nvidia/cuda:10.2-runtime-ubuntu18.04")
        for each in given.gpu_workloads
        for one in containers(each)
    )


@operator(
    "https://github.com/vllm-project/vllm/blob/main/docs/deployment/k8s.md",
    unseen="only an image's registry knows its contents, and whether its name exists",
)
def image_that_is_not_in_the_registry(given: Written) -> bool:
    """The tag of the image is misspelt, and the registry has none of that name."""
    return any(swap(one, "image", old=":1.4", new=":1.4x") for each in given.gpu_workloads for one in containers(each))


@operator(
    "https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html",
    unseen="the names of secrets and variables that a program reads are in its image",
)
def variable_of_the_program_misspelt(given: Written) -> bool:
    """An environment variable of the program is misspelt."""
    return any(
        put(one, "env", to=[{"name": "HF_TOKENS", "value": "x"}])
        for each in given.gpu_workloads
        for one in containers(each)
    )


@operator("https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/")
def scheduler_that_is_not_there(given: Written) -> bool:
    """The pod names a scheduler that is not there."""
    return any(put(pod(each), "spec", "schedulerName", to="volcano") for each in given.gpu_workloads)


@operator("https://kubernetes.io/docs/concepts/workloads/pods/#pod-security")
def unknown_field_of_the_pod(given: Written) -> bool:
    """The tolerations are spelt in the singular, so that there are none."""
    for each in given.gpu_workloads:
        spec = look(pod(each), "spec")
        if spec.get("tolerations"):
            spec["toleration"] = spec.pop("tolerations")
            return True
    return False

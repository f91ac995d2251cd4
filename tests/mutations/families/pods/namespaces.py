"""Limits of a namespace: quotas, limits, priorities, accounts, runtimes."""

from __future__ import annotations

from typing import Any

from tests.mutations.operator import MEASURED, operator
from tests.mutations.written import Written, containers, look, pod, put

DOCS = "https://kubernetes.io/docs/concepts/policy/resource-quotas/"


def place(given: Written) -> Any:
    """The first GPU workload that names a namespace."""
    return next((each for each in given.gpu_workloads if look(each, "metadata", "namespace")), None)


def add(given: Written, kind: str, spec: Any, version: str = "v1", **parts: Any) -> bool:
    """Add an object to the namespace of that workload."""
    found = place(given)
    if found is None:
        return False
    meta = {"name": "limits", "namespace": found["metadata"]["namespace"]}
    body = {"apiVersion": version, "kind": kind, "metadata": meta, **parts}
    given.documents.append(body | ({"spec": spec} if spec is not None else {}))
    return True


@operator(MEASURED + "a quota of CPU")
def quota_of_cpu(given: Written) -> bool:
    """The namespace allows less CPU than the pods ask for."""
    return add(given, "ResourceQuota", {"hard": {"requests.cpu": "1"}})


@operator(MEASURED + "a quota of limits.nvidia.com/gpu, which Kubernetes does not have")
def quota_of_limits_of_gpus(given: Written) -> bool:
    """The quota is of limits.nvidia.com/gpu, which the API server refuses."""
    return add(given, "ResourceQuota", {"hard": {"limits.nvidia.com/gpu": "4"}})


@operator(DOCS)
def quota_of_gpus(given: Written) -> bool:
    """The namespace allows no GPUs."""
    return add(given, "ResourceQuota", {"hard": {"requests.nvidia.com/gpu": "0"}})


@operator(DOCS)
def quota_of_pods(given: Written) -> bool:
    """The namespace allows no pod."""
    return add(given, "ResourceQuota", {"hard": {"pods": "0"}})


@operator(MEASURED + "a LimitRange below what the pods ask for")
def limit_range_of_memory(given: Written) -> bool:
    """A container may have 1 GiB at most."""
    return add(given, "LimitRange", {"limits": [{"type": "Container", "max": {"memory": "1Gi"}}]})


@operator(MEASURED + "a PriorityClass that is not there")
def priority_class_that_is_not_there(given: Written) -> bool:
    """The pod names a PriorityClass that is not there."""
    return any(put(pod(each), "spec", "priorityClassName", to="trainings") for each in given.gpu_workloads)


@operator(MEASURED + "a ServiceAccount that is not there")
def service_account_that_is_not_there(given: Written) -> bool:
    """The pod names a ServiceAccount that is not there."""
    return any(put(pod(each), "spec", "serviceAccountName", to="trainer") for each in given.gpu_workloads)


@operator("https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/cdi.html")
def runtime_class_that_is_not_there(given: Written) -> bool:
    """The pod names the RuntimeClass that only the GPU Operator makes."""
    return any(put(pod(each), "spec", "runtimeClassName", to="nvidia-cdi") for each in given.gpu_workloads)


@operator("https://kubernetes.io/docs/concepts/security/pod-security-admission/")
def privileged_pod_in_a_restricted_namespace(given: Written) -> bool:
    """The pod is privileged, and its namespace refuses that."""
    found = place(given)
    if found is None:
        return False
    name = found["metadata"]["namespace"]
    given.documents = [
        each
        for each in given.documents
        if not (isinstance(each, dict) and each.get("kind") == "Namespace" and each["metadata"]["name"] == name)
    ]
    labels = {"pod-security.kubernetes.io/enforce": "restricted", "team": "vision"}
    given.documents.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    return put(containers(found)[0], "securityContext", to={"privileged": True})


@operator(
    "https://github.com/NVIDIA/gpu-operator/issues/163",
    unseen="no manifest states the contents of the files in a mounted Secret",
)
def secret_of_another_content(given: Written) -> bool:
    """The pull secret is there, and holds the key of another registry."""
    found = place(given)
    if found is None:
        return False
    add(given, "Secret", None, type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": "e30="})
    return put(pod(found), "spec", "imagePullSecrets", to=[{"name": "limits"}])

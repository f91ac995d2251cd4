"""Device plugins, the GPU Operator, sharing and MIG."""

from __future__ import annotations

import copy
import json
from typing import Any

from tests.mutations.families.nodes.node_classes import charts, values
from tests.mutations.operator import MEASURED, operator
from tests.mutations.written import Written, containers, drop, look, pod, put, swap

PLUGIN = "https://github.com/NVIDIA/k8s-device-plugin/blob/v0.20.0/README.md"


def plugins(given: Written) -> list[Any]:
    """The DaemonSets of NVIDIA's device plugin."""
    found = given.objects("DaemonSet")
    return [each for each in found if any("k8s-device-plugin" in str(one.get("image")) for one in containers(each))]


@operator("https://github.com/eksctl-io/eksctl/issues/8550")
def no_toleration(given: Written) -> bool:
    """The device plugin does not tolerate the taint of the GPU nodes."""
    return any(drop(pod(each), "spec", "tolerations") for each in plugins(given))


@operator(PLUGIN)
def not_installed(given: Written) -> bool:
    """The device plugin is missing."""
    lost = plugins(given)
    given.documents = [each for each in given.documents if each not in lost]
    return bool(lost)


@operator("https://github.com/eksctl-io/eksctl/pull/8859")
def on_every_node(given: Written) -> bool:
    """The device plugin selects no nodes, and crash-loops on those without GPUs."""
    changed = [drop(pod(each), "spec", key) for each in plugins(given) for key in ("nodeSelector", "affinity")]
    return any(changed)


@operator(PLUGIN)
def selects_nodes_that_are_not_there(given: Written) -> bool:
    """The device plugin selects a label that no node has."""
    selector = {"accelerator": "nvidia"}
    return any(put(pod(each), "spec", "nodeSelector", to=selector) for each in plugins(given))


@operator("https://github.com/eksctl-io/eksctl/issues/4760")
def beside_that_of_bottlerocket(given: Written) -> bool:
    """The device plugin is installed on Bottlerocket, which brings its own."""
    if "BOTTLEROCKET_x86_64_NVIDIA" not in json.dumps(given.templates):
        return False
    spec = {
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "plugin", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"}],
    }
    labels = {"app": "plugin"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    meta = {"name": "plugin", "namespace": "kube-system"}
    body = {"selector": {"matchLabels": labels}, "template": template}
    given.documents.append({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta, "spec": body})
    return True


@operator(MEASURED + "the DRA driver as a plain DaemonSet beside the device plugin")
def beside_a_plain_dra_driver(given: Written) -> bool:
    """The DRA driver runs on the same nodes as the device plugin, as a plain DaemonSet."""
    for each in plugins(given):
        driver = copy.deepcopy(each)
        put(driver, "metadata", "name", to="nvidia-dra-driver-gpu-kubelet-plugin")
        image = "nvcr.io/nvidia/k8s-dra-driver-gpu:v25.8.0"
        command = ["bash", "-c", "gpu-kubelet-plugin"]
        put(pod(driver), "spec", "containers", to=[{"name": "gpus", "image": image, "command": command}])
        put(driver, "spec", "selector", "matchLabels", to={"app": "dra"})
        put(pod(driver), "metadata", "labels", to={"app": "dra"})
        given.documents.append(driver)
        return True
    return False


@operator(PLUGIN)
def sharing_without_replicas(given: Written) -> bool:
    """The sharing has no number of replicas."""
    return any(swap(each, "data", "config.yaml", old=", replicas: 4", new="") for each in given.objects("ConfigMap"))


@operator(PLUGIN)
def sharing_of_one(given: Written) -> bool:
    """The GPU is shared by one."""
    return any(
        swap(each, "data", "config.yaml", old="replicas: 4", new="replicas: 1") for each in given.objects("ConfigMap")
    )


@operator(PLUGIN)
def sharing_under_another_name(given: Written) -> bool:
    """The shares keep the name of the whole GPU, and pods ask for the other."""
    return any(
        swap(each, "data", "config.yaml", old="renameByDefault: true", new="renameByDefault: false")
        for each in given.objects("ConfigMap")
    )


@operator(PLUGIN)
def slices_that_do_not_fit(given: Written) -> bool:
    """The slices are more than the GPU has."""
    return "3g.20gb,3g.20gb" in json.dumps(given.templates) and _written_anew(
        given, "3g.20gb,3g.20gb", "4g.20gb,4g.20gb"
    )


def _written_anew(given: Written, old: str, new: str) -> bool:
    text = json.dumps(given.documents)
    given.documents = json.loads(text.replace(old, new))
    return old in text


@operator("https://github.com/aws/containers-roadmap/issues/2690")
def shares_in_auto_mode(given: Written) -> bool:
    """Pods of EKS Auto Mode ask for shares."""
    if not given.objects("NodeClass"):
        return False
    return any(
        put(one, "resources", "limits", to={"nvidia.com/gpu.shared": "1"})
        for each in given.gpu_workloads
        for one in containers(each)
    )


@operator("https://github.com/aws/karpenter-provider-aws/issues/3376")
def shares_on_karpenter(given: Written) -> bool:
    """Pods ask for shares, which Karpenter does not know."""
    if not given.objects("EC2NodeClass"):
        return False
    return any(
        put(one, "resources", "limits", to={"nvidia.com/gpu.shared": "1"})
        for each in given.gpu_workloads
        for one in containers(each)
    )


@operator("https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/getting-started.html")
def operator_without_its_plugin(given: Written) -> bool:
    """The GPU Operator's device plugin is off."""
    return values(given, "gpu-operator", "devicePlugin", to={"enabled": False})


@operator("https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/getting-started.html")
def switch_of_the_operator_misspelt(given: Written) -> bool:
    """A switch of the GPU Operator is misspelt, so that its default stands."""
    return values(given, "gpu-operator", "driver", to={"enable": False})


@operator(MEASURED + "DCGM host engines of the node monitoring agent and of this library")
def two_host_engines(given: Written) -> bool:
    """The GPU Operator runs DCGM's host engine where the node monitoring agent runs its own."""
    if not charts(given, "gpu-operator"):
        return False
    for template in given.templates:
        values = {
            "ClusterName": {"Ref": "Cluster"},
            "AddonName": "eks-node-monitoring-agent",
            "ConfigurationValues": '{"dcgmAgent":{"tolerations":[{"operator":"Exists"}]}}',
        }
        template["Resources"]["Monitoring"] = {"Type": "AWS::EKS::Addon", "Properties": values}
    return values_of_dcgm(given)


def values_of_dcgm(given: Written) -> bool:
    """Switch the host engine of the GPU Operator on."""
    return values(given, "gpu-operator", "dcgm", to={"enabled": True})


@operator("https://github.com/NVIDIA/k8s-device-plugin/issues/191")
def api_version_of_extensions(given: Written) -> bool:
    """The device plugin is of an API version that is gone."""
    return any(put(each, "apiVersion", to="extensions/v1beta1") for each in plugins(given))


@operator(PLUGIN)
def selector_of_other_labels(given: Written) -> bool:
    """The selector of the device plugin does not match its pods, which the API server refuses."""
    return any(
        look(pod(each), "metadata", "labels") and put(pod(each), "metadata", "labels", to={"name": "plugin"})
        for each in plugins(given)
    )

"""GPUs by claims (dynamic resource allocation)."""

from __future__ import annotations

from tests.mutations.families.nodes.node_classes import values
from tests.mutations.operator import MEASURED, operator
from tests.mutations.written import Written, pod, put, replace

DOCS = "https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/"
REQUEST = ("spec", "spec", "devices", "requests", 0)


@operator(DOCS)
def template_that_is_not_there(given: Written) -> bool:
    """The pod names a template of claims that is not there."""
    return any(
        replace(pod(each), "spec", "resourceClaims", 0, "resourceClaimTemplateName", to="gpu")
        for each in given.objects("Job")
    )


@operator(MEASURED + "a device class that nothing makes")
def class_that_is_not_there(given: Written) -> bool:
    """The claim is of a device class that is not there."""
    return any(
        replace(each, *REQUEST, "exactly", "deviceClassName", to="gpu.nvidia.org")
        for each in given.objects("ResourceClaimTemplate")
    )


@operator(DOCS)
def more_than_a_node(given: Written) -> bool:
    """The claim is of more GPUs than any node has."""
    return any(replace(each, *REQUEST, "exactly", "count", to=8) for each in given.objects("ResourceClaimTemplate"))


@operator(DOCS)
def request_as_in_v1beta1(given: Written) -> bool:
    """The request is written as in v1beta1, without "exactly"."""
    return any(
        put(each, *REQUEST, to={"name": "gpu", "deviceClassName": "gpu.nvidia.com"})
        for each in given.objects("ResourceClaimTemplate")
    )


@operator(MEASURED + "a claim without its driver, told to run on nodes without GPUs")
def no_driver(given: Written) -> bool:
    """The DRA driver is not installed."""
    return bool(given.objects("ResourceClaimTemplate")) and given.remove("Custom::AWSCDK-EKS-HelmChart")


@operator("https://github.com/aws/karpenter-provider-aws/issues/9519")
def driver_without_gpus(given: Written) -> bool:
    """The DRA driver doesn't manage GPUs, which is its chart's default."""
    return bool(given.objects("ResourceClaimTemplate")) and values(
        given, "dra-driver-nvidia-gpu", "gpuResourcesEnabledOverride", to=False
    )


@operator(DOCS)
def claims_on_nodes_without_gpus(given: Written) -> bool:
    """The pods select the nodes without GPUs."""
    return any(
        put(pod(each), "spec", "nodeSelector", to={"node.kubernetes.io/instance-type": "m6i.large"})
        for each in given.objects("Job")
        if "resourceClaims" in pod(each).get("spec", {})
    )

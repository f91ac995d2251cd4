"""GitOps, placeholders, versions and the form of the files."""

from __future__ import annotations

import json
from typing import Any

from tests.mutations.operator import MEASURED, operator
from tests.mutations.written import Written, containers, look, pod, put, replace

ARGO = "https://argo-cd.readthedocs.io/en/stable/user-guide/helm/"


def applications(given: Written) -> list[Any]:
    """The Applications of Argo CD."""
    return given.objects("Application")


@operator(MEASURED + "the toleration of a chart that Argo CD installs")
def argo_values_lose_the_toleration(given: Written) -> bool:
    """The values of the Application tell the device plugin to tolerate another taint."""
    tolerations = [{"key": "gpu", "operator": "Exists"}]
    return any(
        replace(each, "spec", "source", "helm", "valuesObject", "tolerations", to=tolerations)
        for each in applications(given)
    )


@operator(MEASURED + "values of an Application as a text")
def argo_values_as_a_text_without_toleration(given: Written) -> bool:
    """The values are a text, and tell the device plugin to tolerate another taint."""
    helm = {"values": "tolerations:\n- key: gpu\n  operator: Exists\n"}
    return any(put(each, "spec", "source", "helm", to=helm) for each in applications(given))


@operator("https://fluxcd.io/flux/components/helm/helmreleases/")
def flux_repository_that_is_not_there(given: Written) -> bool:
    """The HelmRelease names a repository that is not there."""
    return any(
        replace(each, "spec", "chart", "spec", "sourceRef", "name", to="kueues")
        for each in given.objects("HelmRelease")
    )


@operator("https://fluxcd.io/flux/components/helm/helmreleases/")
def flux_suspended(given: Written) -> bool:
    """The HelmRelease is suspended."""
    return any(put(each, "spec", "suspend", to=True) for each in given.objects("HelmRelease"))


@operator(MEASURED + "placeholders of envsubst beside a real mistake")
def label_that_no_node_has_beside_a_placeholder(given: Written) -> bool:
    """The image is a placeholder of envsubst, and the pod selects a label that no node has."""
    for each in given.gpu_workloads:
        containers(each)[0]["image"] = "$REGISTRY/train:$TAG"
        return put(pod(each), "spec", "nodeSelector", to={"accelerator": "nvidia-tesla-t4"})
    return False


@operator(MEASURED + "a part of the template that AWS::Include brings")
def part_of_the_template_included(given: Written) -> bool:
    """The GPU group is brought by AWS::Include, and the pods are as they were."""
    for template in given.templates:
        for name, each in list(template["Resources"].items()):
            if "NVIDIA" in str(look(each, "Properties", "AmiType")):
                del template["Resources"][name]
                include = {"Name": "AWS::Include", "Parameters": {"Location": "s3://templates/gpu-nodes.yaml"}}
                template["Resources"]["Fn::Transform"] = include
                return True
    return False


@operator(MEASURED + "a nested stack by URL")
def group_in_a_nested_stack(given: Written) -> bool:
    """The GPU group is in a nested stack, of which only a URL is there."""
    for template in given.templates:
        for name, each in template["Resources"].items():
            if "NVIDIA" in str(look(each, "Properties", "AmiType")):
                url = "https://s3.amazonaws.com/templates/gpu-nodes.yaml"
                template["Resources"][name] = {"Type": "AWS::CloudFormation::Stack", "Properties": {"TemplateURL": url}}
                return True
    return False


@operator("https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/intrinsic-function-reference-ref.html")
def reference_to_nothing(given: Written) -> bool:
    """A reference names a resource that is not there."""
    text = json.dumps(given.templates)
    if '{"Ref": "GpuTemplate"}' not in text:
        return False
    for template in given.templates:
        new = json.loads(json.dumps(template).replace('{"Ref": "GpuTemplate"}', '{"Ref": "GpuTemplates"}'))
        template.clear()
        template.update(new)
    return True


@operator("https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html")
def version_that_eks_does_not_have(given: Written) -> bool:
    """The cluster is of a Kubernetes version that EKS does not have."""
    return any(put(each, "Version", to="1.63") for each in given.resources("AWS::EKS::Cluster"))


@operator("https://docs.aws.amazon.com/eks/latest/userguide/workloads-add-ons-available-eks.html")
def addon_misspelt(given: Written) -> bool:
    """The name of an add-on is misspelt."""
    return any(
        put(each, "AddonName", to="eks-pod-identity")
        for each in given.resources("AWS::EKS::Addon")
        if each["AddonName"] == "eks-pod-identity-agent"
    )


@operator("https://docs.aws.amazon.com/eks/latest/userguide/workloads-add-ons-available-eks.html")
def addon_values_that_its_schema_refuses(given: Written) -> bool:
    """The configuration of an add-on has a key that its schema does not know."""
    values = '{"tolerations":[{"operator":"Exists"}],"gpu":true}'
    return any(
        put(each, "ConfigurationValues", to=values)
        for each in given.resources("AWS::EKS::Addon")
        if each["AddonName"] == "vpc-cni"
    )

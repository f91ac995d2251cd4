"""Fields of Karpenter's classes that its version does not have, and zones that a class has no subnet in."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_preflight.case import Case
from gpu_preflight.cluster.subnets import class_has_subnet, zone_requirements
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.label_values import Requirement
from gpu_preflight.node.nodes import minor
from gpu_preflight.reading.unknown import mapping
from gpu_preflight.rules.rule import Problem, rule

_CLASSES = "https://karpenter.sh/docs/concepts/nodeclasses/"
# From here on the class takes every field of kubelet.
# Source: aws/karpenter-provider-aws v1.15.0, pull request 9461
_FREE_FROM = (1, 15)
# Source: aws/karpenter-provider-aws v1.14.1 pkg/apis/crds/karpenter.k8s.aws_ec2nodeclasses.yaml
_NAMES = """
clusterDNS cpuCFSQuota evictionHard evictionMaxPodGracePeriod evictionSoft evictionSoftGracePeriod
imageGCHighThresholdPercent imageGCLowThresholdPercent kubeReserved maxPods podsPerCore systemReserved
"""
_KUBELET = tuple(_NAMES.split())


@rule("GPU398", "warning", source=f"{_CLASSES}#speckubelet")
def field_of_kubelet_that_the_class_does_not_have(case: Case) -> Iterator[Problem]:
    """Field of kubelet that the class does not have.

    Before 1.15 the definition of the class has twelve fields of kubelet; others are refused, or dropped.

    Fix: Use a field that the class has, or Karpenter 1.15.
    """
    karpenter = case.cluster.autoscaler("karpenter")
    if karpenter is None or karpenter.version is None or minor(karpenter.version) >= _FREE_FROM:
        return
    for each in case.cluster.of_kind("EC2NodeClass"):
        for name in mapping(each.spec.get("kubelet")):
            if name not in _KUBELET:
                yield Problem(each, f"EC2NodeClass {each.name}: kubelet has no {name} in Karpenter {karpenter.version}")


@rule("GPU399", "error", source=f"{_CLASSES}#specsubnetselectorterms")
def zone_in_which_the_class_has_no_subnet(case: Case) -> Iterator[Problem]:
    """Zone in which the class has no subnet.

    Karpenter launches into subnets of the class only, so that the pool makes no node. It is certain where the template
    has the cluster's VPC, else subnets of the same tags may stand elsewhere.

    Fix: Tag a subnet of that zone, or ask for a zone that has one.
    """
    for pool in case.cluster.pools:
        answer = class_has_subnet(pool)
        # That nothing is known of a zone is no finding.
        if answer is Answer.NO or (
            answer is Answer.UNKNOWN and all(isinstance(each, str) for each in pool.class_zones)
        ):
            asked, there = _asked(zone_requirements(pool)), ", ".join(sorted(map(str, pool.class_zones)))
            text = f"asks for zone {asked}, and the subnets of its class are in {there}"
            yield Problem.of(pool, text, unknown=answer is Answer.UNKNOWN)


def _asked(requirements: list[Requirement]) -> str:
    return " and ".join(
        ", ".join(each.values or ()) if each.operator == "In" else f"{each.operator} {', '.join(each.values or ())}"
        for each in requirements
    )

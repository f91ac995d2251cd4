"""Fields and values that have another name today.

Sources: https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#api-object (v2 of autoscaling),
https://github.com/kubernetes/autoscaler/blob/master/vertical-pod-autoscaler/docs/api.md,
https://kueue.sigs.k8s.io/docs/reference/kueue.v1beta2/, https://karpenter.sh/docs/upgrading/v1-migration/,
https://kubernetes.io/docs/reference/kubernetes-api/ (2026-11)
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# By kind and old name, of a field or a value.
RENAMED: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("HorizontalPodAutoscaler", "metric"): "pods.metric",
        ("HorizontalPodAutoscaler", "metricName"): "metric.name",
        ("HorizontalPodAutoscaler", "metricSelector"): "metric.selector",
        ("HorizontalPodAutoscaler", "targetAverageUtilization"): "target.averageUtilization",
        ("HorizontalPodAutoscaler", "targetAverageValue"): "target.averageValue",
        ("HorizontalPodAutoscaler", "targetValue"): "target.value",
        ("VerticalPodAutoscaler", "maxResources"): "maxAllowed",
        ("VerticalPodAutoscaler", "minResources"): "minAllowed",
        ("ClusterQueue", "admissionChecks"): "admissionChecksStrategy",
        ("ClusterQueue", "cohort"): "cohortName",
        ("EC2NodeClass", "amiSelector"): "amiSelectorTerms",
        ("EC2NodeClass", "securityGroupSelector"): "securityGroupSelectorTerms",
        ("EC2NodeClass", "subnetSelector"): "subnetSelectorTerms",
        ("NodePool", "ttlSecondsAfterEmpty"): "spec.disruption.consolidateAfter",
        ("NodePool", "ttlSecondsUntilExpired"): "spec.template.spec.expireAfter",
        ("NodePool", "consolidation"): "spec.disruption.consolidationPolicy",
        ("NodePool", "WhenUnderutilized"): "WhenEmptyOrUnderutilized",
        ("NodePool", "providerRef"): "nodeClassRef",
        ("NodePool", "apiVersion"): "group",
    }
)

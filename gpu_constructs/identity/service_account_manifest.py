"""The ServiceAccount of a workload."""

from __future__ import annotations

import cdk8s
from cdk8s_plus_28 import k8s


def service_account_chart(*, name: str, namespace: str) -> cdk8s.Chart:
    """Return a service account. Pod Identity needs no annotation on it."""
    chart = cdk8s.Chart(cdk8s.App(), name)
    k8s.KubeServiceAccount(chart, "ServiceAccount", metadata=k8s.ObjectMeta(name=name, namespace=namespace))
    return chart

"""Charts and add-ons without a DaemonSet. They are listed so that they count as known."""

from __future__ import annotations

from gpu_facts import charts
from gpu_facts.software.model import KnownSoftware

_CERT_MANAGER, _EXTERNAL_DNS = "cert-manager", "external-dns"
# Their templates contain only Deployments, in every version that was read.
_CHARTS = {
    charts.LOAD_BALANCER_CONTROLLER: ("https://github.com/aws/eks-charts/tree/master/stable", "2026-08-03"),
    _CERT_MANAGER: ("https://github.com/cert-manager/cert-manager/tree/master/deploy/charts", "2026-11-21"),
    charts.CLUSTER_AUTOSCALER: ("https://github.com/kubernetes/autoscaler/tree/master/charts", "2026-08-22"),
    _EXTERNAL_DNS: ("https://github.com/kubernetes-sigs/external-dns/tree/master/charts", "2026-11-21"),
    charts.JOBSET: ("https://github.com/kubernetes-sigs/jobset/tree/v0.12.0/charts/jobset", "2026-08-20"),
    charts.KARPENTER: ("https://github.com/aws/karpenter-provider-aws/tree/v1.14.1/charts/karpenter", "2026-08-20"),
    charts.KARPENTER_CRDS: (
        "https://github.com/aws/karpenter-provider-aws/tree/v1.14.1/charts/karpenter-crd",
        "2026-08-20",
    ),
    charts.KEDA: ("https://github.com/kedacore/charts/tree/main/keda", "2026-07-31"),
    charts.KUBE_STATE_METRICS: ("https://github.com/prometheus-community/helm-charts", "2026-08-22"),
    charts.KUBERAY: ("https://github.com/ray-project/kuberay/tree/v1.7.0/helm-chart", "2026-08-20"),
    charts.KUEUE: ("https://github.com/kubernetes-sigs/kueue/tree/v0.19.2/charts/kueue", "2026-08-20"),
    charts.LEADER_WORKER_SET: ("https://github.com/kubernetes-sigs/lws/tree/v0.10.0/charts/lws", "2026-08-20"),
    charts.METRICS_SERVER: ("https://github.com/kubernetes-sigs/metrics-server/tree/master/charts", "2026-11-21"),
    charts.PROMETHEUS_ADAPTER: ("https://github.com/prometheus-community/helm-charts", "2026-08-22"),
    charts.VERTICAL_POD_AUTOSCALER: (
        "https://github.com/kubernetes/autoscaler/tree/master/vertical-pod-autoscaler/charts",
        "2026-07-25",
    ),
}
# Built from the projects with the same names.
_OF_COMMUNITY = (_CERT_MANAGER, _EXTERNAL_DNS, charts.KUBE_STATE_METRICS, charts.METRICS_SERVER)
# Source of their components: the user guide.
_USER_GUIDE = "https://docs.aws.amazon.com/eks/latest/userguide/workloads-add-ons-available-eks.html"
_USER_GUIDE_AS_OF = "2024-12-18"


def _none(name: str, source: str, as_of: str) -> KnownSoftware:
    return KnownSoftware(name=name, source=source, as_of=as_of)


CHARTS = tuple(_none(name, *read) for name, read in _CHARTS.items())
ADDONS = (
    *(_none(name, *_CHARTS[name]) for name in _OF_COMMUNITY),
    *(_none(name, _USER_GUIDE, _USER_GUIDE_AS_OF) for name in (charts.COREDNS, "snapshot-controller")),
    # Its configuration can add collectors as DaemonSets. Their settings were not read.
    KnownSoftware(name="adot", opaque_paths=("collector",), source=_USER_GUIDE, as_of=_USER_GUIDE_AS_OF),
)

"""Simulated workloads of EKS add-ons, definitions of missing charts, and a server that replaces admission webhooks.

The workloads of an add-on exist while EKS reports that it is installed. The webhook server allows every request once
the service has a ready pod. Before, it returns 503, like a Service without endpoints, and the webhook's failurePolicy
decides. So a rehearsal checks the order of software and objects, and not the decisions of the webhook.
Source: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gpu_rehearsal.cluster.client import NOT_FOUND, ApiError, Client, Loop, Looped, Object
from gpu_rehearsal.cluster.pod_status import is_ready
from gpu_rehearsal.credentials import Authority, Cloud
from gpu_rehearsal.processes import LOOPBACK, Handler, Server

NAMESPACE = "kube-system"
_NAME_LABEL = "app.kubernetes.io/name"
# Fields of an add-on's configuration that change the pods of a workload.
_POD_FIELDS = ("affinity", "nodeSelector", "tolerations", "priorityClassName")
_ALL = [{"operator": "Exists"}]
_CRITICAL = {"key": "CriticalAddonsOnly", "operator": "Exists"}
_ON_NODE, _ON_CLUSTER = "system-node-critical", "system-cluster-critical"
_COMPUTE_TYPE = "eks.amazonaws.com/compute-type"
# Instance types on which the host engine of DCGM runs: sizes by family.
# Source: https://github.com/aws/eks-node-monitoring-agent, charts/eks-node-monitoring-agent/values.yaml (2026-11)
_DCGM_SIZES = {
    "g3": "4xlarge 8xlarge 16xlarge",
    "g3s": "xlarge",
    "g4dn": "xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge metal",
    "g5": "xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge 48xlarge",
    "g5g": "xlarge 2xlarge 4xlarge 8xlarge 16xlarge metal",
    "g6": "xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge 48xlarge",
    "g6e": "xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge 48xlarge",
    "g6f": "large xlarge 2xlarge 4xlarge",
    "g7": "2xlarge 4xlarge 8xlarge 12xlarge 24xlarge 48xlarge",
    "g7e": "2xlarge 4xlarge 8xlarge 12xlarge 24xlarge 48xlarge",
    "gr6": "4xlarge 8xlarge",
    "gr6f": "4xlarge",
    "p2": "xlarge 8xlarge 16xlarge",
    "p3": "2xlarge 8xlarge 16xlarge",
    "p3dn": "24xlarge",
    "p4d": "24xlarge",
    "p4de": "24xlarge",
    "p5": "4xlarge 48xlarge",
    "p5e": "48xlarge",
    "p5en": "48xlarge",
    "p6-b200": "48xlarge",
    "p6-b300": "48xlarge",
    "p6e-gb200": "36xlarge",
    "p6e-gb300": "36xlarge",
}
_DCGM_TYPES = [f"{family}.{size}" for family, sizes in _DCGM_SIZES.items() for size in sizes.split()]
_STORAGE_CONTROLLER = {
    "tolerations": [_CRITICAL, {"effect": "NoExecute", "operator": "Exists", "tolerationSeconds": 300}],
    "priorityClassName": _ON_CLUSTER,
}
# API groups of the definitions in a chart, by the chart's name.
# Source: the folder crds/ or the templates of each chart, at the repositories below (2026-11).
GROUPS: Mapping[str, tuple[str, ...]] = {
    "aws-node-termination-handler": (),  # https://github.com/aws/aws-node-termination-handler
    "aws-efa-k8s-device-plugin": (),  # https://github.com/aws/eks-charts/tree/master/stable
    # It also serves the kinds of the Gateway API if they are installed.
    "aws-load-balancer-controller": ("elbv2.k8s.aws", "gateway.k8s.aws", "aga.k8s.aws"),  # the same
    "dra-driver-nvidia-gpu": ("resource.nvidia.com",),  # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu
    "gpu-operator": ("nvidia.com", "nfd.k8s-sigs.io"),  # https://github.com/NVIDIA/gpu-operator
    "jobset": ("jobset.x-k8s.io",),  # https://github.com/kubernetes-sigs/jobset
    "kai-scheduler": ("scheduling.run.ai", "kai.scheduler"),  # https://github.com/kai-scheduler/KAI-Scheduler
    "karpenter": ("karpenter.sh", "karpenter.k8s.aws"),  # https://github.com/aws/karpenter-provider-aws
    "karpenter-crd": ("karpenter.sh", "karpenter.k8s.aws"),  # the same
    "keda": ("keda.sh", "eventing.keda.sh"),  # https://github.com/kedacore/charts
    "kube-prometheus-stack": ("monitoring.coreos.com",),  # https://github.com/prometheus-community/helm-charts
    "kuberay-operator": ("ray.io",),  # https://github.com/ray-project/kuberay-helm
    "kueue": ("kueue.x-k8s.io",),  # https://github.com/kubernetes-sigs/kueue
    "lws": ("leaderworkerset.x-k8s.io",),  # https://github.com/kubernetes-sigs/lws
    "prometheus-adapter": (),  # https://github.com/prometheus-community/helm-charts
    "vertical-pod-autoscaler": ("autoscaling.k8s.io",),  # https://github.com/kubernetes/autoscaler
}
# Devices that a chart's pods advertise, by the chart's name. A slash at the end makes a name a prefix.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html and
# https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/index.html (2026-11)
DEVICES: Mapping[str, tuple[str, ...]] = {
    "aws-efa-k8s-device-plugin": ("vpc.amazonaws.com/efa",),
    "gpu-operator": ("nvidia.com/",),
}
_ESTABLISHED_WITHIN = 30.0
_GROUP = "/apis/admissionregistration.k8s.io/v1"
_KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_UNAVAILABLE = 503


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """A DaemonSet, or a Deployment if it has replicas.

    Attributes:
        account: Its service account.
        at: Path of its settings in the add-on's configuration.
        requests: Resource requests of its container.
        pod: The rest of its pods' specification.
        replicas: Number of replicas; ``None`` for a DaemonSet.
        removes: Key of the taint that its pod removes from its node; empty for none.
    """

    name: str
    account: str
    at: tuple[str, ...] = ()
    requests: Mapping[str, str] = field(default_factory=dict)
    pod: Mapping[str, Any] = field(default_factory=dict)
    replicas: int | None = None
    removes: str = ""

    def manifests(self, addon: str, configuration: Mapping[str, Any]) -> list[Object]:
        """Render it, with its service account."""
        own: Any = configuration
        for part in self.at:
            own = own.get(part) or {}
        labels = {"rehearsal.gpu-constructs.io/stands-in-for": addon, _NAME_LABEL: self.name}
        metadata = {"name": self.name, "namespace": NAMESPACE, "labels": labels}
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata | {"name": self.account}}
        template = {"metadata": {"labels": labels}, "spec": self._pod(addon, own)}
        spec: Object = {"selector": {"matchLabels": labels}, "template": template}
        if self.replicas is None:
            return [account, {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec}]
        spec["replicas"] = own.get("replicaCount", self.replicas)
        return [account, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}]

    def _pod(self, addon: str, configuration: Mapping[str, Any]) -> Object:
        requests = ((configuration.get("resources") or {}).get("requests")) or self.requests
        container = {"name": addon, "image": f"stand-in/{addon}", "resources": {"requests": dict(requests)}}
        changed = {key: configuration[key] for key in _POD_FIELDS if key in configuration}
        return {"serviceAccountName": self.account, "containers": [container]} | dict(self.pod) | changed


def _affinity(**keys: tuple[str, list[str]]) -> dict[str, Any]:
    terms = [{"key": key, "operator": operator, "values": values} for key, (operator, values) in keys.items()]
    required = {"nodeSelectorTerms": [{"matchExpressions": terms}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def _exclude_compute_types(*kinds: str, **more: tuple[str, list[str]]) -> dict[str, Any]:
    return _affinity(**{_COMPUTE_TYPE: ("NotIn", list(kinds))}, **more)


def _daemon(*not_on: str, host: bool = True) -> dict[str, Any]:
    """Return the pod fields of a DaemonSet that runs on all nodes except some compute types."""
    network = {"hostNetwork": True} if host else {}
    return network | {"tolerations": _ALL, "priorityClassName": _ON_NODE, "affinity": _exclude_compute_types(*not_on)}


WORKLOADS: Mapping[str, tuple[Workload, ...]] = {
    # https://github.com/aws/amazon-vpc-cni-k8s/blob/master/config/master/aws-k8s-cni.yaml
    "vpc-cni": (
        Workload(
            name="aws-node", account="aws-node", requests={"cpu": "50m"}, pod=_daemon("fargate", "hybrid", "auto")
        ),
    ),
    # https://docs.aws.amazon.com/eks/latest/userguide/managing-kube-proxy.html
    "kube-proxy": (
        Workload(name="kube-proxy", account="kube-proxy", requests={"cpu": "100m"}, pod=_daemon("fargate", "auto")),
    ),
    # https://docs.aws.amazon.com/eks/latest/userguide/managing-coredns.html
    "coredns": (
        Workload(
            name="coredns",
            account="coredns",
            replicas=2,
            requests={"cpu": "100m", "memory": "70Mi"},
            pod={
                "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}, _CRITICAL],
                "priorityClassName": _ON_CLUSTER,
            },
        ),
    ),
    # https://github.com/aws/eks-pod-identity-agent/blob/main/charts/eks-pod-identity-agent/values.yaml
    "eks-pod-identity-agent": (
        Workload(name="eks-pod-identity-agent", account="eks-pod-identity-agent", pod=_daemon("fargate")),
    ),
    # https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/charts/aws-ebs-csi-driver/values.yaml
    "aws-ebs-csi-driver": (
        Workload(
            name="ebs-csi-controller",
            account="ebs-csi-controller-sa",
            at=("controller",),
            replicas=2,
            # Six containers.
            requests={"cpu": "60m", "memory": "240Mi"},
            pod=_STORAGE_CONTROLLER,
        ),
        Workload(
            name="ebs-csi-node",
            account="ebs-csi-node-sa",
            at=("node",),
            # Three containers.
            requests={"cpu": "30m", "memory": "120Mi"},
            pod=_daemon("fargate", "auto", "hybrid", host=False),
            removes="ebs.csi.aws.com/agent-not-ready",
        ),
    ),
    # https://github.com/awslabs/mountpoint-s3-csi-driver/blob/v2.7.0/charts/aws-mountpoint-s3-csi-driver/values.yaml
    "aws-mountpoint-s3-csi-driver": (
        Workload(
            name="s3-csi-controller",
            account="s3-csi-driver-controller-sa",
            at=("controller",),
            replicas=1,
            requests={"cpu": "10m", "memory": "40Mi"},
            pod={"priorityClassName": _ON_CLUSTER},
        ),
        Workload(
            name="s3-csi-node",
            account="s3-csi-driver-sa",
            at=("node",),
            # Three containers.
            requests={"cpu": "30m", "memory": "120Mi"},
            pod=_daemon("fargate", "hybrid", host=False),
            removes="s3.csi.aws.com/agent-not-ready",
        ),
    ),
    # https://github.com/kubernetes-sigs/aws-fsx-csi-driver/blob/v1.9.0/charts/aws-fsx-csi-driver/values.yaml
    "aws-fsx-csi-driver": (
        Workload(
            name="fsx-csi-controller",
            account="fsx-csi-controller-sa",
            at=("controller",),
            replicas=2,
            # Four containers.
            requests={"cpu": "40m", "memory": "136Mi"},
            pod=_STORAGE_CONTROLLER,
        ),
        Workload(
            name="fsx-csi-node",
            account="fsx-csi-node-sa",
            at=("node",),
            # Three containers.
            requests={"cpu": "30m", "memory": "104Mi"},
            pod=_daemon("fargate", host=False),
            removes="fsx.csi.aws.com/agent-not-ready",
        ),
    ),
    # https://github.com/aws/eks-node-monitoring-agent/blob/main/charts/eks-node-monitoring-agent/values.yaml
    "eks-node-monitoring-agent": (
        Workload(
            name="eks-node-monitoring-agent",
            account="eks-node-monitoring-agent",
            at=("nodeAgent",),
            requests={"cpu": "10m", "memory": "30Mi"},
            pod=_daemon("fargate", "auto", "hybrid"),
        ),
        Workload(
            name="dcgm-server",
            account="default",
            at=("dcgmAgent",),
            pod={
                "priorityClassName": _ON_NODE,
                "affinity": _exclude_compute_types(
                    "fargate",
                    "auto",
                    "hybrid",
                    **{
                        "node.kubernetes.io/instance-type": ("In", _DCGM_TYPES),
                        "kubernetes.io/arch": ("In", ["amd64"]),
                    },
                ),
            },
        ),
    ),
}


class Addons(Looped):
    """The add-ons of one cluster.

    Attributes:
        not_simulated: Add-ons without a simulated workload.
    """

    def __init__(self, cloud: Cloud, client: Client, *, cluster: str) -> None:
        self._eks, self._client, self._cluster = cloud.client("eks"), client, cluster
        self.not_simulated: set[str] = set()
        self._installed: dict[str, str] = {}
        self.loop = Loop("add-ons", self.step, seconds=1.0)

    def step(self) -> None:
        """Update the workloads to the add-ons that EKS reports now."""
        names = []
        # The cluster or an add-on may not exist yet, or no longer. The API server here outlives both.
        with suppress(self._eks.exceptions.ResourceNotFoundException):
            names = self._eks.list_addons(clusterName=self._cluster)["addons"]
            for name in names:
                configuration = self._eks.describe_addon(clusterName=self._cluster, addonName=name)["addon"]
                self._install(name, configuration.get("configurationValues") or "{}")
        removed = self._installed.keys() - set(names)
        for name in removed:
            self._remove(name)
        if removed and not names:
            # Their nodes are gone and no kubelet ends these pods. On a new node of that name they would seem to run.
            self._client.delete(f"/api/v1/namespaces/{NAMESPACE}/pods")
        for name in self._installed:
            for workload in WORKLOADS[name]:
                if workload.removes:
                    self._remove_startup_taints(workload)

    def _install(self, name: str, configuration: str) -> None:
        if name not in WORKLOADS:
            self.not_simulated.add(name)
        elif self._installed.get(name) != configuration:
            for workload in WORKLOADS[name]:
                for manifest in workload.manifests(name, json.loads(configuration)):
                    self._client.apply(manifest)
            self._installed[name] = configuration

    def _remove_startup_taints(self, workload: Workload) -> None:
        """Remove the startup taint of a driver from nodes with a ready pod of it, as these pods do.

        Source: kubernetes-sigs/aws-ebs-csi-driver v1.64.0 pkg/driver/node.go ``removeNotReadyTaint``
        """
        pods = self._client.list(f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector=f"{_NAME_LABEL}={workload.name}")
        for node in {each["spec"].get("nodeName", "") for each in pods if is_ready(each)}:
            found = self._client.find(f"/api/v1/nodes/{node}")
            taints = found["spec"].get("taints", []) if found is not None else []
            left = [each for each in taints if each["key"] != workload.removes]
            if len(left) < len(taints):
                try:
                    self._client.patch(f"/api/v1/nodes/{node}", {"spec": {"taints": left}})
                except ApiError as error:
                    # The node was removed meanwhile.
                    if error.status != NOT_FOUND:
                        raise

    def _remove(self, name: str) -> None:
        for workload in WORKLOADS[name]:
            plural = "daemonsets" if workload.replicas is None else "deployments"
            self._client.delete(f"/apis/apps/v1/namespaces/{NAMESPACE}/{plural}/{workload.name}")
        del self._installed[name]


class Definitions:
    """A folder of definitions, for one cluster.

    Args:
        folder: Files of YAML; ``None`` for none.
    """

    def __init__(self, folder: Path | None, client: Client) -> None:
        self._folder, self._client = folder, client

    def apply_chart_definitions(self, chart: str) -> list[str]:
        """Apply the definitions that a chart would install, and return their names.

        Raises:
            TimeoutError: The server doesn't serve a definition.
        """
        groups = GROUPS.get(chart, ())
        found = [each for each in self._all() if each["spec"]["group"] in groups] if groups else []
        for each in found:
            each.pop("status", None)
            self._client.apply(each)
        for each in found:
            self._wait_until_established(self._client.object_path(each))
        return sorted(str(each["metadata"]["name"]) for each in found)

    def _all(self) -> Iterator[Object]:
        for file in sorted(self._folder.glob("*.yaml")) if self._folder else ():
            for each in yaml.safe_load_all(file.read_text()):
                if each and each.get("kind") == "CustomResourceDefinition":
                    yield each

    def _wait_until_established(self, path: str) -> None:
        """Wait as helm does: it installs objects of a kind only after the server serves the kind.

        Source: https://helm.sh/docs/chart_best_practices/custom_resource_definitions/
        """
        ends = time.monotonic() + _ESTABLISHED_WITHIN
        while not _is_established(self._client.get(path)):
            if time.monotonic() > ends:
                raise TimeoutError(f"{path} is not established")
            time.sleep(0.1)


def _is_established(definition: Object) -> bool:
    conditions = definition.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


class _Answer(Handler):
    """Handles the admission reviews of the API server."""

    server: Webhooks

    def do_POST(self) -> None:
        """Allow the request if the service has a ready pod."""
        review = json.loads(self.body())
        [namespace, service] = self.path.partition("?")[0].strip("/").split("/")
        if not _has_ready_pod(self.server.client, namespace, service):
            self.send(_UNAVAILABLE, f'no endpoints available for service "{service}"'.encode())
            return
        response = {"uid": review["request"]["uid"], "allowed": True}
        self.send(200, json.dumps({**review, "request": None, "response": response}).encode())


class Webhooks(Server):
    """The webhooks of one cluster.

    Attributes:
        substitutes: Services whose webhooks this server replaces, as ``namespace/name``.
    """

    def __init__(self, client: Client, authority: Authority) -> None:
        super().__init__(_Answer, authority.context(LOOPBACK))
        self.client = client
        self._trusted = base64.b64encode(authority.certificate.read_bytes()).decode()
        self.substitutes: set[str] = set()
        self.loop = Loop("webhooks", self.step)

    def __enter__(self) -> Webhooks:
        self.loop.start()
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        self.loop.stop()
        super().__exit__()

    def step(self) -> None:
        """Point every webhook configuration of a service to this server."""
        for kind in _KINDS:
            for found in self.client.list(f"{_GROUP}/{kind}"):
                called = [each for each in found.get("webhooks", ()) if "service" in each["clientConfig"]]
                for each in called:
                    each["clientConfig"] = self._substitute_config(each["clientConfig"]["service"])
                if called:
                    self.client.replace(f"{_GROUP}/{kind}/{found['metadata']['name']}", found)

    def _substitute_config(self, service: Object) -> Object:
        name = f"{service['namespace']}/{service['name']}"
        self.substitutes.add(name)
        return {"url": f"https://{LOOPBACK}:{self.server_port}/{name}", "caBundle": self._trusted}


def _has_ready_pod(client: Client, namespace: str, service: str) -> bool:
    """Whether a service has a ready pod."""
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    try:
        slices = client.list(path, labelSelector=f"kubernetes.io/service-name={service}")
    except ApiError:
        return False
    found = [each for endpoint_slice in slices for each in endpoint_slice.get("endpoints") or ()]
    return any(each.get("conditions", {}).get("ready") for each in found)

"""Replacements for absent software: definitions of charts, and a server that answers admission webhooks.

The server allows everything once the service has a ready pod, and nothing before, as a webhook that nobody answers. So
the order of software and objects is checked; the decisions of the webhook aren't.
Source: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from gpu_rehearsal.players.cluster.client import Client, Object, Refused
from gpu_rehearsal.players.cluster.process import Loop
from gpu_rehearsal.players.credentials import Authority
from gpu_rehearsal.players.processes import LOOPBACK, Handler, Server

# API groups that the definitions in a chart are of, by the chart's name.
# Source: the folder crds/ or the templates of each chart, at the repositories below (2026-11).
GROUPS: Mapping[str, tuple[str, ...]] = {
    "aws-node-termination-handler": (),  # https://github.com/aws/aws-node-termination-handler
    "aws-efa-k8s-device-plugin": (),  # https://github.com/aws/eks-charts/tree/master/stable
    # Beside it the kinds of the Gateway API, which it serves where they are installed.
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
# Devices that a chart's pods advertise, by its name; of those that end in a slash whatever begins so.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html and
# https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/index.html (2026-11)
DEVICES: Mapping[str, tuple[str, ...]] = {
    "aws-efa-k8s-device-plugin": ("vpc.amazonaws.com/efa",),
    "gpu-operator": ("nvidia.com/",),
}
_ESTABLISHED_WITHIN = 30.0


class Definitions:
    """A folder of definitions, for one cluster.

    Args:
        folder: Files of YAML; ``None`` for none.
    """

    def __init__(self, folder: Path | None, client: Client) -> None:
        self._folder, self._client = folder, client

    def of_chart(self, chart: str) -> list[str]:
        """Apply the definitions that a chart would bring, and return their names.

        Raises:
            TimeoutError: The server does not serve one.
        """
        groups = GROUPS.get(chart, ())
        found = [each for each in self._all() if each["spec"]["group"] in groups] if groups else []
        for each in found:
            each.pop("status", None)
            self._client.apply(each)
        for each in found:
            self._wait_for(self._client.path_of(each))
        return sorted(str(each["metadata"]["name"]) for each in found)

    def _all(self) -> Iterator[Object]:
        for file in sorted(self._folder.glob("*.yaml")) if self._folder else ():
            for each in yaml.safe_load_all(file.read_text()):
                if each and each.get("kind") == "CustomResourceDefinition":
                    yield each

    def _wait_for(self, path: str) -> None:
        """Wait as helm does, which installs nothing of a kind before the server serves it.

        Source: https://helm.sh/docs/chart_best_practices/custom_resource_definitions/
        """
        ends = time.monotonic() + _ESTABLISHED_WITHIN
        while not _is_established(self._client.get(path)):
            if time.monotonic() > ends:
                raise TimeoutError(f"{path} is not established")
            time.sleep(0.1)


def _is_established(definition: Object) -> bool:
    said = definition.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in said)


_GROUP = "/apis/admissionregistration.k8s.io/v1"
_KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_UNAVAILABLE = 503


class _Answer(Handler):
    """Answers what the API server asks."""

    server: Webhooks

    def do_POST(self) -> None:
        """Allow it, where the service could answer."""
        review = json.loads(self.body())
        [namespace, service] = self.path.partition("?")[0].strip("/").split("/")
        if not has_ready_pod(self.server.client, namespace, service):
            self.send(_UNAVAILABLE, f'no endpoints available for service "{service}"'.encode())
            return
        response = {"uid": review["request"]["uid"], "allowed": True}
        self.send(200, json.dumps({**review, "request": None, "response": response}).encode())


class Webhooks(Server):
    """The webhooks of one cluster.

    Attributes:
        stood_in: Services that were stood in for, as ``namespace/name``.
    """

    def __init__(self, client: Client, authority: Authority) -> None:
        super().__init__(_Answer, authority.context(LOOPBACK))
        self.client = client
        self._trusted = base64.b64encode(authority.certificate.read_bytes()).decode()
        self.stood_in: set[str] = set()
        self.loop = Loop("webhooks", self.step)

    def __enter__(self) -> Webhooks:
        self.loop.start()
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        self.loop.stop()
        super().__exit__()

    def step(self) -> None:
        """Have the server called instead of every service that is to be called now."""
        for kind in _KINDS:
            for found in self.client.list(f"{_GROUP}/{kind}"):
                called = [each for each in found.get("webhooks", ()) if "service" in each["clientConfig"]]
                for each in called:
                    each["clientConfig"] = self._instead(each["clientConfig"]["service"])
                if called:
                    self.client.replace(f"{_GROUP}/{kind}/{found['metadata']['name']}", found)

    def _instead(self, service: Object) -> Object:
        name = f"{service['namespace']}/{service['name']}"
        self.stood_in.add(name)
        return {"url": f"https://{LOOPBACK}:{self.server_port}/{name}", "caBundle": self._trusted}


def has_ready_pod(client: Client, namespace: str, service: str) -> bool:
    """Whether a service has a pod that serves."""
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    try:
        slices = client.list(path, labelSelector=f"kubernetes.io/service-name={service}")
    except Refused:
        return False
    found = [each for one in slices for each in one.get("endpoints") or ()]
    return any(each.get("conditions", {}).get("ready") for each in found)

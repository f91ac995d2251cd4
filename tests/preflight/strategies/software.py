"""Software on nodes next to the pods under test, and the autoscalers that create nodes."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from tests.preflight.strategies.vocabulary import GPU, Json, seldom

_IMAGES = {
    "cluster-autoscaler": "registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.1",
    "karpenter": "public.ecr.aws/karpenter/controller:1.14.1",
}
_EVERY: Json = {"operator": "Exists"}
_tolerations = st.sampled_from(([_EVERY], [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}], []))
_SHARED = {"timeSlicing": {"renameByDefault": True, "resources": [{"name": GPU, "replicas": 4}]}}
_configurations = st.sampled_from(
    ({"version": "v1", "sharing": _SHARED}, {"version": "v1", "flags": {"migStrategy": "mixed"}})
)


@st.composite
def device_plugins(draw: st.DrawFn) -> list[Json]:
    """A device plugin, with or without sharing, that reaches all pools or some."""
    container: Json = {
        "name": "plugin",
        "image": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0",
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
    }
    pod: Json = {"tolerations": draw(_tolerations), "containers": [container]}
    if draw(seldom(st.just(True))):
        pod["nodeSelector"] = {"nvidia.com/gpu.present": "true"}
    configuration = draw(seldom(_configurations))
    return [*_configured(pod, container, configuration), _daemon_set("plugin", pod)]


def _configured(pod: Json, container: Json, configuration: Json | None) -> list[Json]:
    """Let a plugin read a configuration, and return the ConfigMap that holds it."""
    if configuration is None:
        return []
    container["env"] = [{"name": "CONFIG_FILE", "value": "/config/config.yaml"}]
    container["volumeMounts"] = [{"name": "config", "mountPath": "/config"}]
    pod["volumes"] = [{"name": "config", "configMap": {"name": "config"}}]
    data = {"config.yaml": json.dumps(configuration)}
    return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": _named("config"), "data": data}]


@st.composite
def exporters(draw: st.DrawFn) -> list[Json]:
    """A DaemonSet that takes a host port and some memory."""
    container = {
        "name": "exporter",
        "image": "exporter:1",
        "ports": [{"containerPort": 9400, "hostPort": 9400}],
        "resources": {"requests": {"cpu": "250m", "memory": "512Mi"}},
    }
    return [_daemon_set("exporter", {"containers": [container], "tolerations": draw(_tolerations)})]


@st.composite
def makers(draw: st.DrawFn) -> list[Json]:
    """The autoscalers that create nodes, or some of them."""
    names = draw(
        st.sampled_from(((), ("cluster-autoscaler",), ("karpenter",), *[("cluster-autoscaler", "karpenter")] * 3))
    )
    return [_deployment(name, _IMAGES[name]) for name in names]


@st.composite
def software(draw: st.DrawFn) -> list[Json]:
    """All of that, or some."""
    return [*draw(device_plugins()), *draw(st.just([]) | exporters()), *draw(makers())]


def _named(name: str) -> Json:
    return {"name": name, "namespace": "kube-system"}


def _daemon_set(name: str, pod: Json) -> Json:
    labels = {"app": name}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": _named(name), "spec": spec}


def _deployment(name: str, image: str) -> Json:
    pod: Json = {"serviceAccountName": name, "containers": [{"name": name, "image": image}]}
    spec: dict[str, Any] = {"template": {"spec": pod}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _named(name), "spec": spec}

"""The Kubernetes objects of NVIDIA's DCGM exporter.

Source: NVIDIA/dcgm-exporter 4.5.3-4.8.2 deployment/templates/
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import cdk8s
from cdk8s_plus_28 import k8s

from gpu_facts.charts import DCGM_EXPORTER
from gpu_facts.kubernetes import KUBE_SYSTEM, NODE_CRITICAL
from gpu_facts.labels import APP_NAME, DEVICE_MANAGER, NAMESPACE_NAME

NAME = DCGM_EXPORTER
NAMESPACE = KUBE_SYSTEM
_PORT = 9400
_PORT_NAME = "metrics"
_LABELS = {APP_NAME: NAME}
_POD_RESOURCES = "/var/lib/kubelet/pod-resources"
# The same interval as Prometheus. The exporter's default is 30 seconds.
_SCRAPE_SECONDS = 15


def exporter_chart(*, image: str, counters: str, shared: bool) -> cdk8s.Chart:
    """Return configuration, DaemonSet and Service.

    Args:
        image: Image.
        counters: The list of fields.
        shared: Whether pods share GPUs. Then use and memory are counted by process.
    """
    chart = cdk8s.Chart(cdk8s.App(), NAME)
    here = k8s.ObjectMeta(name=NAME, namespace=NAMESPACE, labels=_LABELS)
    k8s.KubeServiceAccount(chart, "ServiceAccount", metadata=here, automount_service_account_token=False)
    k8s.KubeConfigMap(chart, "Counters", metadata=here, data={"counters.csv": counters})
    k8s.KubeDaemonSet(
        chart,
        "DaemonSet",
        metadata=here,
        spec=k8s.DaemonSetSpec(
            selector=k8s.LabelSelector(match_labels=_LABELS),
            update_strategy=k8s.DaemonSetUpdateStrategy(type="RollingUpdate"),
            template=k8s.PodTemplateSpec(
                metadata=k8s.ObjectMeta(labels=_LABELS), spec=_pod(image=image, shared=shared)
            ),
        ),
    )
    k8s.KubeService(
        chart,
        "Service",
        metadata=here,
        spec=k8s.ServiceSpec(selector=_LABELS, ports=[k8s.ServicePort(name=_PORT_NAME, port=_PORT)]),
    )
    return chart


def service_monitor() -> dict[str, Any]:
    """Return the ServiceMonitor of the exporter. In its metrics, ``exported_pod`` is the pod that uses a GPU."""
    endpoint = {"port": _PORT_NAME, "interval": f"{_SCRAPE_SECONDS}s", "scrapeTimeout": "10s", "honorLabels": False}
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": _LABELS}, "endpoints": [endpoint]},
    }


def network_policy(namespace: str) -> dict[str, Any]:
    """Return a policy that allows only pods of one namespace to connect to the exporter, if the cluster enforces it.

    The kubelet of a node can always connect to its pods.
    Source: https://kubernetes.io/docs/concepts/services-networking/network-policies/
    """
    scrapers = {"namespaceSelector": {"matchLabels": {NAMESPACE_NAME: namespace}}}
    allowed = {"from": [scrapers], "ports": [{"protocol": "TCP", "port": _PORT}]}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {"podSelector": {"matchLabels": _LABELS}, "policyTypes": ["Ingress"], "ingress": [allowed]},
    }


def dashboard() -> dict[str, Any]:
    """Return the Grafana dashboard as a ConfigMap that Grafana's sidecar reads."""
    text = files("gpu_constructs.metrics").joinpath("gpu_dashboard.json").read_text()
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "gpu-dashboard", "namespace": NAMESPACE, "labels": {"grafana_dashboard": "1"}},
        "data": {"gpus.json": text},
    }


def _pod(*, image: str, shared: bool) -> k8s.PodSpec:
    gpu_nodes = k8s.NodeSelectorRequirement(key=DEVICE_MANAGER, operator="Exists")
    term = k8s.NodeSelectorTerm(match_expressions=[gpu_nodes])
    health = k8s.HttpGetAction(path="/health", port=k8s.IntOrString.from_number(_PORT))
    quantity = k8s.Quantity.from_string
    return k8s.PodSpec(
        service_account_name=NAME,
        automount_service_account_token=False,
        priority_class_name=NODE_CRITICAL,
        host_pid=True if shared else None,
        tolerations=[k8s.Toleration(operator="Exists")],
        affinity=k8s.Affinity(
            node_affinity=k8s.NodeAffinity(
                required_during_scheduling_ignored_during_execution=k8s.NodeSelector(node_selector_terms=[term])
            )
        ),
        containers=[
            k8s.Container(
                name=NAME,
                image=image,
                args=["-f", "/etc/dcgm-exporter/counters.csv"],
                env=_environment(shared),
                ports=[k8s.ContainerPort(name=_PORT_NAME, container_port=_PORT)],
                # The exporter answers when it has found its GPUs. On an 8-GPU node that takes a minute.
                startup_probe=k8s.Probe(http_get=health, period_seconds=10, failure_threshold=30),
                readiness_probe=k8s.Probe(http_get=health),
                liveness_probe=k8s.Probe(http_get=health, period_seconds=10, failure_threshold=6),
                resources=k8s.ResourceRequirements(
                    requests={"cpu": quantity("100m"), "memory": quantity("256Mi")}, limits={"memory": quantity("1Gi")}
                ),
                security_context=k8s.SecurityContext(
                    run_as_user=0,
                    run_as_non_root=False,
                    allow_privilege_escalation=False,
                    # The profiling fields need it.
                    capabilities=k8s.Capabilities(drop=["ALL"], add=["SYS_ADMIN"]),
                    seccomp_profile=k8s.SeccompProfile(type="RuntimeDefault"),
                ),
                volume_mounts=[
                    k8s.VolumeMount(name="pod-resources", mount_path=_POD_RESOURCES, read_only=True),
                    k8s.VolumeMount(name="counters", mount_path="/etc/dcgm-exporter", read_only=True),
                ],
            )
        ],
        volumes=[
            k8s.Volume(name="pod-resources", host_path=k8s.HostPathVolumeSource(path=_POD_RESOURCES, type="Directory")),
            k8s.Volume(name="counters", config_map=k8s.ConfigMapVolumeSource(name=NAME)),
        ],
    )


def _environment(shared: bool) -> list[k8s.EnvVar]:
    node = k8s.EnvVarSource(field_ref=k8s.ObjectFieldSelector(field_path="spec.nodeName"))
    told = {
        "DCGM_EXPORTER_KUBERNETES": "true",
        "DCGM_EXPORTER_LISTEN": f":{_PORT}",
        "DCGM_EXPORTER_INTERVAL": str(_SCRAPE_SECONDS * 1000),
        **({"KUBERNETES_VIRTUAL_GPUS": "true"} if shared else {}),
    }
    return [
        *(k8s.EnvVar(name=key, value=value) for key, value in told.items()),
        k8s.EnvVar(name="NODE_NAME", value_from=node),
    ]

"""Faults of the device plugin, and of the server's probes and Service."""

from __future__ import annotations

from typing import Any

from tests.rehearsal.faults.assembly import CloudAssembly
from tests.rehearsal.faults.fault import fault

_PLUGIN = "https://github.com/NVIDIA/k8s-device-plugin#prerequisites"


def _pod(workload: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = workload["spec"]["template"]["spec"]
    return found


@fault(
    consequence="The plugin runs on no tainted GPU node, so no node offers a GPU and every GPU pod stays Pending.",
    cause=(r"nvidia-device-plugin|device plugin", r"tolerat|taint"),
    changes="DaemonSet",
    source="https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/",
)
def plugin_tolerates_nothing(app: CloudAssembly) -> None:
    """The device plugin has no tolerations."""
    app.edit("DaemonSet", lambda it: _pod(it).pop("tolerations"))


@fault(
    consequence="The plugin runs on no node, so no node offers a GPU and every GPU pod stays Pending.",
    cause=(r"nvidia-device-plugin|device plugin", r"affinity|selector|label|gpu-operator|matches|runs on no"),
    changes="DaemonSet",
    source=_PLUGIN,
)
def plugin_on_other_nodes(app: CloudAssembly) -> None:
    """The device plugin requires a node label that no pool has."""

    def change(plugin: dict[str, Any]) -> None:
        required = _pod(plugin)["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        required["nodeSelectorTerms"][0]["matchExpressions"][0]["values"] = ["gpu-operator"]

    app.edit("DaemonSet", change)


@fault(
    consequence="The startup probe never succeeds, so kubelet keeps restarting the server and it never serves.",
    cause=("chat", r"probe", r"8001|port"),
    changes="Deployment",
    source="https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/",
)
def chat_probes_a_closed_port(app: CloudAssembly) -> None:
    """The server's probes use port 8001, and the server listens on 8000."""

    def change(deployment: dict[str, Any]) -> None:
        [container] = _pod(deployment)["containers"]
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            container[probe]["httpGet"]["port"] = 8001

    app.edit("Deployment", change)


@fault(
    consequence="The Service has no endpoints, so every request to it fails.",
    cause=("chat", r"Service", r"select"),
    changes="Service",
    source="https://kubernetes.io/docs/concepts/services-networking/service/",
)
def chat_service_selects_nothing(app: CloudAssembly) -> None:
    """The server's Service selects pods by a label that no pod has."""
    app.edit("Service", lambda it: it["spec"].update(selector={"app.kubernetes.io/name": "chatt"}))

"""The Kubernetes objects of NVIDIA's device plugin: one DaemonSet for each way of sharing GPUs.

Source: NVIDIA/k8s-device-plugin v0.20.0 deployments/static/, deployments/helm/nvidia-device-plugin/templates/
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import cdk8s
from cdk8s_plus_28 import k8s

from gpu_constructs.pools.sharing import Mig, Mps, Sharing
from gpu_facts.charts import DEVICE_PLUGIN
from gpu_facts.kubernetes import KUBE_SYSTEM, NODE_CRITICAL
from gpu_facts.labels import APP_NAME, COMPUTE_TYPE, DEVICE_MANAGER, SHARING

_NAME = DEVICE_PLUGIN
_NAMESPACE = KUBE_SYSTEM
_SOCKETS = "/var/lib/kubelet/device-plugins"
_MPS_ROOT = "/run/nvidia/mps"
_CONFIG = "/config/config.yaml"


def device_plugin_chart(image: str) -> cdk8s.Chart:
    """Return the DaemonSet for nodes without GPU sharing."""
    chart = cdk8s.Chart(cdk8s.App(), _NAME)
    _daemon_set(chart, "DaemonSet", name=_NAME, pod=_plugin(image, None))
    return chart


def sharing_chart(image: str, sharing: Sharing, config: Mapping[str, object]) -> cdk8s.Chart:
    """Return the DaemonSet for nodes with one way of sharing, its configuration, and with MPS the control daemon."""
    name = f"{_NAME}-{sharing.profile}"
    chart = cdk8s.Chart(cdk8s.App(), name)
    # The plugin reads YAML, which includes JSON.
    data = {"config.yaml": json.dumps(config, indent=2)}
    k8s.KubeConfigMap(chart, "Config", metadata=k8s.ObjectMeta(name=name, namespace=_NAMESPACE), data=data)
    _daemon_set(chart, "DaemonSet", name=name, pod=_plugin(image, sharing))
    if isinstance(sharing, Mps):
        _daemon_set(chart, "ControlDaemon", name=f"{name}-control", pod=_control_daemon(image, sharing))
    return chart


def _daemon_set(chart: cdk8s.Chart, id: str, *, name: str, pod: k8s.PodSpec) -> None:
    labels = {APP_NAME: name}
    k8s.KubeDaemonSet(
        chart,
        id,
        metadata=k8s.ObjectMeta(name=name, namespace=_NAMESPACE, labels=labels),
        spec=k8s.DaemonSetSpec(
            selector=k8s.LabelSelector(match_labels=labels),
            update_strategy=k8s.DaemonSetUpdateStrategy(type="RollingUpdate"),
            template=k8s.PodTemplateSpec(metadata=k8s.ObjectMeta(labels=labels), spec=pod),
        ),
    )


def _plugin(image: str, sharing: Sharing | None) -> k8s.PodSpec:
    mount = k8s.VolumeMount(name="device-plugins", mount_path=_SOCKETS)
    sockets = k8s.Volume(name=mount.name, host_path=k8s.HostPathVolumeSource(path=_SOCKETS, type="Directory"))
    return k8s.PodSpec(
        priority_class_name=NODE_CRITICAL,
        automount_service_account_token=False,
        tolerations=[k8s.Toleration(operator="Exists")],
        affinity=k8s.Affinity(node_affinity=_served_nodes(sharing)),
        containers=[
            k8s.Container(
                name=_NAME,
                image=image,
                env=_environment(sharing),
                resources=_resources(limited=True),
                security_context=_security(sharing),
                volume_mounts=[mount, *_mounts(sharing)],
            )
        ],
        volumes=[sockets, *_volumes(sharing)],
    )


def _control_daemon(image: str, sharing: Mps) -> k8s.PodSpec:
    root = k8s.VolumeMount(name="mps", mount_path="/mps", mount_propagation="Bidirectional")
    privileged = k8s.SecurityContext(privileged=True)
    return k8s.PodSpec(
        priority_class_name=NODE_CRITICAL,
        automount_service_account_token=False,
        tolerations=[k8s.Toleration(operator="Exists")],
        affinity=k8s.Affinity(node_affinity=_served_nodes(sharing)),
        # The server reads its own process under /proc by the id that the driver reports.
        host_pid=True,
        init_containers=[
            k8s.Container(
                name="mount-shm",
                image=image,
                command=["mps-control-daemon", "mount-shm"],
                resources=_resources(limited=True),
                security_context=privileged,
                volume_mounts=[root],
            )
        ],
        containers=[
            k8s.Container(
                name="mps-control-daemon",
                image=image,
                command=["mps-control-daemon"],
                env=[_variable("NVIDIA_VISIBLE_DEVICES", "all"), *_environment(sharing)],
                # Its server may hold memory that clients pinned.
                resources=_resources(limited=False),
                security_context=privileged,
                volume_mounts=_mounts(sharing),
            )
        ],
        volumes=_volumes(sharing),
    )


def _environment(sharing: Sharing | None) -> list[k8s.EnvVar]:
    # Explicit, because some releases enable it by default and then take over the EFA devices from EFA's plugin.
    found = [_variable("MOFED_ENABLED", "false")]
    if sharing is not None:
        found.append(_variable("CONFIG_FILE", _CONFIG))
    if isinstance(sharing, Mig):
        found += [_variable("NVIDIA_MIG_MONITOR_DEVICES", "all"), _variable("NVIDIA_VISIBLE_DEVICES", "all")]
    if isinstance(sharing, Mps):
        found.append(_variable("MPS_ROOT", _MPS_ROOT))
    return found


def _mounts(sharing: Sharing | None) -> list[k8s.VolumeMount]:
    found = []
    if sharing is not None:
        found.append(k8s.VolumeMount(name="config", mount_path="/config", read_only=True))
    if isinstance(sharing, Mps):
        found.append(k8s.VolumeMount(name="mps", mount_path="/mps"))
        found.append(k8s.VolumeMount(name="mps-shm", mount_path="/dev/shm"))
    return found


def _volumes(sharing: Sharing | None) -> list[k8s.Volume]:
    found = []
    if sharing is not None:
        name = f"{_NAME}-{sharing.profile}"
        found.append(k8s.Volume(name="config", config_map=k8s.ConfigMapVolumeSource(name=name)))
    if isinstance(sharing, Mps):
        root = k8s.HostPathVolumeSource(path=_MPS_ROOT, type="DirectoryOrCreate")
        found.append(k8s.Volume(name="mps", host_path=root))
        found.append(k8s.Volume(name="mps-shm", host_path=k8s.HostPathVolumeSource(path=f"{_MPS_ROOT}/shm")))
    return found


def _security(sharing: Sharing | None) -> k8s.SecurityContext:
    seccomp = k8s.SeccompProfile(type="RuntimeDefault")
    if isinstance(sharing, Mig):
        # Reading MIG devices needs this capability.
        return k8s.SecurityContext(capabilities=k8s.Capabilities(add=["SYS_ADMIN"]), seccomp_profile=seccomp)
    return k8s.SecurityContext(
        allow_privilege_escalation=False, capabilities=k8s.Capabilities(drop=["ALL"]), seccomp_profile=seccomp
    )


def _resources(*, limited: bool) -> k8s.ResourceRequirements:
    quantity = k8s.Quantity.from_string
    return k8s.ResourceRequirements(
        requests={"cpu": quantity("10m"), "memory": quantity("64Mi")},
        # Far more than it needs, because a node without its plugin has no GPUs.
        limits={"memory": quantity("512Mi")} if limited else None,
    )


def _variable(name: str, value: str) -> k8s.EnvVar:
    return k8s.EnvVar(name=name, value=value)


def _served_nodes(sharing: Sharing | None) -> k8s.NodeAffinity:
    if sharing is None:
        shared = _expression(SHARING, "DoesNotExist", None)
    else:
        shared = _expression(SHARING, "In", [sharing.profile])
    served = [
        _expression(DEVICE_MANAGER, "In", ["device-plugin"]),
        _expression(COMPUTE_TYPE, "NotIn", ["auto"]),
        shared,
    ]
    term = k8s.NodeSelectorTerm(match_expressions=served)
    return k8s.NodeAffinity(
        required_during_scheduling_ignored_during_execution=k8s.NodeSelector(node_selector_terms=[term])
    )


def _expression(key: str, operator: str, values: Sequence[str] | None) -> k8s.NodeSelectorRequirement:
    return k8s.NodeSelectorRequirement(key=key, operator=operator, values=list(values) if values else None)

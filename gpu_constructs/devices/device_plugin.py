"""NVIDIA's device plugin: tells kubelet how many GPUs a node has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from constructs import Construct

from gpu_constructs.cluster_ref import AnyCluster, PathOf, cluster_ref
from gpu_constructs.delivery import apply_chart
from gpu_constructs.pools import node_labels
from gpu_constructs.refusals import refuse_unless_image
from gpu_constructs.versions import DEVICE_PLUGIN

if TYPE_CHECKING:
    import cdk8s
    from cdk8s_plus_28 import k8s

NAME = "nvidia-device-plugin"
NAMESPACE = "kube-system"
_SOCKETS = "/var/lib/kubelet/device-plugins"
# They mount every /dev/infiniband device by default. Source: NVIDIA/k8s-device-plugin CHANGELOG, v0.19.3.
_EFA_THIEVES = ("v0.19.0", "v0.19.1", "v0.19.2")


class DevicePlugin(Construct):
    """The device plugin on every AL2023 GPU node of a cluster.

    It runs on the nodes labelled ``gpu-constructs.io/device-manager=device-plugin``, as all AL2023 pools of this
    library are, whatever their taints. Label the GPU nodes of other origin so that it serves them too. It stays
    off Bottlerocket and EKS Auto Mode, whose images contain a device plugin.

    Source: https://github.com/NVIDIA/k8s-device-plugin/blob/v0.20.0/deployments/static/nvidia-device-plugin.yml

    Args:
        cluster: Cluster to install into; needs a kubectl provider.
        image: Image with tag or digest. Never v0.19.0 to v0.19.2, which take the EFA devices.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster has a device manager or no kubectl provider, or the image breaks EFA.
    """

    def __init__(self, scope: Construct, id: str, *, cluster: AnyCluster, image: str = DEVICE_PLUGIN.reference) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        refuse_unless_image(who, "image", image)
        _refuse_efa_thief(who, image)
        ref.claim(who, "device manager", why="two advertise every GPU twice")

        self.resource = apply_chart(self, "Resource", cluster=ref, chart=device_plugin_chart(image))


def device_plugin_chart(image: str) -> cdk8s.Chart:
    """Return the DaemonSet."""
    import cdk8s
    from cdk8s_plus_28 import k8s

    chart = cdk8s.Chart(cdk8s.App(), NAME)
    labels = {"app.kubernetes.io/name": NAME}
    k8s.KubeDaemonSet(
        chart,
        "DaemonSet",
        metadata=k8s.ObjectMeta(name=NAME, namespace=NAMESPACE, labels=labels),
        spec=k8s.DaemonSetSpec(
            selector=k8s.LabelSelector(match_labels=labels),
            update_strategy=k8s.DaemonSetUpdateStrategy(type="RollingUpdate"),
            template=k8s.PodTemplateSpec(metadata=k8s.ObjectMeta(labels=labels), spec=_pod(image)),
        ),
    )
    return chart


def _pod(image: str) -> k8s.PodSpec:
    from cdk8s_plus_28 import k8s

    mount = k8s.VolumeMount(name="device-plugins", mount_path=_SOCKETS)
    return k8s.PodSpec(
        priority_class_name="system-node-critical",
        automount_service_account_token=False,
        tolerations=[k8s.Toleration(operator="Exists")],
        affinity=k8s.Affinity(node_affinity=_served_nodes()),
        containers=[
            k8s.Container(
                name=NAME,
                image=image,
                # Explicit, because some releases switch it on and then take the EFA devices from EFA's plugin.
                env=[k8s.EnvVar(name="MOFED_ENABLED", value="false")],
                resources=k8s.ResourceRequirements(
                    requests={"cpu": k8s.Quantity.from_string("10m"), "memory": k8s.Quantity.from_string("64Mi")}
                ),
                security_context=k8s.SecurityContext(
                    allow_privilege_escalation=False, capabilities=k8s.Capabilities(drop=["ALL"])
                ),
                volume_mounts=[mount],
            )
        ],
        volumes=[
            k8s.Volume(name=mount.name, host_path=k8s.HostPathVolumeSource(path=_SOCKETS, type="Directory")),
        ],
    )


def _served_nodes() -> k8s.NodeAffinity:
    from cdk8s_plus_28 import k8s

    served = k8s.NodeSelectorRequirement(key=node_labels.DEVICE_MANAGER, operator="In", values=["device-plugin"])
    not_auto = k8s.NodeSelectorRequirement(key=node_labels.AUTO_MODE_COMPUTE_TYPE, operator="NotIn", values=["auto"])
    term = k8s.NodeSelectorTerm(match_expressions=[served, not_auto])
    return k8s.NodeAffinity(
        required_during_scheduling_ignored_during_execution=k8s.NodeSelector(node_selector_terms=[term])
    )


def _refuse_efa_thief(who: object, image: str) -> None:
    tag = image.partition("@")[0].rpartition(":")[2]
    if tag in _EFA_THIEVES:
        raise ValueError(
            f"{who}: image must not be one of {', '.join(_EFA_THIEVES)}, which take the EFA devices, got {image!r}; "
            f"use {DEVICE_PLUGIN.reference!r}"
        )

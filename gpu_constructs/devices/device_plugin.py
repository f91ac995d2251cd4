"""NVIDIA's device plugin: reports the GPUs of a node to the kubelet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, get_args

from constructs import Construct

from gpu_constructs.devices.device_plugin_config import plugin_config, warn_of_both
from gpu_constructs.installing import registry
from gpu_constructs.installing.cluster_ref import AnyCluster, cluster_ref
from gpu_constructs.installing.delivery import apply_chart
from gpu_constructs.installing.registry import PathOf
from gpu_constructs.pools.sharing import DeviceManagerName, Exclusive, Sharing
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_image
from gpu_facts.versions import DEVICE_PLUGIN

# They mount every /dev/infiniband device by default. Source: NVIDIA/k8s-device-plugin CHANGELOG, v0.19.3.
_EFA_THIEVES = ("v0.19.0", "v0.19.1", "v0.19.2")


@named_arguments
class DevicePlugin(Construct):
    """The device plugin on every AL2023 GPU node of a cluster.

    It runs on the nodes with the label ``gpu-constructs.io/device-manager=device-plugin``, independent of taints. All
    AL2023 pools of this library have it. Add the label to other GPU nodes to run the plugin there, too. Each way of
    sharing GPUs among the pools of the app gets a separate DaemonSet. It doesn't run on Bottlerocket and EKS Auto Mode,
    whose images contain a device plugin.

    Source: https://github.com/NVIDIA/k8s-device-plugin/blob/v0.20.0/deployments/static/nvidia-device-plugin.yml

    Args:
        cluster: Cluster to install into. It needs a kubectl provider.
        image: Image with tag or digest. It must not be v0.19.0 to v0.19.2, which take over the EFA devices.
        sharing: Ways of sharing on pools that other apps define. The ways of this app's pools are always included.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster already has a device manager, has no kubectl provider, or the image breaks EFA.
    """

    manages: ClassVar[DeviceManagerName] = "device-plugin"

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        image: str = DEVICE_PLUGIN.reference,
        sharing: Sequence[Sharing] = (),
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        refuse_unless_image(who, "image", image)
        _refuse_efa_thief(who, image)
        if not isinstance(sharing, (list, tuple)) or not all(isinstance(each, get_args(Sharing)) for each in sharing):
            raise TypeError(
                f"{who}: sharing must be a list of TimeSlicing(...), Mps(...) or Mig(...), got {sharing!r}; write "
                "[TimeSlicing(4)]"
            )
        ref.claim(who, registry.DEVICE_MANAGER, why="two advertise every GPU twice")
        warn_of_both(self, ref)

        # Imported here because cdk8s takes a second to load.
        from gpu_constructs.devices import device_plugin_manifests as manifests

        def serve(sharing: Sharing) -> None:
            """Add the DaemonSet for another way of sharing."""
            if not isinstance(sharing, Exclusive):
                chart = manifests.sharing_chart(image, sharing, plugin_config(sharing))
                apply_chart(self, f"Sharing-{sharing.profile}", cluster=ref, chart=chart)

        self.resource = apply_chart(self, "Resource", cluster=ref, chart=manifests.device_plugin_chart(image))
        for each in sharing:
            ref.sharing.ask(each)
        ref.sharing.serve(serve)


def _refuse_efa_thief(who: object, image: str) -> None:
    tag = image.partition("@")[0].rpartition(":")[2]
    if tag in _EFA_THIEVES:
        raise ValueError(
            f"{who}: image must not be one of {', '.join(_EFA_THIEVES)}, which take over the EFA devices, got "
            f"{image!r}; use {DEVICE_PLUGIN.reference!r}"
        )

"""NVIDIA's GPU Operator: the device plugin and its helpers, installed by a controller.

The chart has no schema and silently ignores misspelt values. So this module has the list of its values.

Source: NVIDIA/gpu-operator v26.7.0 deployments/gpu-operator/values.yaml, including values in its comments
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from constructs import Construct

from gpu_constructs.devices.device_plugin import install_in_order, plugin_config, warn_of_both
from gpu_constructs.installing import registry
from gpu_constructs.installing.cluster_ref import AnyCluster, cluster_ref
from gpu_constructs.installing.delivery import find_value, install_helm_chart, late_values
from gpu_constructs.installing.registry import PathOf
from gpu_constructs.pools.sharing import DeviceManagerName, Exclusive, Sharing
from gpu_facts.charts import NAMESPACES
from gpu_facts.labels import DEVICE_MANAGER
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import did_you_mean, refuse_unless_bool
from gpu_facts.versions import GPU_OPERATOR

# Names of most sections: of an image, and of a part that runs it.
_IMAGE = "image imagePullPolicy imagePullSecrets repository version"
_PART = f"{_IMAGE} enabled env hostNetwork resources"
# Names by section. A section without names accepts any.
KNOWN: Mapping[str, frozenset[str]] = {
    section: frozenset(names.split())
    for section, names in {
        "ccManager": f"{_IMAGE} defaultMode enabled hostNetwork resources",
        "cdi": "enabled nriPluginEnabled",
        "clusterPolicy": "deployCR",
        "daemonsets": "annotations labels priorityClassName rollingUpdate tolerations updateStrategy",
        "dcgm": "args enabled env hostNetwork image imagePullPolicy repository resources version",
        "dcgmExporter": (
            "annotations config enablePodLabels enablePodUID enabled env hostNetwork hostPID "
            "hpcJobMapping image imagePullPolicy podLabelAllowlistRegex repository resources service "
            "serviceMonitor version"
        ),
        "devicePlugin": f"{_PART} args config mps",
        "draDriver": f"{_IMAGE} computeDomains featureGates gpus",
        "driver": (
            f"{_PART} certConfig kernelModuleConfig kernelModuleType licensingConfig manager "
            "nvidiaDriverCRD rdma repoConfig secretEnv startupProbe upgradePolicy usePrecompiled "
            "virtualTopology"
        ),
        "extraObjects": "",
        "gdrcopy": f"{_IMAGE} args enabled env",
        "gds": f"{_IMAGE} args enabled env",
        "gfd": _PART,
        "gpuCluster": "deployCR",
        "hostPaths": "driverInstallDir kubeletRootDir rootFS",
        "kataManager": "config enabled env hostNetwork imagePullPolicy imagePullSecrets resources",
        "kataSandboxDevicePlugin": f"{_PART} args",
        "mig": "strategy",
        "migManager": f"{_PART} config gpuClientsConfig",
        "nfd": "enabled nodefeaturerules",
        "node-feature-discovery": "",
        "nodeStatusExporter": f"{_IMAGE} enabled hostNetwork resources",
        "operator": (
            f"{_IMAGE} affinity annotations cleanupCRD env logging metrics nodeSelector priorityClassName "
            "resources runtimeClass tolerations upgradeCRD use_ocp_driver_toolkit"
        ),
        "platform": "openshift",
        "psa": "enabled",
        "sandboxDevicePlugin": f"{_PART} args",
        "sandboxWorkloads": "defaultWorkload enabled mode",
        "toolkit": f"{_PART} installDir",
        "validator": f"{_IMAGE} args env hostNetwork plugin resources",
        "vfioManager": f"{_PART} driverManager",
        "vgpuDeviceManager": f"{_IMAGE} config enabled env hostNetwork",
        "vgpuManager": f"{_PART} driverManager kernelModuleConfig",
    }.items()
}
_NAMESPACE = NAMESPACES[GPU_OPERATOR.name]
_CONFIG_MAP = "gpu-constructs-device-plugin"


def _refuse_unknown_values(who: object, values: object) -> None:
    """Reject values that the chart would silently ignore.

    Raises:
        TypeError: ``values`` isn't a mapping, or a section isn't one.
        ValueError: A section or a name is unknown.
    """
    if not isinstance(values, Mapping):
        raise TypeError(f"{who}: values must be a mapping, got {values!r}; write {{'section': {{'name': ...}}}}")
    for section, told in values.items():
        if section not in KNOWN:
            raise ValueError(
                f"{who}: values must have sections of the chart, got {section!r}{did_you_mean(str(section), KNOWN)}"
            )
        if not KNOWN[section]:
            continue
        if not isinstance(told, Mapping):
            raise TypeError(f"{who}: values[{section!r}] must be a mapping, got {told!r}; write {{'name': ...}}")
        for name in told:
            if name not in KNOWN[section]:
                raise ValueError(
                    f"{who}: values[{section!r}] must have names of the chart, got {name!r}"
                    f"{did_you_mean(str(name), KNOWN[section])}"
                )


@named_arguments
class GpuOperator(Construct):
    """The operator for the nodes of pools with ``device_manager="gpu-operator"``, and only for them.

    It runs the device plugin there, and each way of sharing among the pools is a part of its configuration. Driver and
    container toolkit are in the AL2023 image, the node's own boot script configures MIG, and `DcgmExporter` reports
    metrics. So these components of the operator are off. NVIDIA doesn't support the operator on AL2023 or Bottlerocket.
    AWS documents it for AL2023. A deployment waits neither for the operator nor for the components that it runs on each
    node. ``kubectl get clusterpolicy`` shows their status.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-optimized-ami.html

    Args:
        cluster: Cluster to install into. It needs a kubectl provider.
        values: Values of the chart.
        acknowledge_bottlerocket: Run it for the Bottlerocket pools instead, although Bottlerocket's maintainers advise
            against it. It then provides only its labels and diagnostics, without device plugin.

    Raises:
        TypeError: ``cluster`` isn't a cluster of ``aws_eks_v2``.
        ValueError: The cluster already has a device manager, has no kubectl provider, or a value enables a component
            that the image has.

    Attributes:
        chart: The release.
    """

    manages: ClassVar[DeviceManagerName] = "gpu-operator"

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        values: Mapping[str, Any] | None = None,
        acknowledge_bottlerocket: bool = False,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        if values is not None:
            _refuse_unknown_values(who, values)
        for component in ("driver", "toolkit"):
            if ((values or {}).get(component) or {}).get("enabled"):
                raise ValueError(
                    f"{who}: values must leave {component}.enabled False, got True; remove it, because the image has "
                    "its own and both break each other"
                )
        refuse_unless_bool(who, "acknowledge_bottlerocket", acknowledge_bottlerocket)
        ref.claim(who, registry.GPU_OPERATOR, why="both are the helm release 'gpu-operator'")
        if find_value(values, "gpuCluster", "deployCR") not in (None, False, "false"):
            ref.claim(who, registry.DRA_DRIVER_OF_OPERATOR, why="both are the helm release 'gpu-operator'")
        if not acknowledge_bottlerocket:
            ref.claim(who, registry.DEVICE_MANAGER, why="two advertise every GPU twice")
            warn_of_both(self, ref)

        self._configs: dict[str, str] = {}
        configs = late_values(self._configs)
        ours = _bottlerocket_values() if acknowledge_bottlerocket else gpu_operator_values(configs)
        self.chart = install_helm_chart(
            self,
            "Resource",
            cluster=ref,
            chart=GPU_OPERATOR,
            namespace=_NAMESPACE,
            create_namespace=True,
            values=ours,
            user_values=values,
            # Helm would wait for its ClusterPolicy, which isn't ready while a component on one GPU node isn't ready.
            # So a change of the values would fail after minutes because of an unrelated node.
            until_ready=False,
        )
        install_in_order(ref)

        if not acknowledge_bottlerocket:
            self._serve(Exclusive())
            ref.sharing.serve(self._serve)

    def _serve(self, sharing: Sharing) -> None:
        """Add the configuration for another way of sharing."""
        # The plugin reads YAML, which includes JSON.
        self._configs[sharing.profile] = json.dumps(plugin_config(sharing), indent=2)


def gpu_operator_values(configs: Any) -> Mapping[str, Any]:
    """Return the values of the operator's chart.

    Source: NVIDIA/gpu-operator v26.7.0 deployments/gpu-operator/values.yaml
    """
    return _values("gpu-operator") | {
        "devicePlugin": {
            # The interfaces belong to EFA's own plugin.
            "env": [{"name": "MOFED_ENABLED", "value": "false"}],
            "config": {"create": True, "name": _CONFIG_MAP, "default": Exclusive.profile, "data": configs},
        },
    }


def _bottlerocket_values() -> Mapping[str, Any]:
    """Return the values for nodes whose image has driver, toolkit and device plugin.

    Source: https://github.com/bottlerocket-os/bottlerocket/issues/4162
    """
    return _values("bottlerocket") | {"devicePlugin": {"enabled": False}}


def _values(device_manager: DeviceManagerName) -> dict[str, Any]:
    anywhere = [{"operator": "Exists"}]
    return {
        "driver": {"enabled": False},
        "toolkit": {"enabled": False},
        "migManager": {"enabled": False},
        "mig": {"strategy": "mixed"},
        "dcgmExporter": {"enabled": False},
        "daemonsets": {"tolerations": anywhere},
        # The operator runs on nodes where this component finds a GPU.
        "node-feature-discovery": {
            "worker": {"tolerations": anywhere, "nodeSelector": {DEVICE_MANAGER: device_manager}}
        },
    }

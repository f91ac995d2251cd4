"""The values that the GPU Operator's chart knows; it has no schema, and takes a misspelt one without a word.

Source: NVIDIA/gpu-operator v26.7.0 deployments/gpu-operator/values.yaml, those in its comments included
"""

from __future__ import annotations

from collections.abc import Mapping

from gpu_facts.refusals import did_you_mean

# By section; one without names takes any.
KNOWN: Mapping[str, frozenset[str]] = {
    section: frozenset(names.split())
    for section, names in {
        "ccManager": (
            "defaultMode enabled hostNetwork image imagePullPolicy imagePullSecrets repository resources version"
        ),
        "cdi": "enabled nriPluginEnabled",
        "clusterPolicy": "deployCR",
        "daemonsets": "annotations labels priorityClassName rollingUpdate tolerations updateStrategy",
        "dcgm": "args enabled env hostNetwork image imagePullPolicy repository resources version",
        "dcgmExporter": (
            "annotations config enablePodLabels enablePodUID enabled env hostNetwork hostPID hpcJobMapping "
            "image imagePullPolicy podLabelAllowlistRegex repository resources service serviceMonitor "
            "version"
        ),
        "devicePlugin": (
            "args config enabled env hostNetwork image imagePullPolicy imagePullSecrets mps repository "
            "resources version"
        ),
        "draDriver": "computeDomains featureGates gpus image imagePullPolicy imagePullSecrets repository version",
        "driver": (
            "certConfig enabled env hostNetwork image imagePullPolicy imagePullSecrets kernelModuleConfig "
            "kernelModuleType licensingConfig manager nvidiaDriverCRD rdma repoConfig repository resources "
            "secretEnv startupProbe upgradePolicy usePrecompiled version virtualTopology"
        ),
        "extraObjects": "",
        "gdrcopy": "args enabled env image imagePullPolicy imagePullSecrets repository version",
        "gds": "args enabled env image imagePullPolicy imagePullSecrets repository version",
        "gfd": "enabled env hostNetwork image imagePullPolicy imagePullSecrets repository resources version",
        "gpuCluster": "deployCR",
        "hostPaths": "driverInstallDir kubeletRootDir rootFS",
        "kataManager": "config enabled env hostNetwork imagePullPolicy imagePullSecrets resources",
        "kataSandboxDevicePlugin": (
            "args enabled env hostNetwork image imagePullPolicy imagePullSecrets repository resources version"
        ),
        "mig": "strategy",
        "migManager": (
            "config enabled env gpuClientsConfig hostNetwork image imagePullPolicy imagePullSecrets "
            "repository resources version"
        ),
        "nfd": "enabled nodefeaturerules",
        "node-feature-discovery": "",
        "nodeStatusExporter": (
            "enabled hostNetwork image imagePullPolicy imagePullSecrets repository resources version"
        ),
        "operator": (
            "affinity annotations cleanupCRD env image imagePullPolicy imagePullSecrets logging metrics "
            "nodeSelector priorityClassName repository resources runtimeClass tolerations upgradeCRD "
            "use_ocp_driver_toolkit version"
        ),
        "platform": "openshift",
        "psa": "enabled",
        "sandboxDevicePlugin": (
            "args enabled env hostNetwork image imagePullPolicy imagePullSecrets repository resources version"
        ),
        "sandboxWorkloads": "defaultWorkload enabled mode",
        "toolkit": (
            "enabled env hostNetwork image imagePullPolicy imagePullSecrets installDir repository resources version"
        ),
        "validator": "args env hostNetwork image imagePullPolicy imagePullSecrets plugin repository resources version",
        "vfioManager": (
            "driverManager enabled env hostNetwork image imagePullPolicy imagePullSecrets repository resources version"
        ),
        "vgpuDeviceManager": (
            "config enabled env hostNetwork image imagePullPolicy imagePullSecrets repository version"
        ),
        "vgpuManager": (
            "driverManager enabled env hostNetwork image imagePullPolicy imagePullSecrets "
            "kernelModuleConfig repository resources version"
        ),
    }.items()
}


def refuse_unknown_values(who: object, values: object) -> None:
    """Refuse values that the chart would silently ignore.

    Raises:
        TypeError: ``values`` is no mapping, or a section is none.
        ValueError: One is unknown.
    """
    if not isinstance(values, Mapping):
        raise TypeError(f"{who}: values must be a mapping, got {values!r}")
    for section, told in values.items():
        if section not in KNOWN:
            raise ValueError(
                f"{who}: values must have sections of the chart, got {section!r}{did_you_mean(str(section), KNOWN)}"
            )
        if not KNOWN[section]:
            continue
        if not isinstance(told, Mapping):
            raise TypeError(f"{who}: values[{section!r}] must be a mapping, got {told!r}")
        for name in told:
            if name not in KNOWN[section]:
                raise ValueError(
                    f"{who}: values[{section!r}] must have names of the chart, got {name!r}"
                    f"{did_you_mean(str(name), KNOWN[section])}"
                )

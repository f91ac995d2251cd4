"""Resources and device plugins that eksctl creates from a ClusterConfig.

Source: eksctl-io/eksctl 99984adb6 pkg/apis/eksctl.io/v1alpha5 (types.go, defaults.go, known_addons.go),
pkg/actions/addon/tasks.go and pkg/karpenter/karpenter.go (2026-08-21)

The device plugins that eksctl applies itself when it makes node groups.

Sources: eksctl-io/eksctl 99984adb6 pkg/eks/tasks.go, pkg/addons/device_plugin.go and pkg/addons/assets,
https://docs.aws.amazon.com/eks/latest/eksctl/gpu-support.html (2026-08-21)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gpu_facts.charts import (
    COREDNS,
    DEVICE_PLUGIN,
    DRA_DRIVERS,
    EFA_DEVICE_PLUGIN,
    GPU_OPERATOR,
    KUBE_PROXY,
    METRICS_SERVER,
    VPC_CNI,
)
from gpu_facts.kubernetes import KUBE_SYSTEM, NODE_CRITICAL
from gpu_facts.labels import COMPUTE_TYPE, GPU_TAINT, INSTANCE_TYPE
from gpu_facts.software.aws import EKSCTL_EFA_DEVICE_PLUGIN
from gpu_facts.software.model import CRITICAL_ADDONS
from gpu_preflight.reading.cloudformation import Resource, Template
from gpu_preflight.reading.eksctl.groups import (
    AL2,
    AL2023,
    BOTTLEROCKET,
    ami_family,
    cluster_subnets,
    group_taints,
    has_nvidia_gpus,
    resource,
)
from gpu_preflight.reading.eksctl.node_groups import managed_group, self_managed_group
from gpu_preflight.reading.eksctl.recognition import configs, is_written_by_eksctl, metadata
from gpu_preflight.reading.objects import SOFTWARE, Chart, Object, Origin, Part, Unread, parse_objects
from gpu_preflight.reading.unknown import Unknown, dig, known_text, mapping, mappings

ROLE_ANNOTATION = "eks.amazonaws.com/role-arn"
_POOLS: frozenset[Part] = frozenset(("pools",))
_BY_API = "add-ons, a device plugin and more that eksctl installs by API are in no file"
_BY_FLAG = "options of eksctl's command line, such as --install-nvidia-plugin=false, are in no file"
# Installed unless the config leaves them out.
_DEFAULT_ADDONS = (VPC_CNI, KUBE_PROXY, COREDNS, METRICS_SERVER)
# Auto Mode has its own replacements for the other add-ons.
_OF_AUTO_MODE = (METRICS_SERVER,)
# In regions with these prefixes, eksctl doesn't install metrics-server by itself.
_WITHOUT_METRICS_SERVER = ("cn-", "us-gov-", "us-iso", "eu-isoe-")
# Source: eksctl-io/eksctl ``checkNodeGroupVersion`` (read 2026-11-23, release not known). How eksctl
# resolves these words for a new cluster wasn't read, so such a version is unknown.
_CHOSEN_BY_EKSCTL = ("auto", "default", "latest")
_OF_NVIDIA, _OF_EFA = "nvidia-device-plugin-daemonset", EFA_DEVICE_PLUGIN
# Next to another GPU manager, users set --install-nvidia-plugin=false. Without the option, GPU011 reports the result.
_MANAGERS = (DEVICE_PLUGIN, GPU_OPERATOR, *DRA_DRIVERS)
_IMAGES = ("k8s-device-plugin", DEVICE_PLUGIN)


def installed_by_api(templates: list[Template], objects: list[Object]) -> Iterator[Unread]:
    """Yield what eksctl installs more than it writes, each where it would stand, since the config itself is read."""
    for each in templates:
        if is_written_by_eksctl(each):
            yield Unread(Origin(each.file, f"API calls of eksctl for {each.name}"), _BY_API, SOFTWARE)
    for config in configs(objects):
        flags = Origin(config.origin.file, f"command line of eksctl for {config.origin.path}")
        yield Unread(flags, _BY_FLAG, frozenset(("device-plugin",)))
        for kind in ("managedNodeGroups", "nodeGroups"):
            if not isinstance(config.content.get(kind), (list, type(None))):
                yield Unread(_part(config, kind), "the groups can't be read, because they aren't a list", _POOLS)
        if config.content.get("gitops"):
            yield Unread(_part(config, "gitops"), "objects that Flux applies, which eksctl installs, aren't read")


def _part(config: Object, name: str) -> Origin:
    return Origin(config.origin.file, f"{config.origin.path}/{name}", config.origin.resource)


def config_resources(config: Object) -> Iterator[Resource]:
    """Yield the cluster, its node groups, its add-ons, its Fargate profiles and its pod identities."""
    yield resource(config, "Cluster", "AWS::EKS::Cluster", _cluster(config))
    yield from cluster_subnets(config)
    for number, group in enumerate(mappings(config.content.get("managedNodeGroups"))):
        yield from managed_group(config, group, known_text(group.get("name")) or f"managedNodeGroups[{number}]")
    for number, group in enumerate(mappings(config.content.get("nodeGroups"))):
        yield from self_managed_group(config, group, known_text(group.get("name")) or f"nodeGroups[{number}]")
    name = metadata(config).get("name")
    for addon in (*mappings(config.content.get("addons")), *_default_addons(config)):
        properties = {
            "ClusterName": name,
            "AddonName": addon.get("name"),
            "AddonVersion": None if addon.get("version") == "latest" else addon.get("version"),
            "ConfigurationValues": addon.get("configurationValues"),
        }
        yield resource(config, f"addon {addon.get('name')}", "AWS::EKS::Addon", properties)
    for profile in mappings(config.content.get("fargateProfiles")):
        properties = {"ClusterName": name, "Selectors": _selectors(profile)}
        yield resource(config, f"fargate {profile.get('name')}", "AWS::EKS::FargateProfile", properties)
    for identity in mappings(dig(config.content, "iam", "podIdentityAssociations")):
        yield _pod_identity(config, identity)


def _selectors(profile: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what a Fargate profile selects; without labels, all pods of the namespace."""
    return [
        {key: value for key, value in written.items() if value is not None}
        for each in mappings(profile.get("selectors"))
        for written in [{"Namespace": each.get("namespace"), "Labels": _pairs(each.get("labels"))}]
    ]


def _pairs(labels: Any) -> Any:
    if not isinstance(labels, dict):
        return labels
    return [{"Key": key, "Value": value} for key, value in labels.items()]


def _cluster(config: Object) -> dict[str, Any]:
    said, auto = metadata(config), mapping(config.content.get("autoModeConfig"))
    version = said.get("version")
    if version in _CHOSEN_BY_EKSCTL:
        version = None
    made = {"Name": said.get("name"), "Version": str(version) if isinstance(version, float) else version}
    return made | ({"ComputeConfig": _compute(auto)} if auto else {})


def _compute(auto: dict[str, Any]) -> dict[str, Any]:
    on = auto.get("enabled")
    pools = auto.get("nodePools", ["general-purpose", "system"])
    return {"Enabled": on, **({"NodePools": pools} if on is True else {})}


def _default_addons(config: Object) -> Iterator[dict[str, Any]]:
    """Yield the add-ons that eksctl adds to the add-ons of a config when it creates the cluster."""
    if dig(config.content, "addonsConfig", "disableDefaultAddons") is True:
        return
    named = {str(each.get("name")).lower() for each in mappings(config.content.get("addons"))}
    auto = dig(config.content, "autoModeConfig", "enabled") is True
    region = known_text(metadata(config).get("region")) or ""
    for name in _OF_AUTO_MODE if auto else _DEFAULT_ADDONS:
        if name not in named and not (name == METRICS_SERVER and region.startswith(_WITHOUT_METRICS_SERVER)):
            yield {"name": name}


def irsa_service_accounts(config: Object) -> Iterator[Object]:
    """Yield the service accounts that eksctl makes with a role (IRSA)."""
    for each in mappings(dig(config.content, "iam", "serviceAccounts")):
        written = mapping(each.get("metadata"))
        if each.get("roleOnly") is True or not written.get("name"):
            continue
        place = f"{written.get('namespace') or 'default'}/{written['name']}"
        role = each.get("attachRoleARN") or f"${{role of eksctl for {place}}}"
        content = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {**written, "annotations": {ROLE_ANNOTATION: role, **mapping(written.get("annotations"))}},
        }
        yield from parse_objects(content, config.origin.file, cluster=metadata(config).get("name"))


def _pod_identity(config: Object, identity: dict[str, Any]) -> Resource:
    account = f"{identity.get('namespace')}/{identity.get('serviceAccountName')}"
    properties = {
        "ClusterName": metadata(config).get("name"),
        "Namespace": identity.get("namespace"),
        "ServiceAccount": identity.get("serviceAccountName"),
        "RoleArn": identity.get("roleARN") or Unknown(f"${{role of eksctl for {account}}}"),
        "TargetRoleArn": identity.get("targetRoleARN"),
    }
    return resource(config, f"identity {account}", "AWS::EKS::PodIdentityAssociation", properties)


def karpenter_charts(config: Object) -> Iterator[Chart]:
    """Yield the Karpenter that eksctl installs on request."""
    karpenter = mapping(config.content.get("karpenter"))
    if karpenter:
        name = metadata(config).get("name")
        # eksctl sets interruptionQueueName, which charts since 0.33 don't read.
        values = {
            "settings": {"clusterName": name, "interruptionQueue": Unknown("${queue of eksctl}")},
            "serviceAccount": {"annotations": {ROLE_ANNOTATION: Unknown("${role of eksctl}")}},
        }
        version = known_text(karpenter.get("version"))
        yield Chart("karpenter", version, values, config.origin, {}, "karpenter", name)


def device_plugins(config: Object, objects: Iterable[Object], charts: Iterable[Chart]) -> Iterator[Object]:
    """Yield the DaemonSets of device plugins that eksctl applies for the groups of a config."""
    # An object may name another cluster.
    here = (None, metadata(config).get("name"))
    every = [each for each in objects if each.cluster in here]
    groups = _groups(config)
    # On Bottlerocket it would be a second plugin. Users with both disable it, which isn't in a config.
    beside = any(has_nvidia_gpus(each) and str(ami_family(each)).startswith(BOTTLEROCKET) for each in groups)
    managed = any(each.name in _MANAGERS for each in charts if each.cluster in here) or any(
        map(_is_device_plugin, every)
    )
    if not beside and not managed:
        yield from default_plugin(config)
    if any(each.get("efaEnabled") is True for each in groups) and not any(each.name == _OF_EFA for each in every):
        yield from _applied(config, _efa(config))


def default_plugin(config: Object) -> Iterator[Object]:
    """Yield NVIDIA's device plugin, which eksctl applies for a config unless its command line forbids it.

    Bottlerocket has one built in, and other families have no driver.
    """
    of_gpus = [each for each in _groups(config) if has_nvidia_gpus(each) and ami_family(each) in (AL2, AL2023)]
    if of_gpus:
        yield from _applied(config, _nvidia(of_gpus))


def _groups(config: Object) -> list[dict[str, Any]]:
    return [each for kind in ("nodeGroups", "managedNodeGroups") for each in mappings(config.content.get(kind))]


def _is_device_plugin(each: Object) -> bool:
    containers = mappings(dig(each.content, "spec", "template", "spec", "containers"))
    images = [str(one.get("image")).partition("@")[0].rpartition("/")[2] for one in containers]
    return each.kind == "ClusterPolicy" or (each.kind == "DaemonSet" and any(one.startswith(_IMAGES) for one in images))


def _applied(config: Object, content: dict[str, Any]) -> Iterator[Object]:
    return parse_objects(content, config.origin.file, cluster=metadata(config).get("name"))


def _nvidia(groups: list[dict[str, Any]]) -> dict[str, Any]:
    """Return NVIDIA's device plugin, which tolerates the taints of the groups; of each key the first."""
    tolerations: dict[str, dict[str, Any]] = {
        GPU_TAINT: {"key": GPU_TAINT, "operator": "Exists", "effect": "NoSchedule"},
    }
    for taint in (each for group in groups for each in group_taints(group)):
        tolerations.setdefault(str(taint.get("key")), {"key": taint.get("key"), "value": taint.get("value") or ""})
    container = {"name": "nvidia-device-plugin-ctr", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"}
    return _daemon_set(_OF_NVIDIA, container, {"tolerations": list(tolerations.values())})


def _efa(config: Object) -> dict[str, Any]:
    types = {"key": INSTANCE_TYPE, "operator": "In", "values": list(EKSCTL_EFA_DEVICE_PLUGIN)}
    automatic = {"key": COMPUTE_TYPE, "operator": "NotIn", "values": ["auto"]}
    terms = [{"matchExpressions": [types, automatic]}]
    tolerations = [
        dict(CRITICAL_ADDONS),
        {"key": "aws.amazon.com/efa", "operator": "Exists", "effect": "NoSchedule"},
    ]
    registry = f"602401143452.dkr.ecr.{metadata(config).get('region')}.amazonaws.com"
    container = {
        "name": _OF_EFA,
        "image": f"{registry}/eks/{_OF_EFA}:v0.5.4",
        "resources": {"requests": {"cpu": "10m", "memory": "20Mi"}},
    }
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    return _daemon_set(_OF_EFA, container, {"tolerations": tolerations, "affinity": affinity, "hostNetwork": True})


def _daemon_set(name: str, container: dict[str, Any], pod: dict[str, Any]) -> dict[str, Any]:
    labels = {"name": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": KUBE_SYSTEM},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"priorityClassName": NODE_CRITICAL, "containers": [container], **pod},
            },
        },
    }

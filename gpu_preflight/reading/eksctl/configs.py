"""What eksctl makes of a ClusterConfig, as the resources of a template.

Source: eksctl-io/eksctl 99984adb6 pkg/apis/eksctl.io/v1alpha5 (types.go, defaults.go, known_addons.go),
pkg/actions/addon/tasks.go and pkg/karpenter/karpenter.go (2026-08-21)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_facts.charts import COREDNS, KUBE_PROXY, METRICS_SERVER, VPC_CNI
from gpu_preflight.reading.cloudformation import Resource, Template
from gpu_preflight.reading.eksctl.groups import cluster_subnets
from gpu_preflight.reading.eksctl.managed_groups import managed_group
from gpu_preflight.reading.eksctl.resources import GROUP, metadata, resource
from gpu_preflight.reading.eksctl.self_managed_groups import self_managed_group
from gpu_preflight.reading.objects import SOFTWARE, Chart, Object, Origin, Part, Unread, objects_of
from gpu_preflight.reading.unknown import Unknown, dig, known_text, mapping, mappings

ROLE_ANNOTATION = "eks.amazonaws.com/role-arn"
_POOLS: frozenset[Part] = frozenset(("pools",))
_BY_API = "add-ons, a device plugin and more that eksctl installs by API stand in no file"
_BY_FLAG = "what eksctl is told on its command line, such as --install-nvidia-plugin=false, stands in no file"
# Installed where the config does not leave them out.
_DEFAULT_ADDONS = (VPC_CNI, KUBE_PROXY, COREDNS, METRICS_SERVER)
# Auto Mode brings what the others do.
_OF_AUTO_MODE = (METRICS_SERVER,)
# Regions whose name begins so have no add-on of metrics-server that eksctl installs by itself.
_WITHOUT_METRICS_SERVER = ("cn-", "us-gov-", "us-iso", "eu-isoe-")


def is_of_eksctl(template: Template) -> bool:
    """Whether eksctl wrote a template; it describes each as its own."""
    return "eksctl" in str(template.body.get("Description"))


def installed_by_api(templates: list[Template], objects: list[Object]) -> Iterator[Unread]:
    """Yield what eksctl installs more than it writes, each where it would stand, since the config itself is read."""
    for each in templates:
        if is_of_eksctl(each):
            yield Unread(Origin(each.file, f"API calls of eksctl for {each.name}"), _BY_API, SOFTWARE)
    for config in configs(objects):
        flags = Origin(config.origin.file, f"command line of eksctl for {config.origin.path}")
        yield Unread(flags, _BY_FLAG, frozenset(("device-plugin",)))
        for kind in ("managedNodeGroups", "nodeGroups"):
            if not isinstance(config.content.get(kind), (list, type(None))):
                yield Unread(_part(config, kind), "the groups are not read, because they are no list", _POOLS)
        if config.content.get("gitops"):
            yield Unread(_part(config, "gitops"), "what Flux, which eksctl installs for it, applies is not read")


def _part(config: Object, name: str) -> Origin:
    return Origin(config.origin.file, f"{config.origin.path}/{name}", config.origin.resource)


def configs(objects: list[Object]) -> list[Object]:
    """Return the ClusterConfigs among some objects."""
    return [each for each in objects if each.kind == "ClusterConfig" and each.group == GROUP]


def cluster_of(config: Object, resources: Mapping[str, Resource]) -> Resource | Object:
    """Return the cluster that eksctl makes of a config; the object itself, where eksctl makes none of it."""
    return resources.get(f"{config.name}/Cluster", config) if configs([config]) else config


def resources_of(config: Object) -> Iterator[Resource]:
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


# Source: eksctl-io/eksctl ``checkNodeGroupVersion`` (read 2026-11-23, release not known); what creating a cluster makes
# of these words was not read, so nothing is said of such a version.
_CHOSEN_BY_EKSCTL = ("auto", "default", "latest")


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
    """Yield the add-ons that eksctl adds to those of a config when it creates the cluster."""
    if dig(config.content, "addonsConfig", "disableDefaultAddons") is True:
        return
    named = {str(each.get("name")).lower() for each in mappings(config.content.get("addons"))}
    auto = dig(config.content, "autoModeConfig", "enabled") is True
    region = known_text(metadata(config).get("region")) or ""
    for name in _OF_AUTO_MODE if auto else _DEFAULT_ADDONS:
        if name not in named and not (name == METRICS_SERVER and region.startswith(_WITHOUT_METRICS_SERVER)):
            yield {"name": name}


def service_accounts_of(config: Object) -> Iterator[Object]:
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
        yield from objects_of(content, config.origin.file, cluster=metadata(config).get("name"))


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


def charts_of(config: Object) -> Iterator[Chart]:
    """Yield the Karpenter that eksctl installs on request."""
    karpenter = mapping(config.content.get("karpenter"))
    if karpenter:
        name = metadata(config).get("name")
        # What it gives as interruptionQueueName is no value of charts since 0.33.
        values = {
            "settings": {"clusterName": name, "interruptionQueue": Unknown("${queue of eksctl}")},
            "serviceAccount": {"annotations": {ROLE_ANNOTATION: Unknown("${role of eksctl}")}},
        }
        version = known_text(karpenter.get("version"))
        yield Chart("karpenter", version, values, config.origin, {}, "karpenter", name)

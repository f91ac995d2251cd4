"""Values of a ClusterConfig that eksctl itself rejects.

eksctl checks the whole config before it creates anything. Example: eksctl rejects ``ami: auto`` in a managed group and
may reject ``ami: ${AMI}``; next to a launch template, another row rejects ``ami``.

Source: eksctl-io/eksctl 99984ad pkg/apis/eksctl.io/v1alpha5/validation.go, except where a row names another file
(2026-08-21). Other rules check sizes, labels and versions of Amazon Linux 2 in the resources of eksctl.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from gpu_facts.light import dataclass
from gpu_preflight.reading.eksctl.groups import (
    AL2023,
    AMI_FAMILIES,
    BOTTLEROCKETS,
    UBUNTU_VERSIONS,
    WINDOWS,
    group_taints,
    has_nvidia_gpus,
)
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import known_text, mappings
from gpu_preflight.schema.eksctl_conditions import (
    ABSENT,
    ANY_TRUE,
    FALSE,
    GIVEN,
    NOT_TRUE,
    TRUE,
    Condition,
    Row,
    exactly_one,
    family,
    has_open,
    has_unmatched_item,
    is_no_node_config,
    is_no_template_version,
    literally,
    matches,
    matches_any,
    matches_none,
    more_than,
    other_family,
    other_version,
    outside,
    starts_without,
)

MANAGED, SELF_MANAGED = "managedNodeGroups", "nodeGroups"
_POLICIES = "iam.withAddonPolicies"
_RESERVATION = "capacityReservation.capacityReservationTarget"
_PREFERENCE = "capacityReservation.capacityReservationPreference"
_MARKET = "instanceMarketOptions.marketType"
_SETTINGS = "bottlerocket.settings.kubernetes"
_DISTRIBUTION = "instancesDistribution"
_VERSION = "cluster.metadata.version"
# Computed: whether a type of the group has NVIDIA GPUs.
_HAS_GPUS = "has NVIDIA GPUs"
_SUPPORTED = tuple(AMI_FAMILIES.values())
# Families whose custom image needs overrideBootstrapCommand.
_NEEDS_COMMAND = other_family(AL2023, *BOTTLEROCKETS, *WINDOWS)
# pkg/utils/taints/taints.go ``validateTaintEffect``
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
# aws/aws-sdk-go-v2 service/ec2/types/enums.go ``SpotAllocationStrategy`` (2026-08), which eksctl compares with
_STRATEGIES = (
    *("lowest-price", "diversified", "capacity-optimized", "capacity-optimized-prioritized"),
    "price-capacity-optimized",
)
_PROCESSES = (
    *("Launch", "Terminate", "AddToLoadBalancer", "AlarmNotification", "AZRebalance", "HealthCheck"),
    *("InstanceRefresh", "ReplaceUnhealthy", "ScheduledActions"),
)
# pkg/apis/eksctl.io/v1alpha5/types.go ``SupportedCloudWatchClusterLogTypes``, and both words for all of them
_LOG_TYPES = ("api", "audit", "authenticator", "controllerManager", "scheduler", "all", "*")
_GATEWAYS = ("HighlyAvailable", "Single", "Disable")
_MODES = ("API", "API_AND_CONFIG_MAP", "CONFIG_MAP")
# One of them gives a service account its permissions.
_PERMISSIONS = ("wellKnownPolicies", "attachPolicyARNs", "attachPolicy", "attachRoleARN")
_CRITICAL = ("address", "apiVersion", "authentication", "authorization", "clusterDomain", "kind", "serverTLSBootstrap")
_IOPS = {"gp3": (3000, 16000), "io1": (100, 64000), "io2": (100, 256000)}
# The default type of a volume.
_OMITTED: dict[str, tuple[None, ...]] = {"gp3": (None,)}


@dataclass(frozen=True, slots=True)
class Rejection:
    """A part of a ClusterConfig that eksctl rejects.

    Attributes:
        text: The part and the rule that it breaks.
        unknown: Whether the rejection depends on a value that only deployment sets.
        group: Name of the only group that eksctl then doesn't create; ``None`` if it creates nothing.
    """

    text: str
    unknown: bool = False
    group: str | None = None


def rejections(config: Object) -> Iterator[Rejection]:
    """Yield the parts of a ClusterConfig that eksctl rejects."""
    yield from (Rejection(text, unknown) for _, text, unknown in _rejected(_CLUSTER, {"cluster": config.content}))
    for path, rows in _ITEMS.items():
        outer, _, inner = path.rpartition(".")
        listed = config.content.get(outer) if outer else config.content
        for number, item in enumerate(mappings(listed.get(inner)) if isinstance(listed, dict) else ()):
            yield from (Rejection(f"{path}[{number}]: {text}", unknown) for _, text, unknown in _rejected(rows, item))
    for kind in _ROWS:
        if has_open(config.content.get(kind)):
            yield Rejection(f"{kind}: the groups, which eksctl checks, are known at deployment only", unknown=True)
    groups = [
        (f"{kind}[{number}]", kind, group)
        for kind in _ROWS
        for number, group in enumerate(mappings(config.content.get(kind)))
    ]
    for place, kind, group in groups:
        name = known_text(group.get("name"))
        for row, text, unknown in _group_rejections(config, group, _ROWS[kind]):
            yield Rejection(f"{kind} {name}: {text}" if name else f"{place}: {text}", unknown, _late(row, name, place))
    names = Counter(known_text(group.get("name")) for _, _, group in groups)
    for name, count in names.items():
        if name and count > 1:
            yield Rejection(f"{count} groups have the name {name}, which must be unique")


def _late(row: Row, name: str | None, place: str) -> str | None:
    return (name or place) if row.late else None


def _group_rejections(config: Object, group: dict[str, Any], rows: Iterable[Row]) -> Iterator[tuple[Row, str, bool]]:
    yield from _rejected(rows, {**group, "cluster": config.content, _HAS_GPUS: has_nvidia_gpus(group)})
    for taint in group_taints(group):
        yield from _rejected(_TAINT, {**taint, "effect": taint.get("effect") or ""})


def _rejected(rows: Iterable[Row], part: Mapping[str, Any]) -> Iterator[tuple[Row, str, bool]]:
    for row in rows:
        rejects = row.rejects(part)
        if rejects is not False:
            yield row, row.message(part), rejects is None


def _only_one(first: str, *others: str) -> Iterator[Row]:
    for other in others:
        yield Row({first: GIVEN, other: GIVEN}, f"only one of {first} and {other} can be set")


def _own_role(field: str) -> Iterator[Row]:
    names = ("instanceRoleName", "attachPolicy", "attachPolicyARNs", "instanceRolePermissionsBoundary")
    yield from _only_one(field, *(f"iam.{each}" for each in names))
    yield Row({field: GIVEN, _POLICIES: ANY_TRUE}, f"only one of {field} and {_POLICIES} can be set")


def _volumes() -> Iterator[Row]:
    yield Row(
        {"volumeIOPS": GIVEN, "volumeType": matches_none(*_IOPS)}, f"volumeIOPS needs volumeType {' or '.join(_IOPS)}"
    )
    yield Row({"volumeThroughput": GIVEN, "volumeType": matches_none("gp3")}, "volumeThroughput needs volumeType gp3")
    for kind, (least, most) in _IOPS.items():
        within = f"volumeIOPS of {kind} must be {least} to {most}, got {{}}"
        yield Row(
            {"volumeIOPS": outside(least, most), "volumeType": matches_any(kind, *_OMITTED.get(kind, ()))}, within
        )
    within = "volumeThroughput must be 125 to 1000, got {}"
    yield Row({"volumeThroughput": outside(125, 1000), "volumeType": matches_any("gp3", *_OMITTED["gp3"])}, within)
    yield Row({"volumeKmsKeyID": GIVEN, "volumeEncrypted": NOT_TRUE}, "volumeKmsKeyID needs volumeEncrypted: true")


def _without_size(**more: Condition) -> Iterator[Row]:
    """Yield fields that need ``volumeSize``, if eksctl has no default for it."""
    for field, condition in (("volumeName", GIVEN), ("volumeEncrypted", TRUE), ("volumeKmsKeyID", GIVEN)):
        yield Row({field: condition, "volumeSize": ABSENT, **more}, f"{field} needs volumeSize")


def _reservations() -> Iterator[Row]:
    yield from _only_one(_PREFERENCE, _RESERVATION)
    names = ("capacityReservationID", "capacityReservationResourceGroupARN")
    yield from _only_one(*(f"{_RESERVATION}.{each}" for each in names))
    yield Row({_PREFERENCE: matches_none("open", "none")}, f"{_PREFERENCE} must be open or none, got {{!r}}")
    yield Row({_MARKET: matches_none("capacity-block")}, f"{_MARKET} must be capacity-block, got {{!r}}")
    needs = "instanceMarketOptions needs capacityReservation"
    yield Row({"instanceMarketOptions": GIVEN, "capacityReservation": ABSENT}, needs)


def _not_on_bottlerocket(*fields: str) -> Iterator[Row]:
    for field in fields:
        yield Row({field: GIVEN, "amiFamily": family(*BOTTLEROCKETS)}, f"Bottlerocket doesn't support {field}")


def _managed_setting_rows(settings: Mapping[str, str], **more: Condition) -> Iterator[Row]:
    """Yield settings of Bottlerocket that eksctl writes itself."""
    for name, instead in settings.items():
        conditions = {f"{_SETTINGS}.{name}": GIVEN, "amiFamily": family(*BOTTLEROCKETS), **more}
        yield Row(conditions, f"{_SETTINGS}.{name} can't be set; {instead}", late=bool(more))


def _ubuntu() -> Iterator[Row]:
    """Yield Ubuntu images that don't exist. eksctl searches SSM, then EC2, where no image has NVIDIA's driver.

    Sources: pkg/ami/ssm_resolver.go ``validateVersionForUbuntu``, pkg/ami/auto_resolver.go
    """
    for name, (least, most) in UBUNTU_VERSIONS.items():
        asked = {_VERSION: other_version(least, most or 999), "amiFamily": family(name)}
        supported = f"1.{least} to 1.{most}" if most else f"1.{least} or newer"
        text = f"eksctl finds images of {name} for Kubernetes {supported}, got {{!r}}"
        yield Row({**asked, "ami": literally("auto-ssm")}, text)
        yield Row({**asked, "ami": ABSENT, _HAS_GPUS: _true_or_unknown}, text)


def _true_or_unknown(value: Any) -> bool | None:
    return value is True or None


def _every_group() -> Iterator[Row]:
    yield Row({"name": ABSENT}, "name must be set")
    families = f"amiFamily must be one of {', '.join(_SUPPORTED)}, got {{!r}}"
    yield Row({"amiFamily": other_family(*_SUPPORTED)}, families, _SUPPORTED)
    yield from chain(_volumes(), _reservations(), _ubuntu())
    yield from _only_one("availabilityZones", "subnets")
    for zones in ("availabilityZones", "subnets"):
        yield Row({"efaEnabled": TRUE, zones: more_than(1)}, f"efaEnabled needs a single entry in {zones}")
    yield Row({"disablePodIMDS": TRUE, _POLICIES: ANY_TRUE}, f"only one of disablePodIMDS and {_POLICIES} can be set")
    yield Row({"placement": GIVEN, "placement.groupName": ABSENT}, "placement needs groupName")
    yield Row({"maxPodsPerNode": outside(0)}, "maxPodsPerNode must be 0 or more, got {}")
    yield Row({"ssh.enableSSM": FALSE}, "ssh.enableSSM can't be false")
    private = "privateNetworking must be true in a fully private cluster"
    yield Row({"privateNetworking": NOT_TRUE, "cluster.privateCluster.enabled": TRUE}, private)
    yield Row({"taints": lambda value: None if has_open(value) else False}, "the taints are known at deployment only")
    yield from _not_on_bottlerocket("preBootstrapCommands", "overrideBootstrapCommand")
    # pkg/nodebootstrap/al2023.go ``stringToNodeConfig``
    yaml = f"overrideBootstrapCommand of {AL2023} must be a NodeConfig; put commands into preBootstrapCommands"
    bootstrap = {"overrideBootstrapCommand": is_no_node_config, "launchTemplate": ABSENT}
    yield Row({**bootstrap, "amiFamily": family(AL2023)}, yaml, late=True)
    yield Row({**bootstrap, "amiFamily": ABSENT, "ami": ABSENT}, yaml, late=True)
    # pkg/ctl/cmdutils/configfile.go: `eksctl create nodegroup` may add the group once the cluster exists.
    only_later = "eksctl creates no group together with a cluster of Auto Mode"
    yield Row({"cluster.autoModeConfig.enabled": lambda value: None if TRUE(value) is not False else False}, only_later)


def _managed() -> Iterator[Row]:
    yield from _without_size(launchTemplate=GIVEN)
    yield from _own_role("iam.instanceRoleARN")
    for field, condition in (
        ("iam.instanceProfileARN", GIVEN),
        ("outpostARN", GIVEN),
        ("securityGroups.withLocal", TRUE),
        ("securityGroups.withShared", TRUE),
    ):
        yield Row({field: condition}, f"managed groups don't support {field}")
    yield from _only_one("instanceType", "instanceTypes", "instanceSelector")
    yield from _only_one("updateConfig.maxUnavailable", "updateConfig.maxUnavailablePercentage")
    yield from chain(_own_launch_template(), _own_image())
    # pkg/nodebootstrap/managed_bottlerocket.go
    by_eks = dict.fromkeys(("cluster-certificate", "api-server", "cluster-name", "cluster-dns-ip"), "EKS sets it")
    by_group = {"node-labels": "use labels", "node-taints": "use taints"}
    yield from _managed_setting_rows(by_eks | by_group, launchTemplate=ABSENT)
    # pkg/cfn/builder/managed_nodegroup.go
    several = "a group on a Capacity Block must have one instance type"
    yield Row({"instanceTypes": more_than(1), _MARKET: matches_any("capacity-block")}, several, late=True)


def _own_launch_template() -> Iterator[Row]:
    template = {"launchTemplate": GIVEN}
    yield Row({**template, "launchTemplate.id": ABSENT}, "launchTemplate.id must be set")
    number = "launchTemplate.version must be a number from 1 on, got {!r}"
    yield Row({"launchTemplate.version": is_no_template_version}, number)
    given = (
        *("instanceType", "ami", "volumeSize", "preBootstrapCommands", "overrideBootstrapCommand", "instanceName"),
        *("instancePrefix", "maxPodsPerNode", "placement", "securityGroups.attachIDs", "ssh.sourceSecurityGroupIds"),
    )
    fields = dict.fromkeys(given, GIVEN) | {"disableIMDSv1": FALSE}
    for field, condition in (fields | dict.fromkeys(("disablePodIMDS", "ssh.allow", "ssh.enableSSM"), TRUE)).items():
        yield Row({field: condition, **template}, f"{field} can't be set next to launchTemplate")


def _own_image() -> Iterator[Row]:
    own = {"ami": GIVEN, "launchTemplate": ABSENT}
    image = "ami must be the id of an image, got {!r}; remove it, and eksctl uses the latest image"
    yield Row({"ami": starts_without("ami-"), "launchTemplate": ABSENT}, image)
    yield Row({"ami": matches("^ami-"), "amiFamily": ABSENT, "launchTemplate": ABSENT}, "ami needs amiFamily")
    yield Row({**own, "amiFamily": family(*WINDOWS)}, "ami can't be set for Windows")
    bootstrap = {"overrideBootstrapCommand": ABSENT, "amiFamily": _NEEDS_COMMAND}
    yield Row({"amiFamily": _NEEDS_COMMAND, **own, **bootstrap}, "ami of {} needs overrideBootstrapCommand")
    for field, condition in (("maxPodsPerNode", GIVEN), ("releaseVersion", GIVEN), ("ssh.enableSSM", TRUE)):
        yield Row({field: condition, **own}, f"{field} can't be set next to ami")
    without = {"ami": ABSENT, "launchTemplate": ABSENT, "amiFamily": _NEEDS_COMMAND}
    yield Row({"overrideBootstrapCommand": GIVEN, **without}, "overrideBootstrapCommand needs ami")


def _self_managed() -> Iterator[Row]:
    yield from _without_size()
    yield Row({"name": matches(r"[^a-zA-Z0-9-]")}, "name must have letters, digits and hyphens only, got {!r}")
    yield from chain(_own_role("iam.instanceProfileARN"), _own_role("iam.instanceRoleARN"))
    yield Row({"ami": GIVEN, "amiFamily": ABSENT}, "ami needs amiFamily")
    command = "amiFamily {} with ami needs overrideBootstrapCommand"
    yield Row({"amiFamily": _NEEDS_COMMAND, "ami": GIVEN, "overrideBootstrapCommand": ABSENT}, command)
    # pkg/eks/api.go ``ResolveAMI``
    image = "ami must be the id of an image, auto or auto-ssm, got {!r}"
    yield Row({"ami": starts_without("ami-", "auto")}, image)
    # pkg/ami/auto_resolver.go ``OwnerAccountID``
    yield Row(
        {"ami": literally("auto"), "amiFamily": family(*BOTTLEROCKETS)},
        "ami of Bottlerocket can't be auto; use auto-ssm",
    )
    settings = "bottlerocket needs amiFamily Bottlerocket or BottlerocketFips"
    yield Row({"bottlerocket": GIVEN, "amiFamily": ABSENT}, settings)
    yield Row({"bottlerocket": GIVEN, "amiFamily": other_family(*BOTTLEROCKETS)}, settings)
    yield from _not_on_bottlerocket("kubeletExtraConfig")
    yield from _managed_setting_rows(
        {"node-labels": "use labels", "node-taints": "use taints", "max-pods": "use maxPodsPerNode"}
    )
    for key in _CRITICAL:
        yield Row({f"kubeletExtraConfig.{key}": GIVEN}, f"kubeletExtraConfig.{key} can't be set")
    keys = ("ssh.publicKeyName", "ssh.publicKeyPath", "ssh.publicKey")
    yield from chain(_only_one(*keys), _only_one(*keys[1:]), _only_one("localZones", "availabilityZones"))
    yield from _mixed_types()
    yield Row(
        {"asgSuspendProcesses": has_unmatched_item(*_PROCESSES)},
        f"asgSuspendProcesses must be from {', '.join(_PROCESSES)}",
    )
    yield Row({"maxInstanceLifetime": outside(86_400)}, "maxInstanceLifetime must be 86400 or more, got {}")
    yield Row({"containerRuntime": matches_none("containerd")}, "containerRuntime must be containerd, got {!r}")
    yield from _only_one("containerRuntime", "overrideBootstrapCommand")
    burstable = {"instanceType": starts_without("t"), _DISTRIBUTION: ABSENT, "instanceSelector": ABSENT}
    yield Row({"cpuCredits": GIVEN, **burstable}, "cpuCredits needs an instance type of the T families")
    # pkg/cfn/builder/nodegroup.go
    ipv6 = {"cluster.kubernetesNetworkConfig.ipFamily": matches("(?i)^ipv6$")}
    yield Row(ipv6, "an IPv6 cluster supports managed groups only", late=True)


def _mixed_types() -> Iterator[Row]:
    distribution, types = {_DISTRIBUTION: GIVEN}, f"{_DISTRIBUTION}.instanceTypes"
    for other in (_DISTRIBUTION, "instanceSelector"):
        mixed = f"instanceType must be left out next to {other}, got {{!r}}"
        yield Row({"instanceType": matches_none("mixed", ""), other: GIVEN}, mixed)
    yield Row({**distribution, types: ABSENT, "instanceSelector": ABSENT}, f"{types} must be set")
    yield Row({types: more_than(20), "instanceSelector": ABSENT}, f"{types} must have at most 20 types")
    for field, bounds in {
        "onDemandBaseCapacity": (0,),
        "onDemandPercentageAboveBaseCapacity": (0, 100),
        "spotInstancePools": (1, 20),
    }.items():
        text = (
            f"{_DISTRIBUTION}.{field} must be {' to '.join(map(str, bounds))}{' or more' if len(bounds) == 1 else ''}"
        )
        yield Row({f"{_DISTRIBUTION}.{field}": outside(*bounds)}, f"{text}, got {{}}")
    strategy, pools = f"{_DISTRIBUTION}.spotAllocationStrategy", f"{_DISTRIBUTION}.spotInstancePools"
    yield Row(
        {strategy: matches_none(*_STRATEGIES)},
        f"{strategy} must be one of {', '.join(_STRATEGIES)}, got {{!r}}",
        _STRATEGIES,
    )
    optimized = matches_any("capacity-optimized", "capacity-optimized-prioritized")
    yield Row({strategy: optimized, pools: GIVEN}, f"{pools} can't be set next to {strategy} {{}}")


def _cluster() -> Iterator[Row]:
    """Yield values outside the groups that eksctl rejects. The `--install-...` flags don't change this."""
    karpenter, oidc = {"cluster.karpenter": GIVEN}, {"cluster.iam.withOIDC": NOT_TRUE}
    yield Row({**karpenter, "cluster.karpenter.version": ABSENT}, "karpenter.version must be set")
    yield Row({**karpenter, **oidc}, "karpenter needs iam.withOIDC: true")
    yield Row({"cluster.iam.serviceAccounts": GIVEN, **oidc}, "iam.serviceAccounts needs iam.withOIDC: true")
    # pkg/ctl/cmdutils/configfile.go ``Load``
    yield Row({"cluster.metadata.region": ABSENT}, "metadata.region must be set")
    types = "cluster.cloudWatch.clusterLogging.enableTypes"
    yield Row(
        {types: has_unmatched_item(*_LOG_TYPES)},
        f"cloudWatch.clusterLogging.enableTypes must be of {', '.join(_LOG_TYPES)}",
    )
    key = "secretsEncryption needs keyARN"
    yield Row({"cluster.secretsEncryption": GIVEN, "cluster.secretsEncryption.keyARN": ABSENT}, key)
    yield from chain(_network(), _access())


def _network() -> Iterator[Row]:
    vpc, endpoints, private = "cluster.vpc", "cluster.vpc.clusterEndpoints", "cluster.privateCluster.enabled"
    closed = {f"{endpoints}.publicAccess": FALSE, f"{endpoints}.privateAccess": NOT_TRUE, private: NOT_TRUE}
    yield Row(closed, "vpc.clusterEndpoints must enable publicAccess or privateAccess")
    for field in ("publicAccess", "privateAccess"):
        given = {f"{endpoints}.{field}": GIVEN, private: TRUE}
        yield Row(given, f"vpc.clusterEndpoints.{field} can't be set next to privateCluster.enabled")
    both = {f"{vpc}.subnets": GIVEN, "cluster.availabilityZones": GIVEN}
    yield Row(both, "only one of vpc.subnets and availabilityZones can be set")
    # pkg/eks/api.go ``SetAvailabilityZones``
    zones = {"cluster.availabilityZones": exactly_one, f"{vpc}.subnets": ABSENT, "cluster.outpost": ABSENT}
    yield Row(zones, "availabilityZones must have at least 2 zones, got {}")
    # pkg/cfn/builder/vpc_ipv4.go ``addNATGateways``, pkg/vpc/vpc.go ``SetSubnets``
    own = {f"{vpc}.id": ABSENT}
    gateway = f"vpc.nat.gateway must be one of {', '.join(_GATEWAYS)}, got {{!r}}"
    yield Row({f"{vpc}.nat.gateway": matches_none(*_GATEWAYS, ""), **own}, gateway, _GATEWAYS)
    size = r"/(\d|1[0-5]|2[5-9]|[3-9]\d)$"
    yield Row({f"{vpc}.cidr": matches(size), **own}, "vpc.cidr must have a prefix of /16 to /24, got {}")
    ip_family = "kubernetesNetworkConfig.ipFamily must be IPv4 or IPv6, got {!r}"
    yield Row({"cluster.kubernetesNetworkConfig.ipFamily": matches(r"^(?!(?i:ipv[46])$)")}, ip_family)


def _access() -> Iterator[Row]:
    """Yield values that EKS rejects from every client.

    Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAccessConfigRequest.html (2026-11)
    """
    mode = "cluster.accessConfig.authenticationMode"
    modes = f"accessConfig.authenticationMode must be one of {', '.join(_MODES)}, got {{!r}}"
    yield Row({mode: matches_none(*_MODES)}, modes, _MODES)
    entries = "accessConfig.accessEntries needs authenticationMode API or API_AND_CONFIG_MAP, got {!r}"
    yield Row({mode: matches_any("CONFIG_MAP"), "cluster.accessConfig.accessEntries": GIVEN}, entries)
    policy = "upgradePolicy.supportType must be STANDARD or EXTENDED, got {!r}"
    yield Row({"cluster.upgradePolicy.supportType": matches_none("STANDARD", "EXTENDED")}, policy)


_TAINT = (
    Row({"key": ABSENT}, "taint key must be set"),
    Row(
        {"effect": matches_none(*_EFFECTS)}, f"taint effect must be one of {', '.join(_EFFECTS)}, got {{!r}}", _EFFECTS
    ),
)
_CLUSTER = tuple(_cluster())
# Rows of the items of lists: pkg/apis/eksctl.io/v1alpha5/addon.go and fargate_profile.go ``Validate``
_ITEMS = {
    "addons": (Row({"name": ABSENT}, "name must be set"),),
    "fargateProfiles": (
        Row({"name": ABSENT}, "name must be set"),
        Row({"name": matches("^eks-")}, "name must not begin with eks-, got {!r}"),
        Row({"selectors": ABSENT}, "selectors must be set"),
    ),
    "iam.serviceAccounts": (
        Row({"metadata.name": ABSENT}, "metadata.name must be set"),
        Row(dict.fromkeys(_PERMISSIONS, ABSENT), f"one of {', '.join(_PERMISSIONS)} must be set"),
    ),
}
_ROWS = {MANAGED: (*_every_group(), *_managed()), SELF_MANAGED: (*_every_group(), *_self_managed())}

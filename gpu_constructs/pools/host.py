"""Settings of the host: user data, files, registries, proxies and certificates."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, get_args

from gpu_facts.access_tokens import access_token_kind
from gpu_facts.image_releases import OperatingSystem
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import did_you_mean, is_token, refuse_unless_bool, refuse_unless_whole_number, words

_HOST = r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:\d{1,5})?"
_REGISTRY = re.compile(_HOST, re.ASCII)
_URL = re.compile(rf"https?://{_HOST}", re.ASCII)
_EXCEPTION = re.compile(r"[A-Za-z0-9.:/\[\]-]+", re.ASCII)
_CERTIFICATES = re.compile(r"(-----BEGIN CERTIFICATE-----\n[A-Za-z0-9+/=\n]+\n-----END CERTIFICATE-----\s*)+", re.ASCII)
# Addresses that must not go through a proxy: the node itself, metadata, Pod Identity, services, names in the VPC, the
# API server of IPv4 and IPv6 clusters, also in China, where .amazonwebservices.com.cn includes
# .api.amazonwebservices.com.cn. The software on nodes is written in Go, which accepts IPv6 addresses only without
# brackets.
# Sources: https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html,
# https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html,
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html,
# https://github.com/golang/net/blob/master/http/httpproxy/proxy.go (2026-11)
_NEVER = (
    "localhost",
    "127.0.0.1",
    "169.254.169.254",
    "169.254.170.23",
    "::1",
    "fd00:ec2::254",
    "fd00:ec2::23",
    ".svc",
    ".cluster.local",
    ".internal",
    ".eks.amazonaws.com",
    ".api.aws",
    ".eks.amazonaws.com.cn",
    ".amazonwebservices.com.cn",
)
# Source: https://docs.aws.amazon.com/eks/latest/userguide/create-node-class.html (2026-11)
_MOST_EXCEPTIONS = 50
_CLUSTER = "the cluster of the pool"
_KUBELET = "NodeShape(kubelet=Kubelet(...))"
_LABELS, _TAINTS = "NodeShape(labels=...)", "NodeShape(taints=...)"
# Fields of a NodeConfig by their parent. nodeadm ignores others.
# Source: awslabs/amazon-eks-ami 81fec2e (2026-07-23) nodeadm/crds/node.eks.aws_nodeconfigs.yaml
_KNOWN: Mapping[tuple[str, ...], tuple[str, ...]] = {
    (): ("cluster", "containerd", "featureGates", "instance", "kubelet"),
    ("containerd",): ("baseRuntimeSpec", "config"),
    ("featureGates",): ("InstanceIdNodeName", "FastImagePull"),
    ("instance",): ("environment", "localStorage", "network"),
    ("instance", "localStorage"): ("strategy", "mountPath", "disabledMounts"),
    ("instance", "network"): ("domains", "nameservers"),
    ("kubelet",): ("config", "flags", "maxPodsExpression"),
}
_NODEADMS: Mapping[tuple[str, ...], str] = {
    ("cluster",): _CLUSTER,
    ("featureGates", "FastImagePull"): "NodeShape(soci=True)",
    ("instance", "localStorage", "strategy"): "NodeShape(raid0=...)",
    ("kubelet", "maxPodsExpression"): _KUBELET,
    ("kubelet", "config", "maxPods"): _KUBELET,
    ("kubelet", "config", "kubeReserved"): _KUBELET,
    ("kubelet", "config", "systemReserved"): _KUBELET,
    ("kubelet", "config", "maxParallelImagePulls"): _KUBELET,
    ("kubelet", "config", "registerWithTaints"): _TAINTS,
}
_FLAGS: Mapping[str, str] = {
    "--node-labels": _LABELS,
    "--register-with-taints": _TAINTS,
    "--max-pods": _KUBELET,
    "--kube-reserved": _KUBELET,
    "--system-reserved": _KUBELET,
}
_BOTTLEROCKETS: Mapping[tuple[str, ...], str] = {
    ("kubernetes", "cluster-name"): _CLUSTER,
    ("kubernetes", "api-server"): _CLUSTER,
    ("kubernetes", "cluster-certificate"): _CLUSTER,
    ("kubernetes", "cluster-dns-ip"): _CLUSTER,
    ("kubernetes", "node-labels"): _LABELS,
    ("kubernetes", "node-taints"): _TAINTS,
    ("kubernetes", "max-pods"): _KUBELET,
    ("kubernetes", "kube-reserved"): _KUBELET,
    ("kubernetes", "system-reserved"): _KUBELET,
    ("kubernetes", "max-parallel-image-pulls"): _KUBELET,
    ("kubelet-device-plugins", "nvidia"): "NodeShape(sharing=..., device_manager=...)",
    ("kernel", "sysctl", "vm.nr_hugepages"): "NodeShape(efa=True)",
    ("container-runtime", "snapshotter"): "NodeShape(soci=True)",
    ("container-runtime-plugins", "soci-snapshotter"): "NodeShape(soci=True)",
    ("bootstrap-commands", "000-mount-instance-storage"): "NodeShape(raid0=...)",
}
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_GROUP_ID = re.compile(r"sg-[0-9a-f]{8,17}")
# Max groups of one network interface, including the cluster's own. EC2 allows raising its quota of 5 to this number.
# Source: https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html (2026-11)
_MOST_GROUPS = 16
# One hop ends at the node, the second one at a pod with its own network.
# Source: https://docs.aws.amazon.com/eks/latest/best-practices/identity-and-access-management.html (2026-11)
_HOPS = (1, 2)
_INSTEAD: dict[OperatingSystem, str] = {
    "al2023": "use ShellScript or NodeConfig",
    "bottlerocket": "write BottlerocketSettings(settings={'bootstrap-commands': ...}), because it can't run scripts",
}


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Proxy:
    """A proxy between the software of a node and the internet. It isn't set for pods.

    On AL2023 it applies to nodeadm and all systemd services, from image v20251007 on.

    Attributes:
        url: Its address, e.g. ``http://proxy.example.com:3128``.
        no_proxy: Names and address blocks that nodes connect to directly: the VPC's and the services' blocks, and the
            names of VPC endpoints, at most 36. The node, the metadata service, Pod Identity, services of the cluster,
            its API server, and AWS names in ``api.aws`` and ``amazonwebservices.com.cn`` are always included.

    Raises:
        TypeError: ``no_proxy`` isn't a list of names.
        ValueError: ``url`` isn't the address of a proxy.
    """

    url: str
    no_proxy: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.url, str) or not (is_token(self.url) or _URL.fullmatch(self.url)):
            raise ValueError(
                f"proxy: url must be the address of a proxy, got {self.url!r}; write 'http://proxy.example.com:3128'"
            )
        names = words("proxy", "no_proxy", self.no_proxy)
        object.__setattr__(self, "no_proxy", names)
        for name in names:
            if not is_token(name) and not _EXCEPTION.fullmatch(name):
                raise ValueError(
                    f"proxy: no_proxy must contain names and blocks, got {name!r}; write ones such as '.example.com' "
                    "and '10.0.0.0/16'"
                )
        if len(self.exceptions) > _MOST_EXCEPTIONS:
            raise ValueError(
                f"proxy: no_proxy must be at most {_MOST_EXCEPTIONS - len(_NEVER)} names, got {len(names)}; write a "
                "dot before a domain to include all its names"
            )

    @property
    def exceptions(self) -> tuple[str, ...]:
        """All names and blocks that nodes connect to directly."""
        return tuple(dict.fromkeys((*_NEVER, *self.no_proxy)))


def _checked_mirrors(given: object) -> dict[str, tuple[str, ...]]:
    """Return the mirrors of each registry, in the order in which containerd tries them.

    Raises:
        TypeError: ``given`` isn't a mapping.
        ValueError: A registry isn't a host, or a mirror isn't an address.
    """
    if not isinstance(given, Mapping):
        raise TypeError(
            f"host: registry_mirrors must map registries to addresses, got {given!r}; write "
            f"{{'docker.io': 'https://...'}}"
        )
    found: dict[str, tuple[str, ...]] = {}
    for registry, mirrors in given.items():
        if not isinstance(registry, str) or not _REGISTRY.fullmatch(registry):
            raise ValueError(
                f"host: registry_mirrors must have hosts as keys, got {registry!r}; write one such as 'docker.io'"
            )
        found[registry] = words("host", "registry_mirrors", [mirrors] if isinstance(mirrors, str) else mirrors)
        for mirror in found[registry] or ("",):
            if not is_token(mirror) and not _URL.fullmatch(mirror):
                raise ValueError(
                    f"host: registry_mirrors must have addresses such as 'https://mirror.example.com', got {mirror!r} "
                    f"for {registry!r}; configure a path in user_data"
                )
    return found


def _checked_certificates(given: object) -> tuple[str, ...]:
    """Return certificates of certificate authorities.

    Raises:
        TypeError: ``given`` isn't a list of strings.
        ValueError: A string isn't a certificate, or contains other text.
    """
    found = words("host", "certificate_authorities", given)
    for each in found:
        if not _CERTIFICATES.fullmatch(each):
            raise ValueError(
                "host: certificate_authorities must contain certificates in PEM and nothing else, got "
                f"{each[:27]!r}...; pass the content of the file that begins with '-----BEGIN CERTIFICATE-----'"
            )
    return tuple(each.strip() + "\n" for each in found)


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class ShellScript:
    """A script that cloud-init runs once, as root, when an AL2023 node boots.

    It runs after nodeadm has written its configuration, and before containerd and the kubelet start. If a script fails,
    the node still joins.
    Source: awslabs/amazon-eks-ami v20260724 nodeadm/doc/api-concepts.md

    Attributes:
        text: The script, including its first line ``#!``, in ASCII.

    Raises:
        TypeError: ``text`` isn't a string.
        ValueError: cloud-init would not run it, or it contains an access token.
    """

    text: str
    operating_system: ClassVar[OperatingSystem] = "al2023"

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise TypeError(f"shell script: text must be a string, got {self.text!r}; write '#!/bin/bash ...'")
        if not self.text.startswith("#!"):
            raise ValueError(
                f"shell script: text must begin with '#!', got {self.text[:20]!r}; write '#!/bin/bash' first"
            )
        if not self.text.isascii():
            odd = next(each for each in self.text if not each.isascii())
            raise ValueError(
                f"shell script: text must be ASCII, got {odd!r}; replace it, because the MIME part is ASCII"
            )
        if (kind := access_token_kind(self.text)) is not None:
            raise ValueError(
                f"shell script: text must contain no secret in the template, got {kind}; read it in the script from "
                "Secrets Manager with the role of the nodes"
            )


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class NodeConfig:
    """Additional configuration for nodeadm, on AL2023. The library merges it with its own into one document.

    Source: https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/ (2026-11)

    Attributes:
        spec: ``spec`` of a NodeConfig, e.g. ``{"kubelet": {"config": {"shutdownGracePeriod": "60s"}}}``.

    Raises:
        TypeError: ``spec`` isn't a mapping, or has values that JSON doesn't support.
        ValueError: nodeadm doesn't support a field, or the shape of the nodes sets it.
    """

    spec: Mapping[str, Any] = field(hash=False)
    operating_system: ClassVar[OperatingSystem] = "al2023"

    def __post_init__(self) -> None:
        object.__setattr__(self, "spec", _frozen("node config", "spec", self.spec))
        for path, value in _paths(self.spec):
            _refuse_unknown(path, value)
        _refuse_owned("node config", "spec", self.spec, _NODEADMS)
        flags = self.spec.get("kubelet", {}).get("flags", ())
        if not isinstance(flags, (list, tuple)) or not all(isinstance(flag, str) for flag in flags):
            raise TypeError(f"node config: spec.kubelet.flags must be a list of flags, got {flags!r}; write ['--v=2']")
        for flag in flags:
            if flag.partition("=")[0] in _FLAGS:
                raise ValueError(
                    f"node config: spec.kubelet.flags must leave out {flag.partition('=')[0]}, got {flag!r}; set "
                    f"{_FLAGS[flag.partition('=')[0]]}, which autoscalers also read"
                )


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class BottlerocketSettings:
    """Additional settings of Bottlerocket. The library merges them with its own into one document.

    Karpenter overrides settings with its own, and passes on only the ``settings.kubernetes`` that it supports.

    Source: https://bottlerocket.dev/en/os/latest/api/settings/ (2026-11)

    Attributes:
        settings: Content of ``settings``, e.g. ``{"motd": "GPU node"}``.

    Raises:
        TypeError: ``settings`` isn't a mapping, or has values that TOML doesn't support.
        ValueError: The shape of the nodes sets a value, or EKS can't merge it into its own settings.
    """

    settings: Mapping[str, Any] = field(hash=False)
    operating_system: ClassVar[OperatingSystem] = "bottlerocket"

    def __post_init__(self) -> None:
        who = "bottlerocket settings"
        object.__setattr__(self, "settings", _frozen(who, "settings", self.settings))
        _refuse_owned(who, "settings", self.settings, _BOTTLEROCKETS)
        for path, value in _paths(self.settings):
            _refuse_unmergeable(who, path, value)


UserDataPart = ShellScript | NodeConfig | BottlerocketSettings


def _frozen(who: str, argument: str, given: object) -> Mapping[str, Any]:
    if not isinstance(given, Mapping) or not given:
        raise TypeError(
            f"{who}: {argument} must be a mapping of fields to values, at least one, got {given!r}; write "
            f"{{'field': value}}"
        )
    odd = next((path[-1] for path, _ in _paths(given) if not isinstance(path[-1], str)), None)
    if odd is not None:
        raise TypeError(f"{who}: {argument} must have strings as keys, got {odd!r}; write it as a string")
    try:
        return MappingProxyType(json.loads(json.dumps(dict(given), allow_nan=False)))
    except (TypeError, ValueError):
        rule = "must contain only mappings, lists, strings, numbers and booleans"
        raise TypeError(f"{who}: {argument} {rule}, got {given!r}; convert other values") from None


def _paths(value: Mapping[str, Any], *parents: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, each in value.items():
        yield (*parents, key), each
        if isinstance(each, Mapping):
            yield from _paths(each, *parents, key)


def _refuse_unknown(path: tuple[str, ...], value: Any) -> None:
    if path in _KNOWN and not isinstance(value, Mapping):
        raise TypeError(
            f"node config: spec.{'.'.join(path)} must be a mapping, got {value!r}; write {{'field': value}}"
        )
    known = _KNOWN.get(path[:-1])
    if known is not None and path[-1] not in known:
        raise ValueError(
            f"node config: spec must have fields that nodeadm supports, got {'.'.join(path)!r}, which it ignores"
            f"{did_you_mean(path[-1], known)}"
        )


def _refuse_owned(who: str, argument: str, given: Mapping[str, Any], owned: Mapping[tuple[str, ...], str]) -> None:
    for path, value in _paths(given):
        if path in owned:
            raise ValueError(f"{who}: {argument} must leave out {'.'.join(path)}, got {value!r}; set {owned[path]}")


def _refuse_unmergeable(who: str, path: tuple[str, ...], value: Any) -> None:
    # Source: https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html (2026-11)
    if isinstance(value, Mapping) and not _BARE_KEY.fullmatch(path[-1]):
        raise ValueError(
            f"{who}: settings must have letters, digits, '-' and '_' in the names of tables, got {path[-1]!r}; rename "
            "it, because EKS can't merge it"
        )
    texts = value if isinstance(value, list) else [value]
    if '"' in path[-1] or any(isinstance(each, str) and '"' in each for each in texts):
        raise ValueError(
            f"{who}: settings must have no quotes in strings, got {value!r}; remove them, because EKS can't merge them"
        )
    if isinstance(value, list) and len({type(each) for each in value}) > 1:
        raise ValueError(
            f"{who}: settings must have lists of one type, got {value!r}; convert the items, because EKS can't merge "
            "them"
        )
    if value is None:
        raise ValueError(
            f"{who}: settings must have a value for {'.'.join(path)}, got None, which TOML doesn't support; leave it "
            "out"
        )


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """Additional settings of the machine of a node that have nothing to do with GPUs.

    Attributes:
        security_group_ids: Security groups in addition to the cluster's own. The nodes keep the cluster's group for
            traffic with the control plane, other nodes and EFA.
        metadata_hop_limit: Max hops of answers from the metadata service: 1, or 2 to let every pod of the node read it,
            and so use the role of the node. Pods with Pod Identity don't need the second hop. With 1, pods can't read
            the region either: pass it by value.
        session_manager: Allow shells on the nodes through Session Manager. It attaches ``AmazonSSMManagedInstanceCore``
            to their role, and so to all nodes that share it. Without a route to the internet it needs interface
            endpoints for ssm, ssmmessages and ec2messages. It is rejected with your own role.

        user_data: Additional user data: `ShellScript` and `NodeConfig` for AL2023, `BottlerocketSettings` for
            Bottlerocket. NodeConfigs and settings are merged in order. The later of two values takes precedence, and
            lists are joined. Scripts run in order, after this library's own.
        registry_mirrors: Addresses from which images of a registry are pulled first, e.g.
            ``{"docker.io": "https://mirror.example.com"}``. Several addresses are tried in order, then the registry
            itself. Configure a mirror with a path or a password in `user_data`. Don't rely on mirrors together with
            ``NodeShape(soci=True)``: until 2026-09 its parallel pull contacted the registry itself
            (https://github.com/awslabs/soci-snapshotter/pull/2083).
        certificate_authorities: Certificates in PEM that the node trusts in addition to the public ones, for mirrors or
            for a proxy that decrypts connections. Pods trust the certificates in their images.
        proxy: Proxy between the node and the internet.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: EC2 would reject it, or it would grant more access than it states.
    """

    security_group_ids: Sequence[str] = ()
    metadata_hop_limit: int = 1
    session_manager: bool = False
    user_data: Sequence[UserDataPart] = ()
    registry_mirrors: Mapping[str, str | Sequence[str]] = field(default_factory=dict, hash=False)
    certificate_authorities: Sequence[str] = ()
    proxy: Proxy | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "security_group_ids", _group_ids(self.security_group_ids))
        refuse_unless_whole_number("host", "metadata_hop_limit", self.metadata_hop_limit, least=1)
        if self.metadata_hop_limit not in _HOPS:
            raise ValueError(
                "host: metadata_hop_limit must be 1, or 2 for pods that read the metadata service, got "
                f"{self.metadata_hop_limit}; write 1 or 2, because no pod needs more hops"
            )
        refuse_unless_bool("host", "session_manager", self.session_manager)
        object.__setattr__(self, "user_data", _parts(self.user_data))
        object.__setattr__(self, "registry_mirrors", MappingProxyType(_checked_mirrors(self.registry_mirrors)))
        object.__setattr__(self, "certificate_authorities", _checked_certificates(self.certificate_authorities))
        if self.proxy is not None and not isinstance(self.proxy, Proxy):
            raise TypeError(f"host: proxy must be a Proxy, got {self.proxy!r}; write Proxy(url='http://...:3128')")

    @property
    def scripts(self) -> tuple[str, ...]:
        """Scripts that an AL2023 node runs at boot."""
        return tuple(each.text for each in self.user_data if isinstance(each, ShellScript))

    @property
    def node_configs(self) -> tuple[Mapping[str, Any], ...]:
        """Additional configurations for nodeadm on AL2023, in order."""
        return tuple(each.spec for each in self.user_data if isinstance(each, NodeConfig))

    @property
    def bottlerocket_settings(self) -> tuple[Mapping[str, Any], ...]:
        """Settings of Bottlerocket, in order."""
        return tuple(each.settings for each in self.user_data if isinstance(each, BottlerocketSettings))

    def refuse_on(self, who: object, operating_system: OperatingSystem) -> None:
        """Reject parts of user data for another operating system.

        Raises:
            ValueError: There is such a part.
        """
        for each in self.user_data:
            if each.operating_system != operating_system:
                raise ValueError(
                    f"{who}: host must have user_data for {operating_system}, got a {type(each).__name__}; "
                    f"{_INSTEAD[operating_system]}"
                )

    def beyond_auto_mode(self) -> dict[str, object]:
        """Return the arguments that a NodeClass of EKS Auto Mode doesn't support, with their values."""
        return {
            "host.metadata_hop_limit": self.metadata_hop_limit if self.metadata_hop_limit != 1 else None,
            "host.session_manager": self.session_manager,
            "host.user_data": self.user_data,
            "host.registry_mirrors": dict(self.registry_mirrors),
        }


def _parts(given: object) -> tuple[UserDataPart, ...]:
    if not isinstance(given, (list, tuple)) or not all(isinstance(each, get_args(UserDataPart)) for each in given):
        raise TypeError(
            "host: user_data must be a list of ShellScript(text='#!/bin/bash ...'), NodeConfig(spec={...}) or "
            f"BottlerocketSettings(settings={{...}}), got {given!r}"
        )
    return tuple(given)


def _group_ids(given: object) -> tuple[str, ...]:
    if not isinstance(given, str) and not isinstance(given, (list, tuple)):
        raise TypeError(
            f"host: security_group_ids must be a list of ids, got {given!r}; pass [group.security_group_id]"
        )
    ids = words("host", "security_group_ids", given)
    for id in ids:
        if not is_token(id) and not _GROUP_ID.fullmatch(id):
            raise ValueError(
                f"host: security_group_ids must contain ids such as 'sg-0123456789abcdef0', got {id!r}; pass "
                "group.security_group_id"
            )
    if len(set(ids)) < len(ids):
        raise ValueError(f"host: security_group_ids must differ, got {ids!r}; remove the duplicates")
    if len(ids) >= _MOST_GROUPS:
        raise ValueError(
            f"host: security_group_ids must be at most {_MOST_GROUPS - 1}, got {len(ids)}; merge some, because with "
            f"the cluster's own a network interface supports {_MOST_GROUPS}, and 5 unless you raised the quota"
        )
    return ids

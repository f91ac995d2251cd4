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
# What no proxy may stand before: the node itself, metadata, Pod Identity, services, names in the VPC, the API server of
# clusters of IPv4 and IPv6, in China too, where .amazonwebservices.com.cn holds .api.amazonwebservices.com.cn.
# Software of nodes is written in Go, which knows addresses of IPv6 without brackets only.
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
# Fields of a NodeConfig by where they stand; nodeadm ignores others.
# Source: awslabs/amazon-eks-ami 81fec2e (2026-07-23) nodeadm/crds/node.eks.aws_nodeconfigs.yaml
KNOWN: Mapping[tuple[str, ...], tuple[str, ...]] = {
    (): ("cluster", "containerd", "featureGates", "instance", "kubelet"),
    ("containerd",): ("baseRuntimeSpec", "config"),
    ("featureGates",): ("InstanceIdNodeName", "FastImagePull"),
    ("instance",): ("environment", "localStorage", "network"),
    ("instance", "localStorage"): ("strategy", "mountPath", "disabledMounts"),
    ("instance", "network"): ("domains", "nameservers"),
    ("kubelet",): ("config", "flags", "maxPodsExpression"),
}
NODEADMS: Mapping[tuple[str, ...], str] = {
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
FLAGS: Mapping[str, str] = {
    "--node-labels": _LABELS,
    "--register-with-taints": _TAINTS,
    "--max-pods": _KUBELET,
    "--kube-reserved": _KUBELET,
    "--system-reserved": _KUBELET,
}
BOTTLEROCKETS: Mapping[tuple[str, ...], str] = {
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
# Of one network interface, the cluster's own among them; EC2 raises its quota of 5 that far.
# Source: https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html (2026-11)
_MOST_GROUPS = 16
# One hop ends at the node, the second one at a pod in a network of its own.
# Source: https://docs.aws.amazon.com/eks/latest/best-practices/identity-and-access-management.html (2026-11)
_HOPS = (1, 2)
_INSTEAD: dict[OperatingSystem, str] = {
    "al2023": "it takes ShellScript and NodeConfig",
    "bottlerocket": "it runs no script, write BottlerocketSettings(settings={'bootstrap-commands': ...})",
}


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Proxy:
    """A proxy between the software of a node and the internet; pods are told of it by nobody.

    Attributes:
        url: Where it listens, e.g. ``http://proxy.example.com:3128``.
        no_proxy: Names and address blocks that are reached directly, beside the node, the metadata service, services of
            the cluster and its API server: the VPC's and the services' blocks, and the names of VPC endpoints.

    Raises:
        TypeError: ``no_proxy`` is no list of names.
        ValueError: ``url`` is no address of a proxy.
    """

    url: str
    no_proxy: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.url, str) or not (is_token(self.url) or _URL.fullmatch(self.url)):
            raise ValueError(f"proxy: url must be one such as 'http://proxy.example.com:3128', got {self.url!r}")
        names = words("proxy", "no_proxy", self.no_proxy)
        object.__setattr__(self, "no_proxy", names)
        for name in names:
            if not is_token(name) and not _EXCEPTION.fullmatch(name):
                raise ValueError(
                    f"proxy: no_proxy must hold names such as '.example.com' and blocks such as '10.0.0.0/16', got "
                    f"{name!r}"
                )
        if len(self.exceptions) > _MOST_EXCEPTIONS:
            raise ValueError(
                f"proxy: no_proxy must be at most {_MOST_EXCEPTIONS - len(_NEVER)} names, got {len(names)}; a dot "
                "before a domain stands for all in it"
            )

    @property
    def exceptions(self) -> tuple[str, ...]:
        """All that is reached directly."""
        return tuple(dict.fromkeys((*_NEVER, *self.no_proxy)))


def checked_mirrors(given: object) -> dict[str, tuple[str, ...]]:
    """Return the mirrors of each registry, in the order in which they are tried.

    Raises:
        TypeError: ``given`` is no mapping.
        ValueError: A registry is no host, or a mirror no address of one.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"host: registry_mirrors must map registries to addresses, got {given!r}")
    found: dict[str, tuple[str, ...]] = {}
    for registry, mirrors in given.items():
        if not isinstance(registry, str) or not _REGISTRY.fullmatch(registry):
            raise ValueError(f"host: registry_mirrors must have hosts such as 'docker.io' as keys, got {registry!r}")
        found[registry] = words("host", "registry_mirrors", [mirrors] if isinstance(mirrors, str) else mirrors)
        for mirror in found[registry] or ("",):
            if not is_token(mirror) and not _URL.fullmatch(mirror):
                raise ValueError(
                    f"host: registry_mirrors must have addresses such as 'https://mirror.example.com', got {mirror!r} "
                    f"for {registry!r}; a path is for a part of user_data"
                )
    return found


def checked_certificates(given: object) -> tuple[str, ...]:
    """Return certificates of authorities.

    Raises:
        TypeError: ``given`` is no list of texts.
        ValueError: One is no certificate, or has something else beside it.
    """
    found = words("host", "certificate_authorities", given)
    for each in found:
        if not _CERTIFICATES.fullmatch(each):
            raise ValueError(
                "host: certificate_authorities must hold certificates in PEM and nothing else, got "
                f"{each[:27]!r}...; read the file that begins with '-----BEGIN CERTIFICATE-----'"
            )
    return tuple(each.strip() + "\n" for each in found)


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class ShellScript:
    """A script that cloud-init runs once, as root, when an AL2023 node boots.

    Nodeadm has written its configuration before it, and starts containerd and kubelet after it. A script that fails
    does not keep the node from joining.
    Source: awslabs/amazon-eks-ami v20260724 nodeadm/doc/api-concepts.md

    Attributes:
        text: The script, from its ``#!`` on, in ASCII.

    Raises:
        TypeError: ``text`` is no string.
        ValueError: cloud-init would not run it, or it has an access token in it.
    """

    text: str
    operating_system: ClassVar[OperatingSystem] = "al2023"

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise TypeError(f"shell script: text must be a string, got {self.text!r}")
        if not self.text.startswith("#!"):
            raise ValueError(f"shell script: text must begin with '#!/bin/bash', got {self.text[:20]!r}")
        if not self.text.isascii():
            odd = next(each for each in self.text if not each.isascii())
            raise ValueError(f"shell script: text must be ASCII, as MIME is here, got {odd!r}")
        if (kind := access_token_kind(self.text)) is not None:
            raise ValueError(
                f"shell script: text must name no secret in the template, got {kind}; have the script read it from "
                "Secrets Manager with the role of the nodes"
            )


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class NodeConfig:
    """What nodeadm is told beside what this library tells it, on AL2023. Both become one document.

    Source: https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/ (2026-11)

    Attributes:
        spec: ``spec`` of a NodeConfig, e.g. ``{"kubelet": {"config": {"shutdownGracePeriod": "60s"}}}``.

    Raises:
        TypeError: ``spec`` is no mapping, or not of what JSON has.
        ValueError: nodeadm does not know a field, or the shape of the nodes says it.
    """

    spec: Mapping[str, Any] = field(hash=False)
    operating_system: ClassVar[OperatingSystem] = "al2023"

    def __post_init__(self) -> None:
        object.__setattr__(self, "spec", _frozen("node config", "spec", self.spec))
        for path, value in _paths(self.spec):
            _refuse_unknown(path, value)
        _refuse_owned("node config", "spec", self.spec, NODEADMS)
        flags = self.spec.get("kubelet", {}).get("flags", ())
        if not isinstance(flags, (list, tuple)) or not all(isinstance(flag, str) for flag in flags):
            raise TypeError(f"node config: spec.kubelet.flags must be a list of flags, got {flags!r}")
        for flag in flags:
            if flag.partition("=")[0] in FLAGS:
                raise ValueError(
                    f"node config: spec.kubelet.flags must leave out {flag.partition('=')[0]}, got {flag!r}; "
                    f"{FLAGS[flag.partition('=')[0]]} says it, and autoscalers with it"
                )


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class BottlerocketSettings:
    """Settings of Bottlerocket beside those of this library. Both become one document.

    Source: https://bottlerocket.dev/en/os/latest/api/settings/ (2026-11)

    Attributes:
        settings: What stands under ``settings``, e.g. ``{"motd": "GPU node"}``.

    Raises:
        TypeError: ``settings`` is no mapping, or not of what TOML has.
        ValueError: The shape of the nodes says it, or EKS cannot merge it into its own settings.
    """

    settings: Mapping[str, Any] = field(hash=False)
    operating_system: ClassVar[OperatingSystem] = "bottlerocket"

    def __post_init__(self) -> None:
        who = "bottlerocket settings"
        object.__setattr__(self, "settings", _frozen(who, "settings", self.settings))
        _refuse_owned(who, "settings", self.settings, BOTTLEROCKETS)
        for path, value in _paths(self.settings):
            _refuse_unmergeable(who, path, value)


UserDataPart = ShellScript | NodeConfig | BottlerocketSettings


def _frozen(who: str, argument: str, given: object) -> Mapping[str, Any]:
    if not isinstance(given, Mapping) or not given:
        raise TypeError(f"{who}: {argument} must be a mapping of fields to values, at least one, got {given!r}")
    odd = next((path[-1] for path, _ in _paths(given) if not isinstance(path[-1], str)), None)
    if odd is not None:
        raise TypeError(f"{who}: {argument} must have texts as keys, got {odd!r}")
    try:
        return MappingProxyType(json.loads(json.dumps(dict(given), allow_nan=False)))
    except (TypeError, ValueError):
        rule = "must hold mappings, lists, texts, numbers and truths"
        raise TypeError(f"{who}: {argument} {rule}, got {given!r}") from None


def _paths(value: Mapping[str, Any], *parents: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, each in value.items():
        yield (*parents, key), each
        if isinstance(each, Mapping):
            yield from _paths(each, *parents, key)


def _refuse_unknown(path: tuple[str, ...], value: Any) -> None:
    if path in KNOWN and not isinstance(value, Mapping):
        raise TypeError(f"node config: spec.{'.'.join(path)} must be a mapping, got {value!r}")
    known = KNOWN.get(path[:-1])
    if known is not None and path[-1] not in known:
        raise ValueError(
            f"node config: spec must have fields that nodeadm knows, got {'.'.join(path)!r}, which it ignores"
            f"{did_you_mean(path[-1], known)}"
        )


def _refuse_owned(who: str, argument: str, given: Mapping[str, Any], owned: Mapping[tuple[str, ...], str]) -> None:
    for path, value in _paths(given):
        if path in owned:
            raise ValueError(f"{who}: {argument} must leave out {'.'.join(path)}, got {value!r}; {owned[path]} says it")


def _refuse_unmergeable(who: str, path: tuple[str, ...], value: Any) -> None:
    # Source: https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html (2026-11)
    if isinstance(value, Mapping) and not _BARE_KEY.fullmatch(path[-1]):
        raise ValueError(
            f"{who}: settings must have letters, digits, '-' and '_' in the names of tables, got {path[-1]!r}; EKS "
            "does not merge others"
        )
    texts = value if isinstance(value, list) else [value]
    if '"' in path[-1] or any(isinstance(each, str) and '"' in each for each in texts):
        raise ValueError(f"{who}: settings must be without quotes in texts, got {value!r}; EKS does not merge them")
    if isinstance(value, list) and len({type(each) for each in value}) > 1:
        raise ValueError(f"{who}: settings must have lists of one type, got {value!r}; EKS does not merge others")
    if value is None:
        raise ValueError(f"{who}: settings must have a value for {'.'.join(path)}, got None, which TOML has not")


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """Escape hatches: what the machine beneath a node gets beside what GPUs need.

    Attributes:
        security_group_ids: Security groups beside the cluster's own, which the nodes keep: the control plane, other
            nodes and EFA reach them through it.
        metadata_hop_limit: How many hops answers of the metadata service go: 1, or 2 so that every pod of the node
            reads it, and with it takes the role of the node. Pods with Pod Identity need no second hop.
        session_manager: Let Session Manager open a shell on the nodes: it gives their role
            ``AmazonSSMManagedInstanceCore``, and so all nodes that share it. Without a way to the internet it takes
            interface endpoints for ssm, ssmmessages and ec2messages.

        user_data: Parts beside what this library tells a node: `ShellScript` and `NodeConfig` for AL2023,
            `BottlerocketSettings` for Bottlerocket. NodeConfigs and settings are merged in their order, of two values
            the later one wins, lists are joined. Scripts run in their order, after this library's own.
        registry_mirrors: Where images of a registry are pulled first, e.g.
            ``{"docker.io": "https://mirror.example.com"}``; several addresses are tried in their order, then the
            registry itself. Whether ``NodeShape(soci=True)`` pulls through them is not known.
        certificate_authorities: Certificates in PEM that the node trusts beside the public ones: of mirrors, of a proxy
            that opens connections. Pods trust what is in their images.
        proxy: What stands between the node and the internet.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: EC2 would refuse it, or it would give away more than it says.
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
                f"host: metadata_hop_limit must be 1, or 2 for pods that read the metadata service, got "
                f"{self.metadata_hop_limit}; no pod of the node is further away"
            )
        refuse_unless_bool("host", "session_manager", self.session_manager)
        object.__setattr__(self, "user_data", _parts(self.user_data))
        object.__setattr__(self, "registry_mirrors", MappingProxyType(checked_mirrors(self.registry_mirrors)))
        object.__setattr__(self, "certificate_authorities", checked_certificates(self.certificate_authorities))
        if self.proxy is not None and not isinstance(self.proxy, Proxy):
            raise TypeError(f"host: proxy must be a Proxy, got {self.proxy!r}; write Proxy(url='http://...:3128')")

    @property
    def scripts(self) -> tuple[str, ...]:
        """Scripts that an AL2023 node runs at boot."""
        return tuple(each.text for each in self.user_data if isinstance(each, ShellScript))

    @property
    def node_configs(self) -> tuple[Mapping[str, Any], ...]:
        """What nodeadm is told on AL2023, in its order."""
        return tuple(each.spec for each in self.user_data if isinstance(each, NodeConfig))

    @property
    def bottlerocket_settings(self) -> tuple[Mapping[str, Any], ...]:
        """Settings of Bottlerocket, in their order."""
        return tuple(each.settings for each in self.user_data if isinstance(each, BottlerocketSettings))

    def refuse_on(self, who: object, operating_system: OperatingSystem) -> None:
        """Refuse parts of user data for another operating system.

        Raises:
            ValueError: There is one.
        """
        for each in self.user_data:
            if each.operating_system != operating_system:
                raise ValueError(
                    f"{who}: host must have user_data for {operating_system}, got a {type(each).__name__}; "
                    f"{_INSTEAD[operating_system]}"
                )

    def beyond_auto_mode(self) -> dict[str, object]:
        """Return what is said that no NodeClass of EKS Auto Mode has, by argument."""
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
                f"host: security_group_ids must hold ids such as 'sg-0123456789abcdef0', got {id!r}; pass "
                "group.security_group_id"
            )
    if len(set(ids)) < len(ids):
        raise ValueError(f"host: security_group_ids must differ, got {ids!r}")
    if len(ids) >= _MOST_GROUPS:
        raise ValueError(
            f"host: security_group_ids must be at most {_MOST_GROUPS - 1}, got {len(ids)}; with the cluster's own a "
            f"network interface takes {_MOST_GROUPS}, and 5 unless the quota was raised"
        )
    return ids

"""The machine beneath a node: what it gets beside what GPUs need."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, get_args

from gpu_constructs.pools.host.surroundings import Proxy, checked_certificates, checked_mirrors
from gpu_constructs.pools.host.user_data_parts import BottlerocketSettings, NodeConfig, ShellScript, UserDataPart
from gpu_facts.named_arguments import named_arguments
from gpu_facts.operating_systems import OperatingSystem
from gpu_facts.refusals import is_token, refuse_unless_bool, refuse_unless_whole_number, words

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

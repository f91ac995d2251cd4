"""Where the network plugin takes the addresses of pods from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aws_cdk import Token

from gpu_constructs.facts.labels import ZONE
from gpu_constructs.refusals import refuse_unless_zone

_SUBNET = re.compile(r"subnet-[0-9a-f]{8,17}")


@dataclass(frozen=True, kw_only=True, slots=True)
class PodNetwork:
    """Addresses of pods.

    Attributes:
        subnets: Ids of the subnets that they come from, by zone; empty for those of the nodes.
        prefixes: Whether a node takes them in blocks of sixteen.
    """

    subnets: Mapping[str, str]
    prefixes: bool

    @property
    def is_usual(self) -> bool:
        """Whether nodes take addresses for pods as the plugin does by itself: whole interfaces of their own subnets."""
        return not self.subnets and not self.prefixes

    def values(self, region: str) -> dict[str, Any]:
        """Return the configuration of the add-on vpc-cni.

        Sources: configuration schema of the add-on, aws/amazon-vpc-cni-k8s v1.23.0 README.md (2026-11)
        """
        env: dict[str, str] = {}
        found: dict[str, Any] = {}
        if self.prefixes:
            env |= {"ENABLE_PREFIX_DELEGATION": "true", "WARM_PREFIX_TARGET": "1"}
        if self.subnets:
            env |= {"AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG": "true", "ENI_CONFIG_LABEL_DEF": ZONE}
            # Without security groups an interface of pods has those of the node's first one.
            subnets = {zone: {"id": subnet} for zone, subnet in self.subnets.items()}
            found["eniConfig"] = {"create": True, "region": region, "subnets": subnets}
        return found | {"env": env} if env else found


def subnets_by_zone(who: object, argument: str, given: object) -> dict[str, str]:
    """Return ids of subnets by the name of their zone.

    Raises:
        TypeError: ``given`` is no mapping of strings.
        ValueError: A zone or an id is none, or a zone is known at deployment only.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"{who}: {argument} must map zones to subnet ids, got {given!r}")
    for zone, subnet in given.items():
        refuse_unless_zone(who, argument, zone)
        if Token.is_unresolved(zone):
            raise ValueError(f"{who}: {argument} must have literal zones as keys, got a token; nodes ask by the name")
        if not isinstance(subnet, str):
            raise TypeError(f"{who}: {argument}[{zone!r}] must be the id of a subnet, got {subnet!r}")
        if not Token.is_unresolved(subnet) and not _SUBNET.fullmatch(subnet):
            raise ValueError(
                f"{who}: {argument}[{zone!r}] must be the id of a subnet, such as 'subnet-0123456789abcdef0', "
                f"got {subnet!r}"
            )
    if not given:
        raise ValueError(f"{who}: {argument} must name a subnet for each zone of nodes, got none; leave it out")
    return dict(given)

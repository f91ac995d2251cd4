"""What moto keeps of EC2: where a player writes what no call of the API can."""

from __future__ import annotations

from typing import Any

from moto.ec2.models import ec2_backends

from gpu_constructs.rehearsal.players.aws.region import Region


def kept_by_moto(region: Region) -> Any:
    """Return moto's EC2 of a region."""
    return ec2_backends[region.account][region.name]


def tags_kept(region: Region, identity: str) -> dict[str, str]:
    """Return the tags of something of EC2's, by its id."""
    return dict(kept_by_moto(region).tags.get(identity, {}))

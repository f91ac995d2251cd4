"""Filters of EC2's Describe calls, for what is played here.

Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Filtering.html
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from gpu_constructs.rehearsal.players.aws.api.refusals import Unplayed


def matching(
    items: list[dict[str, Any]], filters: Iterable[Mapping[str, Any]], names: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the items that every filter lets through.

    Args:
        items: What is described, by the names of the API.
        filters: As the call has them.
        names: Field that a filter asks about, by the filter's name; tags are known.

    Raises:
        Unplayed: A filter is not known.
    """
    return [item for item in items if all(_passes(item, one, names) for one in filters)]


def _passes(item: Mapping[str, Any], one: Mapping[str, Any], names: Mapping[str, str]) -> bool:
    name, wanted = str(one["Name"]), one["Values"]
    tags = {tag["Key"]: tag["Value"] for tag in item.get("Tags", ())}
    if name == "tag-key":
        return any(fnmatchcase(key, pattern) for key in tags for pattern in wanted)
    if name.startswith("tag:"):
        return name[4:] in tags and any(fnmatchcase(tags[name[4:]], pattern) for pattern in wanted)
    if name not in names:
        raise Unplayed(f"the filter {name}")
    return any(fnmatchcase(str(item.get(names[name], "")), pattern) for pattern in wanted)

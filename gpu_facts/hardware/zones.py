"""Availability Zones that there are: by name, such as ``us-east-1a``, or by id, such as ``use1-az1``.

A zone is a letter of its region or, by id, a number. Which letter is which number differs from account to account, and
an account may see some of them only: none has a letter or a number beyond the region's last. AWS adds zones now and
then, eu-west-2d was the last. That a region gets no two within a year is what we take for certain, and no source says.

Sources: https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-availability-zones.html, .../az-ids.html
(2026-11), and `regions.json`.
"""

from __future__ import annotations

from datetime import date
from functools import lru_cache

from gpu_facts.hardware.regions import (
    is_read,
    last_zone,
    partition_of,
    regions_as_of,
    zone_id_region,
    zone_ids_begin_with,
)
from gpu_facts.light_patterns import regex
from gpu_facts.today import today

# Local Zones and Wavelength Zones, such as us-west-2-lax-1a and use1-atl1-az1, have longer names, and no list here.
_NAME = regex(r"([a-z]+(?:-[a-z]+)+-\d+)([a-z])")
_ID = regex(r"([a-z]+\d+-az)(\d{1,3})")
# Those of Local and Wavelength Zones included.
_ANY_NAME = regex(r"[a-z]+(-[a-z]+)+-\d+([a-z]|-[a-z0-9-]+)")
_ANY_ID = regex(r"[a-z]+\d+-[a-z0-9-]+")
_YEAR = 365
# Numbers begin with 1.
_NEVER = 1000


@lru_cache(maxsize=4096)
def _beyond(zone: str) -> int:
    """Return how far a zone is beyond the last one of its region that was seen; nothing of what is no name of one."""
    if (named := _NAME.fullmatch(zone)) and partition_of(named[1]) is not None:
        return ord(named[2]) - ord("a") + 1 - last_zone(named[1])
    if (numbered := _ID.fullmatch(zone)) and zone_id_region(numbered[1]) is not None:
        number = int(numbered[2])
        return number - last_zone(zone_id_region(numbered[1])) if number else _NEVER
    return 0


def is_no_zone(zone: str) -> bool:
    """Whether there is certainly no zone of a name or an id: the older the list, the more may be newer than it."""
    beyond = _beyond(zone)
    return beyond > 1 and beyond > 1 + (today() - date.fromisoformat(regions_as_of())).days // _YEAR


def is_seen_zone(zone: str) -> bool:
    """Whether nothing speaks against a zone: it is no newer one than was read."""
    return _beyond(zone) <= 0


def is_zone_name(text: str) -> bool:
    """Whether a text is made as names of zones are, Local and Wavelength Zones included."""
    return bool(_ANY_NAME.fullmatch(text))


def is_elsewhere(zone: str, region: str | None) -> bool:
    """Whether a name or an id is one of a zone of another region; nothing is known of no region."""
    if region is None:
        return False
    if is_zone_name(zone):
        return not zone.startswith(region)
    begins = zone_ids_begin_with(region)
    return begins is not None and bool(_ANY_ID.fullmatch(zone)) and not zone.startswith(begins.removesuffix("az"))


def last_letter(zone: str) -> str:
    """Return which zones the region of a name had, where the name is beyond them, else nothing."""
    named = _NAME.fullmatch(zone)
    if named is None or is_seen_zone(zone):
        return ""
    last = chr(ord("a") + last_zone(named[1]) - 1)
    return f"; {named[1]} had zones a to {last} on {regions_as_of()}" if is_read(named[1]) else ""

"""Regions and zones: names, where EC2 offers NVIDIA types, reservations, prices and quotas.

The offers are what one account saw. Of some regions nothing is known: GovCloud, China, and those that opened last.

A zone's name, such as ``us-east-1a``, is a letter of its region; its id, like ``use1-az1``, a number. Which letter is
which number differs from account to account, and an account may see only some: none has a letter or a number beyond the
region's last. AWS adds zones now and then, eu-west-2d was the last. That no region gets two within a year is assumed.

Sources: https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-availability-zones.html, .../az-ids.html
(2026-11), and `regions.json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any, Final

from gpu_facts.hardware.catalogue import InstanceType
from gpu_facts.light import dataclass, read_package_data, regex
from gpu_facts.refusals import did_you_mean, is_token
from gpu_facts.today import today

# What a partition's regions are called.
# Source: botocore 1.44.5 data/partitions.json (2026-11)
_PARTITIONS: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "aws": re.compile(r"(us|eu|ap|sa|ca|me|af|il|mx)-\w+-\d+"),
        "aws-cn": re.compile(r"cn-\w+-\d+"),
        "aws-eusc": re.compile(r"eusc-de-\w+-\d+"),
        "aws-iso": re.compile(r"us-iso-\w+-\d+"),
        "aws-iso-b": re.compile(r"us-isob-\w+-\d+"),
        "aws-iso-e": re.compile(r"eu-isoe-\w+-\d+"),
        "aws-iso-f": re.compile(r"us-isof-\w+-\d+"),
        "aws-us-gov": re.compile(r"us-gov-\w+-\d+"),
    }
)
_REGION = regex(r"[a-z]{2,}(-[a-z]+)+-\d", re.ASCII)
# Where on a continent regions lie.
_WELL_FORMED = regex(r"[a-z]{2,4}(-(gov|de|iso[a-z]?))?-(central|(north|south)?(east|west)|north|south)-\d")
# An id of EC2 is a prefix and 17 letters and digits, or 8 in ids from before July 2018. No source limits them to
# hexadecimal digits, as which all ids in AWS's documentation are written.
# Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/resource-ids.html
_ID = regex(r"cr-([0-9a-f]{17}|[0-9a-f]{8})")
# Local Zones and Wavelength Zones, such as us-west-2-lax-1a and use1-atl1-az1, have longer names, and no list here.
_NAME = regex(r"([a-z]+(?:-[a-z]+)+-\d+)([a-z])")
_ZONE_ID = regex(r"([a-z]+\d+-az)(\d{1,3})")
# Those of Local and Wavelength Zones included.
_ANY_NAME = regex(r"[a-z]+(-[a-z]+)+-\d+([a-z]|-[a-z0-9-]+)")
_ANY_ID = regex(r"[a-z]+\d+-[a-z0-9-]+")
_YEAR = 365
# Numbers begin with 1.
_NEVER = 1000
# Where prices are in dollars; others are in yuan or euro, which no sum of dollars takes, or are not public.
_IN_DOLLARS = ("aws", "aws-us-gov")
# Whose prices are taken for those of every commercial region.
_COMMERCIAL = "us-east-1"
# As the AWS Pricing Calculator and Infracost count a month (2026-11).
HOURS_PER_MONTH: Final = 730
# Source: https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html (2026-11)
REFUSED_ZONE_ID: Mapping[str, str] = MappingProxyType(
    {"us-east-1": "use1-az3", "us-west-1": "usw1-az2", "ca-central-1": "cac1-az3"}
)
# Two of the others, which offer GPUs as regions.json has it; in us-west-1 there are no more.
ACCEPTED_ZONE_IDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "us-east-1": ("use1-az4", "use1-az6"),
        "us-west-1": ("usw1-az1", "usw1-az3"),
        "ca-central-1": ("cac1-az1", "cac1-az2"),
    }
)


@cache
def _document() -> dict[str, Any]:
    text = read_package_data("gpu_facts.hardware", "regions.json").decode()
    return dict(json.loads(text))


def offerings_date() -> str:
    """Return the day on which the offerings were read, ISO 8601."""
    return str(_document()["as_of"])


def known_regions() -> tuple[str, ...]:
    """Return every region of every partition."""
    return tuple(_document()["regions"])


@cache
def zones_by_region(instance_type: str) -> Mapping[str, tuple[str, ...]]:
    """Return the ids of the zones where a type was seen, such as ``use1-az6``, by region; none where none is known."""
    begins = _document()["zone_ids_begin_with"]
    where = _document()["types"].get(instance_type, {})
    return MappingProxyType({region: tuple(begins[region] + each for each in zones) for region, zones in where.items()})


def is_in_every_zone(instance_type: str, region: str) -> bool:
    """Whether a type was seen in each zone of a region in which any was."""
    every = {zone for each in _document()["types"] for zone in zones_by_region(each).get(region, ())}
    return bool(every) and every == set(zones_by_region(instance_type).get(region, ()))


def zone_id_region(prefix: str) -> str | None:
    """Return the region whose zones have ids of a beginning such as ``use1-az``, ``None`` where none is known."""
    begins: Mapping[str, str] = _document()["zone_ids_begin_with"]
    return next((region for region, each in begins.items() if each == prefix), None)


def zone_id_prefix(region: str | None) -> str | None:
    """Return what the ids of a region's zones begin with, such as ``use1-az``; ``None`` where it was not read."""
    begins: Mapping[str, str] = _document()["zone_ids_begin_with"]
    return begins.get(region or "")


def is_read(region: str) -> bool:
    """Whether it is known which zones a region has."""
    return region in _document()["last_zones"]


def last_zone(region: str | None) -> int:
    """Return the number of a region's last zone; of one that was not read, the most that any has."""
    last: Mapping[str, int] = _document()["last_zones"]
    return last.get(region or "") or max(last.values())


def is_unseen(instance_type: str, region: str | None) -> bool:
    """Whether a region was read and the type was not among what it offers; nothing is known of no region."""
    where = zones_by_region(instance_type)
    return bool(where) and region in _document()["zone_ids_begin_with"] and region not in where


def region_hint(region: str) -> str:
    """Return ``; did you mean 'us-east-1'?`` for a slip of a region's name, else nothing.

    A name that is made as those of regions are is no slip: it may be of a region that is newer than the list.
    """
    known = known_regions()
    swapped = [each for each in known if sorted(each) == sorted(region.lower())]
    if region in known or (_WELL_FORMED.fullmatch(region) and not swapped):
        return ""
    return did_you_mean(region, swapped or known, closeness=0.75)


def region_partition(region: str) -> str | None:
    """Return the partition of a region, ``None`` where the region is newer than what is known of their names."""
    return next((name for name, regions in _PARTITIONS.items() if regions.fullmatch(region)), None)


def refuse_misspelt_region(who: object, region: str) -> None:
    """Refuse a name that is nearly one of a region; others may be regions that are newer than the list.

    Raises:
        ValueError: There is no such region.
    """
    if hint := region_hint(region):
        raise ValueError(f"{who}: region must be one of AWS, got {region!r}{hint}")


def refuse_unless_region(who: object, argument: str, region: object) -> None:
    """Refuse what is no name of a region, or nearly one of a region that is known.

    Raises:
        ValueError: ``region`` is none.
    """
    if isinstance(region, str) and is_token(region):
        return
    hint = region_hint(region) if isinstance(region, str) else ""
    if hint or not isinstance(region, str) or not _REGION.fullmatch(region):
        raise ValueError(f"{who}: {argument} must be one such as 'us-east-1', got {region!r}{hint}")


def is_reservation_id(text: str) -> bool:
    """Whether EC2 could have given this id to a Capacity Reservation or Capacity Block."""
    return _ID.fullmatch(text) is not None


@lru_cache(maxsize=4096)
def _distance_past_last(zone: str) -> int:
    """Return how far a zone is beyond the last one of its region that was seen; nothing of what is no name of one."""
    if (named := _NAME.fullmatch(zone)) and region_partition(named[1]) is not None:
        return ord(named[2]) - ord("a") + 1 - last_zone(named[1])
    if (numbered := _ZONE_ID.fullmatch(zone)) and zone_id_region(numbered[1]) is not None:
        number = int(numbered[2])
        return number - last_zone(zone_id_region(numbered[1])) if number else _NEVER
    return 0


def is_no_zone(zone: str) -> bool:
    """Whether there is certainly no zone of a name or an id: the older the list, the more may be newer than it."""
    beyond = _distance_past_last(zone)
    return beyond > 1 and beyond > 1 + (today() - date.fromisoformat(offerings_date())).days // _YEAR


def is_seen_zone(zone: str) -> bool:
    """Whether nothing speaks against a zone: it is no newer one than was read."""
    return _distance_past_last(zone) <= 0


def is_zone_name(text: str) -> bool:
    """Whether a text is made as names of zones are, Local and Wavelength Zones included."""
    return bool(_ANY_NAME.fullmatch(text))


def is_elsewhere(zone: str, region: str | None) -> bool:
    """Whether a name or an id is one of a zone of another region; nothing is known of no region."""
    if region is None:
        return False
    if is_zone_name(zone):
        return not zone.startswith(region)
    begins = zone_id_prefix(region)
    return begins is not None and bool(_ANY_ID.fullmatch(zone)) and not zone.startswith(begins.removesuffix("az"))


def last_letter(zone: str) -> str:
    """Return which zones the region of a name had, where the name is beyond them, else nothing."""
    named = _NAME.fullmatch(zone)
    if named is None or is_seen_zone(zone):
        return ""
    last = chr(ord("a") + last_zone(named[1]) - 1)
    return f"; {named[1]} had zones a to {last} on {offerings_date()}" if is_read(named[1]) else ""


@cache
def _document_prices() -> dict[str, Any]:
    return dict(json.loads(read_package_data("gpu_facts.hardware", "prices.json").decode()))


def prices_read() -> Mapping[str, str]:
    """Return source and date (``source``, ``as_of``) of the prices of GovCloud."""
    return {key: str(_document_prices()[key]) for key in ("source", "as_of")}


def usd_per_hour(row: InstanceType, region: str | None) -> float | None:
    """Return the on-demand list price in a region, US dollars an hour; ``None`` where there is none.

    Of a commercial region, and where no region is known, it is that of us-east-1.
    """
    if region is not None and region_partition(region) not in _IN_DOLLARS:
        return None
    own = _document_prices()["regions"].get(region)
    return row.usd_per_hour if own is None else own.get(row.name)


def price_text(price: float | None, listed: str | None) -> str:
    """Return a price as people say it, with the region whose list it is of."""
    if price is None:
        return "without a list price in US dollars"
    return f"{price:,.2f} USD an hour on demand, list price of {listed}"


def price_list(region: str | None) -> str:
    """Return the region whose list the price in a region is taken from."""
    return region if region is not None and region in _document_prices()["regions"] else _COMMERCIAL


@dataclass(frozen=True, kw_only=True, slots=True)
class Quota:
    """A quota of Service Quotas, service ``ec2``.

    Attributes:
        code: Its code, ``L-...``.
        name: Its name.
        quota_family: Family of the catalogue that it is for.
        purchase_option: How the instances are bought: ``on-demand`` or ``spot``.
        generations: Beginnings of the EC2 families that it is for; empty for all of the quota family.
    """

    code: str
    name: str
    quota_family: str
    purchase_option: str
    generations: tuple[str, ...] = ()

    def counts(self, row: InstanceType, capacity_type: str) -> bool:
        """Whether instances of a type, bought that way, count against it."""
        alike = (self.quota_family, self.purchase_option) == (row.quota_family, capacity_type)
        return alike and (not self.generations or row.family.startswith(self.generations))


# Source: https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html (2026-08-21).
# Of spot P6 no source says which one counts it.
QUOTAS = (
    Quota(
        code="L-DB2E81BA",
        name="Running On-Demand G and VT instances",
        quota_family="G and VT",
        purchase_option="on-demand",
    ),
    Quota(
        code="L-417A185B",
        name="Running On-Demand P instances",
        quota_family="P",
        purchase_option="on-demand",
    ),
    Quota(
        code="L-3819A6DF",
        name="All G and VT Spot Instance Requests",
        quota_family="G and VT",
        purchase_option="spot",
    ),
    Quota(
        code="L-7212CCBC",
        name="All P4, P3 and P2 Spot Instance Requests",
        quota_family="P",
        purchase_option="spot",
        generations=("p2", "p3", "p4"),
    ),
    Quota(
        code="L-C4BD4855",
        name="All P5 Spot Instance Requests",
        quota_family="P",
        purchase_option="spot",
        generations=("p5",),
    ),
)


def find_quota(row: InstanceType, capacity_type: str) -> Quota | None:
    """Return the quota that instances of a type count against; ``None`` where there is none or none is documented.

    Args:
        row: The instance type.
        capacity_type: ``on-demand``, ``spot``, ``reserved`` or ``capacity-block``.
    """
    return next((each for each in QUOTAS if each.counts(row, capacity_type)), None)

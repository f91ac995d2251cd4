"""Regions and zones: names, offers of NVIDIA types, reservations, prices and quotas.

The offers are the view of one account. There is no data for some regions: GovCloud, China, and the newest ones.

The name of a zone, such as ``us-east-1a``, ends with a letter. Its id, like ``use1-az1``, ends with a number. The
mapping of letters to numbers differs between accounts, and an account may see only some zones. No zone has a letter or
a number beyond the region's last one. AWS adds zones now and then. eu-west-2d was the last one.

Assumption, without a source: a region gains at most one zone a year.

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

# Patterns of the region names in a partition.
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
# Form of a region name: the part for its place on a continent.
_WELL_FORMED = regex(r"[a-z]{2,4}(-(gov|de|iso[a-z]?))?-(central|(north|south)?(east|west)|north|south)-\d")
# An EC2 id is a prefix and 17 letters and digits, or 8 in ids from before July 2018. AWS's documentation shows only ids
# with hexadecimal digits, but no source states this limit.
# Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/resource-ids.html
_ID = regex(r"cr-([0-9a-f]{17}|[0-9a-f]{8})")
# Local Zones and Wavelength Zones, such as us-west-2-lax-1a and use1-atl1-az1, have longer names. They aren't listed
# here.
_NAME = regex(r"([a-z]+(?:-[a-z]+)+-\d+)([a-z])")
_ZONE_ID = regex(r"([a-z]+\d+-az)(\d{1,3})")
# Including names of Local and Wavelength Zones.
_ANY_NAME = regex(r"[a-z]+(-[a-z]+)+-\d+([a-z]|-[a-z0-9-]+)")
_ANY_ID = regex(r"[a-z]+\d+-[a-z0-9-]+")
_YEAR = 365
# Zone numbers begin with 1.
_NEVER = 1000
# Partitions with prices in dollars. Others are in yuan or euro, which can't be added to dollars, or aren't public.
_IN_DOLLARS = ("aws", "aws-us-gov")
# Region whose prices are used for every commercial region.
_COMMERCIAL = "us-east-1"
# Hours of a month in the AWS Pricing Calculator and Infracost (2026-11).
HOURS_PER_MONTH: Final = 730
# Source: https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html (2026-11)
REFUSED_ZONE_ID: Mapping[str, str] = MappingProxyType(
    {"us-east-1": "use1-az3", "us-west-1": "usw1-az2", "ca-central-1": "cac1-az3"}
)
# Two other zones, which offer GPUs according to regions.json. us-west-1 has no more.
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
    """Return the date on which the offers were read, ISO 8601."""
    return str(_document()["as_of"])


def known_regions() -> tuple[str, ...]:
    """Return every region of every partition."""
    return tuple(_document()["regions"])


@cache
def zones_by_region(instance_type: str) -> Mapping[str, tuple[str, ...]]:
    """Return the ids of the zones that offer a type, such as ``use1-az6``, by region. Empty if no zone is known."""
    begins = _document()["zone_ids_begin_with"]
    where = _document()["types"].get(instance_type, {})
    return MappingProxyType({region: tuple(begins[region] + each for each in zones) for region, zones in where.items()})


def is_in_every_zone(instance_type: str, region: str) -> bool:
    """Whether every zone of a region offers a type, of the zones that offer any."""
    every = {zone for each in _document()["types"] for zone in zones_by_region(each).get(region, ())}
    return bool(every) and every == set(zones_by_region(instance_type).get(region, ()))


def _zone_id_region(prefix: str) -> str | None:
    """Return the region of a zone id prefix such as ``use1-az``, or ``None`` if it is unknown."""
    begins: Mapping[str, str] = _document()["zone_ids_begin_with"]
    return next((region for region, each in begins.items() if each == prefix), None)


def zone_id_prefix(region: str | None) -> str | None:
    """Return the prefix of the zone ids in a region, such as ``use1-az``, or ``None`` if it was not read."""
    begins: Mapping[str, str] = _document()["zone_ids_begin_with"]
    return begins.get(region or "")


def _is_read(region: str) -> bool:
    """Whether the zones of a region are known."""
    return region in _document()["last_zones"]


def _last_zone(region: str | None) -> int:
    """Return the number of a region's last zone, or the highest number of all regions if its zones weren't read."""
    last: Mapping[str, int] = _document()["last_zones"]
    return last.get(region or "") or max(last.values())


def is_unseen(instance_type: str, region: str | None) -> bool:
    """Whether the offers of a region were read and don't include the type. False without a region."""
    where = zones_by_region(instance_type)
    return bool(where) and region in _document()["zone_ids_begin_with"] and region not in where


def region_hint(region: str) -> str:
    """Return ``; did you mean 'us-east-1'?`` for a typo of a region's name, otherwise an empty string.

    A name in the form of region names isn't a typo, because it may be a region that is newer than the list.
    """
    known = known_regions()
    swapped = [each for each in known if sorted(each) == sorted(region.lower())]
    if region in known or (_WELL_FORMED.fullmatch(region) and not swapped):
        return ""
    return did_you_mean(region, swapped or known, closeness=0.75)


def region_partition(region: str) -> str | None:
    """Return the partition of a region, or ``None`` if its name has an unknown form."""
    return next((name for name, regions in _PARTITIONS.items() if regions.fullmatch(region)), None)


def refuse_misspelt_region(who: object, region: str) -> None:
    """Reject a name that is a typo of a region. Other names may be regions that are newer than the list.

    Raises:
        ValueError: The region doesn't exist.
    """
    if hint := region_hint(region):
        raise ValueError(f"{who}: region must be an AWS region, got {region!r}{hint}")


def refuse_unless_region(who: object, argument: str, region: object) -> None:
    """Reject a value that isn't a region name, or that is a typo of a known region.

    Raises:
        ValueError: ``region`` isn't a region.
    """
    if isinstance(region, str) and is_token(region):
        return
    hint = region_hint(region) if isinstance(region, str) else ""
    if hint or not isinstance(region, str) or not _REGION.fullmatch(region):
        raise ValueError(f"{who}: {argument} must be a region, got {region!r}{hint or '; write one such as us-east-1'}")


def is_reservation_id(text: str) -> bool:
    """Whether an id has the form of a Capacity Reservation or Capacity Block."""
    return _ID.fullmatch(text) is not None


@lru_cache(maxsize=4096)
def _distance_past_last(zone: str) -> int:
    """Return the distance of a zone from the last known one of its region, or 0 if it isn't a zone name."""
    if (named := _NAME.fullmatch(zone)) and region_partition(named[1]) is not None:
        return ord(named[2]) - ord("a") + 1 - _last_zone(named[1])
    if (numbered := _ZONE_ID.fullmatch(zone)) and _zone_id_region(numbered[1]) is not None:
        number = int(numbered[2])
        return number - _last_zone(_zone_id_region(numbered[1])) if number else _NEVER
    return 0


def is_no_zone(zone: str) -> bool:
    """Whether a zone with this name or id certainly doesn't exist. The older the list, the more zones may be newer."""
    beyond = _distance_past_last(zone)
    return beyond > 1 and beyond > 1 + (today() - date.fromisoformat(offerings_date())).days // _YEAR


def is_seen_zone(zone: str) -> bool:
    """Whether a zone may exist and isn't newer than the list."""
    return _distance_past_last(zone) <= 0


def is_zone_name(text: str) -> bool:
    """Whether a text has the form of a zone name, including Local and Wavelength Zones."""
    return bool(_ANY_NAME.fullmatch(text))


def is_elsewhere(zone: str, region: str | None) -> bool:
    """Whether a zone name or id is of another region. False without a region."""
    if region is None:
        return False
    if is_zone_name(zone):
        return not zone.startswith(region)
    begins = zone_id_prefix(region)
    return begins is not None and bool(_ANY_ID.fullmatch(zone)) and not zone.startswith(begins.removesuffix("az"))


def last_letter(zone: str) -> str:
    """Return a hint with the known zones of the region if the name is beyond them, otherwise an empty string."""
    named = _NAME.fullmatch(zone)
    if named is None or is_seen_zone(zone):
        return ""
    last = chr(ord("a") + _last_zone(named[1]) - 1)
    return f"; {named[1]} had zones a to {last} on {offerings_date()}" if _is_read(named[1]) else ""


@cache
def _document_prices() -> dict[str, Any]:
    return dict(json.loads(read_package_data("gpu_facts.hardware", "prices.json").decode()))


def prices_read() -> Mapping[str, str]:
    """Return source and date (``source``, ``as_of``) of the prices of GovCloud."""
    return {key: str(_document_prices()[key]) for key in ("source", "as_of")}


def usd_per_hour(row: InstanceType, region: str | None) -> float | None:
    """Return the on-demand list price in a region, US dollars an hour, or ``None`` if there is none.

    For a commercial region, and without a region, it is the price in us-east-1.
    """
    if region is not None and region_partition(region) not in _IN_DOLLARS:
        return None
    own = _document_prices()["regions"].get(region)
    return row.usd_per_hour if own is None else own.get(row.name)


def price_text(price: float | None, listed: str | None) -> str:
    """Return a price for messages, with the region of its price list."""
    if price is None:
        return "without a list price in US dollars"
    return f"{price:,.2f} USD an hour on demand, list price of {listed}"


def price_list(region: str | None) -> str:
    """Return the region of the price list for a region."""
    return region if region is not None and region in _document_prices()["regions"] else _COMMERCIAL


@dataclass(frozen=True, kw_only=True, slots=True)
class Quota:
    """A quota of Service Quotas, service ``ec2``.

    Attributes:
        code: Its code, ``L-...``.
        name: Its name.
        quota_family: Family of the catalogue that it is for.
        purchase_option: Purchase option of the instances: ``on-demand`` or ``spot``.
        generations: Prefixes of its EC2 families, or empty for the whole quota family.
    """

    code: str
    name: str
    quota_family: str
    purchase_option: str
    generations: tuple[str, ...] = ()

    def counts(self, row: InstanceType, capacity_type: str) -> bool:
        """Whether instances of a type with this purchase option count against it."""
        alike = (self.quota_family, self.purchase_option) == (row.quota_family, capacity_type)
        return alike and (not self.generations or row.family.startswith(self.generations))


# Source: https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html (2026-08-21).
# No source states which quota counts spot instances of P6.
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
    """Return the quota that instances of a type count against, or ``None`` if there is none or none is documented.

    Args:
        row: The instance type.
        capacity_type: ``on-demand``, ``spot``, ``reserved`` or ``capacity-block``.
    """
    return next((each for each in QUOTAS if each.counts(row, capacity_type)), None)

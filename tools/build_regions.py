"""Write where EC2 offers NVIDIA types into gpu_facts/hardware/regions.json, from moto's dump.

`make catalogue` runs it beside `build_catalogue`; a test fails if the committed file differs.
"""

from __future__ import annotations

import gzip
import json
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import boto3

from tools.build_catalogue import DUMP_AS_OF, HARDWARE, nvidia_rows, size_key

OUTPUT = HARDWARE / "regions.json"
OFFERINGS = "resources/instance_type_offerings"


def main() -> None:
    """Write the file."""
    OUTPUT.write_text(render())


def render() -> str:
    """Return the offerings as JSON text, one type a line."""
    head = {
        "source": f"moto {version('moto')} moto/ec2/{OFFERINGS} (EC2 DescribeInstanceTypeOfferings of one account); "
        f"botocore {version('botocore')} data/endpoints.json",
        "as_of": DUMP_AS_OF,
        "regions": named_by_botocore(),
        "zone_ids_begin_with": prefixes(),
        "last_zones": last_zones(),
    }
    found = offered()
    body = ",\n".join(f"    {json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found, key=size_key))
    return json.dumps(head, indent=2)[:-2] + ',\n  "types": {\n' + body + "\n  }\n}\n"


def named_by_botocore() -> list[str]:
    """Return every region that botocore names, of every partition."""
    session = boto3.session.Session()
    partitions = session.get_available_partitions()
    return sorted({each for partition in partitions for each in session.get_available_regions("ec2", partition)})


def read() -> list[str]:
    """Return the regions whose offerings are known."""
    folder = files("moto.ec2").joinpath(f"{OFFERINGS}/availability-zone-id")
    return sorted(each.name.removesuffix(".json.gz") for each in folder.iterdir())


def prefixes() -> dict[str, str]:
    """Return the prefix of a region's zone ids, before the one-digit number."""
    return {region: offering_rows(region)[0]["Location"][:-1] for region in read()}


def last_zones() -> dict[str, int]:
    """Return the highest zone number of each region. An account may not see all zones with lower numbers."""
    found = {}
    for region in read():
        letters = {each["Location"][-1] for each in offering_rows(region, "availability-zone")}
        numbers = {int(each["Location"][-1]) for each in offering_rows(region)}
        found[region] = max(ord(max(letters)) - ord("a") + 1, *numbers)
    return found


def offered() -> dict[str, dict[str, str]]:
    """Return the numbers of the zones that offer each type, by region."""
    types, begins = set(nvidia_rows()), prefixes()
    found: dict[str, dict[str, list[str]]] = {}
    for region in read():
        for row in offering_rows(region):
            if row["InstanceType"] in types:
                found.setdefault(row["InstanceType"], {}).setdefault(region, []).append(
                    row["Location"].removeprefix(begins[region])
                )
    return {name: {region: "".join(sorted(zones)) for region, zones in where.items()} for name, where in found.items()}


def offering_rows(region: str, place: str = "availability-zone-id") -> list[dict[str, Any]]:
    """Return moto's dump of one region, by the ids of its zones or by their names."""
    file = files("moto.ec2").joinpath(f"{OFFERINGS}/{place}/{region}.json.gz")
    return list(json.loads(gzip.decompress(file.read_bytes())))


if __name__ == "__main__":
    main()

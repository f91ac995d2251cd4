"""Write the instance types of EC2 into gpu_facts/hardware, from moto's DescribeInstanceTypes dump.

`catalogue.json` has every NVIDIA type. `catalogue_facts` adds the facts that EC2 doesn't report. `plain_types.json` has
the sizes of every family without GPUs. Run `make catalogue`; a test fails if a committed file differs.
"""

from __future__ import annotations

import gzip
import json
import re
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import boto3

from tools import catalogue_facts as facts

HARDWARE = Path(__file__).parents[1] / "gpu_facts" / "hardware"
OUTPUT = HARDWARE / "catalogue.json"
PLAIN_OUTPUT = HARDWARE / "plain_types.json"
DUMP = "resources/instance_types.json.gz"
# The day moto 5.2.5 refreshed its dump (getmoto/moto, instance_types.json.gz).
DUMP_AS_OF = "2026-08-02"
# botocore still names it, and it had GPUs.
GONE = {"cg1.4xlarge"}
SMALL = ("nano", "micro", "small", "medium", "large")


def main() -> None:
    """Write both files."""
    OUTPUT.write_text(render())
    PLAIN_OUTPUT.write_text(render_plain())


def render() -> str:
    """Return the catalogue as JSON text, one type per line so that a change reads as one line in a diff."""
    types = {name: describe(name, row) for name, row in nvidia_rows().items()}
    types |= {name: complete(name, row) for name, row in facts.BY_HAND.items()}
    head = {"columns": columns(), "retired": retired()}
    body = ",\n".join(f"    {json.dumps(name)}: {json.dumps(types[name])}" for name in sorted(types, key=size_key))
    return json.dumps(head, indent=2)[:-2] + ',\n  "types": {\n' + body + "\n  }\n}\n"


def render_plain() -> str:
    """Return sizes of each family without GPUs, with the max pods of each size, as JSON text with one family a line."""
    head = {
        "source": f"moto {version('moto')} moto/ec2/{DUMP} (EC2 DescribeInstanceTypes); botocore {version('botocore')}",
        "as_of": DUMP_AS_OF,
        "gpu_series": sorted({series(name) for name in nvidia_rows()}),
    }
    found = plain_families()
    body = ",\n".join(f"    {json.dumps(family)}: {json.dumps(found[family])}" for family in sorted(found))
    return json.dumps(head, indent=2)[:-2] + ',\n  "families": {\n' + body + "\n  }\n}\n"


def plain_families() -> dict[str, dict[str, int | None]]:
    """Return the max pods of each size of each family without GPUs; unknown for types that only botocore lists."""
    gpu_series, rows = {series(name) for name in nvidia_rows()}, all_rows()
    found: dict[str, dict[str, int | None]] = {}
    for name in sorted({*rows, *named_by_botocore()} - GONE, key=size_key):
        if series(name) not in gpu_series:
            family, size = name.split(".")
            found.setdefault(family, {})[size] = most_pods(rows[name]) if name in rows else None
    return found


def most_pods(row: dict[str, Any]) -> int:
    """Return the max pods of a node whose pods have addresses of its network interfaces.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/choosing-instance-type.html
    """
    network = row["NetworkInfo"]
    return int(network["MaximumNetworkInterfaces"] * (network["Ipv4AddressesPerInterface"] - 1) + 2)


def named_by_botocore() -> set[str]:
    """Return every type in the EC2 API's enumeration, for all regions."""
    client = boto3.client("ec2", region_name="us-east-1")
    return set(client.meta.service_model.shape_for("InstanceType").enum)


def series(name: str) -> str:
    """Return the letters that a family begins with."""
    found = re.match("[a-z]+", name)
    return found[0] if found else ""


def all_rows() -> dict[str, dict[str, Any]]:
    """Return moto's dump."""
    return dict(json.loads(gzip.decompress(files("moto.ec2").joinpath(DUMP).read_bytes())))


def nvidia_rows() -> dict[str, dict[str, Any]]:
    """Return the rows of moto's dump that have an NVIDIA GPU."""
    rows = all_rows()
    return {name: row for name, row in rows.items() if any(gpu["Manufacturer"] == "NVIDIA" for gpu in gpu_entries(row))}


def gpu_entries(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the GPU entries of one row of the dump."""
    return list(row.get("GpuInfo", {}).get("Gpus", []))


def describe(name: str, row: dict[str, Any]) -> dict[str, Any]:
    """Turn one row of the dump into one of the catalogue."""
    [gpu] = gpu_entries(row)
    [architecture] = row["ProcessorInfo"]["SupportedArchitectures"]
    disks = row.get("InstanceStorageInfo", {}).get("Disks", [{"Count": 0, "SizeInGB": 0}])
    network = row["NetworkInfo"]
    return complete(
        name,
        {
            "architecture": architecture,
            "gpu_model": gpu["Name"],
            # EC2 counts a fractional GPU (g6f, gr6f) as 0; the device plugin advertises 1.
            "gpus": gpu.get("LogicalGpuCount", gpu["Count"]),
            "ec2_gpus": gpu["Count"],
            "gpu_memory_mib": gpu["MemoryInfo"]["SizeInMiB"],
            "vcpus": row["VCpuInfo"]["DefaultVCpus"],
            "memory_mib": row["MemoryInfo"]["SizeInMiB"],
            "nvme_disks": sum(disk["Count"] for disk in disks),
            "nvme_disk_gb": disks[0]["SizeInGB"],
            "network_cards": [network_card(card) for card in network["NetworkCards"]],
            "max_efa": network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
            "ipv4_per_interface": network["Ipv4AddressesPerInterface"],
            "ebs_mb_per_second": row["EbsInfo"]["EbsOptimizedInfo"]["MaximumThroughputInMBps"],
            "purchase_options": sorted(row["SupportedUsageClasses"]),
            "ultraserver_only": False,
        },
    )


def network_card(card: dict[str, Any]) -> dict[str, Any]:
    """Return the properties of a network card that a launch template needs."""
    return {
        "index": card["NetworkCardIndex"],
        "interfaces": card["MaximumNetworkInterfaces"],
        "types": card.get("InterfaceTypes", ["interface"]),
    }


def complete(name: str, row: dict[str, Any]) -> dict[str, Any]:
    """Add the facts that EC2 does not report."""
    family = name.split(".")[0]
    model = row["gpu_model"]
    return row | {
        "accelerator_label": facts.ACCELERATOR_LABELS.get(model, f"nvidia-{model.lower().replace(' ', '-')}"),
        "quota_family": "P" if family.startswith("p") else "G and VT",
        "mig": family in facts.MIG_FAMILIES,
        "nvswitch": name in facts.NVSWITCH_TYPES,
        "driver_min": facts.DRIVER_MIN.get(family),
        "driver_max": facts.DRIVER_MAX.get(family),
        "usd_per_hour": facts.USD_PER_HOUR.get(name),
        "without_price": facts.WITHOUT_PRICE.get(name),
    }


def columns() -> dict[str, dict[str, str]]:
    """Return source and date of every column."""
    dump = {
        "source": f"moto {version('moto')} moto/ec2/{DUMP} (EC2 DescribeInstanceTypes)",
        "as_of": DUMP_AS_OF,
    }
    stated = facts.COLUMNS | {"usd_per_hour": facts.PRICE_SOURCE, "without_price": facts.PRICE_SOURCE}
    reported = {column: dump for column in describe_columns() if column not in stated}
    return dict(sorted((reported | stated).items()))


def describe_columns() -> set[str]:
    """Return the names of the columns of one row."""
    name, row = next(iter(nvidia_rows().items()))
    return set(describe(name, row))


def retired() -> dict[str, dict[str, str]]:
    """Return the retired types, by exact name."""
    return {f"{family}.{size}": why for family, why in facts.RETIRED.items() for size in facts.RETIRED_SIZES[family]}


def size_key(name: str) -> tuple[str, int, str]:
    """Sort types by family, then size."""
    family, size = name.split(".")
    number = int("".join(digit for digit in size if digit.isdigit()) or 1)
    small = SMALL.index(size) - len(SMALL) + 1 if size in SMALL else 1000
    return family, number if "xlarge" in size else small, size


if __name__ == "__main__":
    main()

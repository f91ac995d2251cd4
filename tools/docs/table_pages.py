"""Pages of the command line, the JSON schema, the instance catalogue and the pinned versions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import groupby
from typing import Any

import click

from gpu_facts import versions
from gpu_facts.hardware import regions
from gpu_facts.hardware.catalogue import InstanceType, catalogue, columns, retired
from gpu_preflight.command_line.cli import cli
from gpu_preflight.report.schema import schema
from tools.docs.markdown import Pages, fenced, linked_source, table

_UNKNOWN = "?"
_COLUMNS = ("type", "GPUs", "GPU memory", "vCPUs", "memory", "NVMe", "EFA", "CPU", "sold as", "USD per hour")


def table_pages() -> Pages:
    """Return the pages."""
    return {
        "reference/cli.md": _command_page(),
        "reference/schema.md": _schema_page(),
        "reference/instances.md": _instance_page(),
        "reference/versions.md": _version_page(),
    }


def _command_page() -> str:
    settings = cli.context_settings
    root = click.Context(cli, info_name="gpu-constructs", **settings)
    parts = [
        "# Command line\n",
        "`gpu-constructs` reads files and needs no AWS account. `gpu-constructs COMMAND --help` prints these texts.\n",
        "[Inputs, output and exit codes](checker.md) has more about inputs and formats.\n",
        *_command(cli, root, "##"),
    ]
    for name in cli.list_commands(root):
        command = cli.get_command(root, name)
        assert command is not None
        parts += _command(command, click.Context(command, info_name=name, parent=root, **settings), "##")
    return "\n".join(parts)


def _command(command: click.Command, context: click.Context, heading: str) -> Iterator[str]:
    yield f"{heading} {context.command_path}\n"
    yield fenced("text", f"{context.command_path} {' '.join(command.collect_usage_pieces(context))}")
    for paragraph in re.split(r"\n\s*\n", command.help or ""):
        yield f"{_escaped(' '.join(paragraph.split()))}\n"
    records = [
        record
        for parameter in command.get_params(context)
        if isinstance(parameter, click.Option) and (record := parameter.get_help_record(context)) is not None
    ]
    if records:
        yield "Options:\n"
        yield "\n".join(f"* `{names}`: {_escaped(text)}" for names, text in records) + "\n"


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


def _schema_page() -> str:
    document: Mapping[str, Any] = json.loads(schema())
    definitions: Mapping[str, Any] = document["$defs"]
    parts = [
        "# JSON schema\n",
        "`--format json` writes one object. `gpu-constructs schema` prints its schema, which this page lists.\n",
        f"{document['description'].rstrip('.')}. The value of `command` selects the object.\n",
    ]
    for name, each in definitions.items():
        parts.append(f"## {name}\n")
        if "description" in each:
            parts.append(f"{each['description']}\n")
        required = each.get("required", ())
        properties = each.get("properties", {})
        if not properties:
            parts.append(f"Type: {_type(each)}\n")
        lines = []
        for key, value in properties.items():
            optional = "" if key in required else ", optional"
            text = f": {value['description']}" if "description" in value else ""
            lines.append(f"* `{key}` ({_type(value)}{optional}){text}")
        if lines:
            parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _type(kind: Mapping[str, Any]) -> str:
    """Return a type as Markdown, with links to definitions."""
    if reference := kind.get("$ref"):
        name = reference.rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "const" in kind:
        return f"`{json.dumps(kind['const'])}`"
    if "enum" in kind:
        return ", ".join(f"`{json.dumps(each)}`" for each in kind["enum"])
    for key in ("oneOf", "anyOf"):
        if key in kind:
            return " or ".join(_type(each) for each in kind[key])
    if kind.get("type") == "array":
        return f"list of {_type(kind.get('items', {}))}"
    if kind.get("type") == "object" and isinstance(kind.get("additionalProperties"), dict):
        return f"object of {_type(kind['additionalProperties'])}"
    found = kind.get("type", "any value")
    return " or ".join(found) if isinstance(found, list) else str(found)


def _instance_page() -> str:
    rows = list(catalogue().values())
    parts = [
        "# Instance types\n",
        f"The catalogue has {len(rows)} EC2 instance types with NVIDIA GPUs. `?` means that no source states the value."
        " `gpu-constructs instances` searches the same catalogue.\n",
        "Prices are on-demand list prices of Linux in us-east-1, in USD per hour.\n",
    ]
    for family, found in groupby(rows, key=lambda row: row.family):
        parts.append(f"## {family}\n")
        cells = [_instance(row) for row in found]
        parts.append(
            table(
                _COLUMNS,
                cells,
            )
        )
    parts.append("## Regions\n\nThe regions in which EC2 offers a type, with the numbers of the zone ids.\n")
    parts.append(table(("type", "regions"), [[f"`{row.name}`", _regions(row.name)] for row in rows]))
    parts.append("## Retired types\n\nThe checker reports these types as [GPU004](rules/gpu004.md).\n")
    gone = [[f"`{name}`", each["reason"], each["successor"]] for name, each in retired().items()]
    parts.append(table(("type", "reason", "successor"), gone))
    parts.append("## Sources and dates\n")
    dated = [[f"`{name}`", each["source"], each["as_of"]] for name, each in columns().items()]
    dated.append(["regions", "EC2 DescribeInstanceTypeOfferings of one account", regions.offerings_date()])
    parts.append(table(("column", "source", "read on"), dated))
    return "\n".join(parts)


def _instance(row: InstanceType) -> list[str]:
    price = f"{row.usd_per_hour:g}" if row.usd_per_hour is not None else f"none: {row.without_price}"
    gpus = f"{row.gpus} x {row.gpu_model}" if row.ec2_gpus else f"part of 1 {row.gpu_model}"
    return [
        f"`{row.name}`",
        gpus,
        _gib(row.gpu_memory_gib),
        str(row.vcpus or _UNKNOWN),
        _gib(row.memory_gib),
        f"{row.nvme_gb} GB" if row.nvme_disks else "none",
        _UNKNOWN if row.max_efa is None else str(row.max_efa),
        row.architecture,
        ", ".join(row.purchase_options),
        price,
    ]


def _gib(gib: float | None) -> str:
    return _UNKNOWN if gib is None else f"{gib:.3g} GiB" if gib < 1000 else f"{gib:.0f} GiB"


def _regions(name: str) -> str:
    return ", ".join(
        f"{region} ({', '.join(zone.rpartition('az')[2] for zone in zones)})"
        for region, zones in regions.zones_by_region(name).items()
    )


def _version_page() -> str:
    pins = sorted({(_pinned_name(pin), pin.version, pin.source, pin.as_of) for pin in _pins(vars(versions))})
    minors = [
        [
            f"{minor}{' (default)' if minor == versions.DEFAULT_KUBERNETES else ''}",
            each.al2023.version,
            each.cluster_autoscaler.version if each.cluster_autoscaler else "none yet",
            f"{each.karpenter} or newer",
        ]
        for minor, each in versions.KUBERNETES.items()
    ]
    return "\n".join(
        [
            "# Pinned versions\n",
            "The constructs install these versions. `make stale` lists pins that are older than allowed.\n",
            "## Kubernetes\n",
            table(("version", "AL2023 image release", "cluster autoscaler", "Karpenter"), minors),
            "## Charts, images and releases\n",
            table(
                ("name", "version", "read on", "source"),
                [[f"`{name}`", f"`{version}`", day, linked_source(source)] for name, version, source, day in pins],
            ),
        ]
    )


def _pinned_name(pin: versions.Pin) -> str:
    if isinstance(pin, versions.Chart):
        return f"chart {pin.name}"
    return f"image {pin.repository}" if isinstance(pin, versions.Image) else "node image"


def _pins(value: object) -> Iterator[versions.Pin]:
    """Yield the pins in values, mappings and data classes."""
    if isinstance(value, versions.Pin):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _pins(each)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _pins(getattr(value, field.name))

"""The DaemonSets of a chart or add-on, with its version and values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_facts.light_patterns import regex
from gpu_facts.software import aws, device_plugin, gpu_operator, monitoring, no_daemon_sets, nvidia
from gpu_facts.software.model import DaemonSetSpec, KnownSoftware
from gpu_facts.software.resolve import resolve

CHARTS = (
    *device_plugin.CHARTS,
    *gpu_operator.CHARTS,
    *nvidia.CHARTS,
    *aws.CHARTS,
    *monitoring.CHARTS,
    *no_daemon_sets.CHARTS,
)
ADDONS = (*aws.ADDONS, *monitoring.ADDONS, *no_daemon_sets.ADDONS)

_NUMBER = regex(r"\d{1,9}")


def daemon_sets_of_chart(name: str, version: str | None, values: Mapping[str, Any]) -> tuple[DaemonSetSpec, ...] | None:
    """Return the DaemonSets that a Helm chart installs with some values.

    A version between two of a row is like them. Of one beyond a row the next lower one that was read is taken, or the
    lowest, and the answers are not exact. Nor are they where a value is not of the type it must have: its default is
    taken. Nothing that is passed raises.

    Args:
        name: Name of the chart, without repository.
        version: Version of the chart, ``None`` when it is not pinned.
        values: Values of the release, as far as they differ from the chart's.

    Returns:
        The DaemonSets that are on, possibly none; ``None`` when the chart, or what the values add, is unknown.
    """
    return _daemon_sets(CHARTS, name, version, values)


def daemon_sets_of_addon(
    name: str, version: str | None, configuration: Mapping[str, Any]
) -> tuple[DaemonSetSpec, ...] | None:
    """Return the DaemonSets that an EKS add-on installs with some configuration; otherwise as for a chart.

    Args:
        name: Name of the add-on.
        version: Version of the add-on, such as ``v1.23.0-eksbuild.1``, ``None`` when it is not pinned.
        configuration: Its configuration values, parsed.

    Returns:
        The DaemonSets that are on, possibly none; ``None`` when the add-on is unknown.
    """
    return _daemon_sets(ADDONS, name, version, configuration)


def _daemon_sets(
    table: tuple[KnownSoftware, ...], name: object, version: object, values: object
) -> tuple[DaemonSetSpec, ...] | None:
    rows = [each for each in table if each.name == name]
    if not rows:
        return None
    wanted = _numbers(_without_build(version)) if isinstance(version, str) else ()
    row = _row(rows, wanted)
    read = sorted(map(_numbers, row.versions))
    return resolve(row, values, version_was_read=not read or bool(wanted and read[0] <= wanted <= read[-1]))


def _without_build(version: str) -> str:
    return version.removeprefix("v").split("-eksbuild.")[0]


def _row(rows: list[KnownSoftware], wanted: tuple[int, ...]) -> KnownSoftware:
    """Return the row that begins nearest below a version; without a version, the first."""
    if not wanted or not all(each.versions for each in rows):
        return rows[0]
    begun = [each for each in rows if _begins(each) <= wanted]
    return max(begun, key=_begins) if begun else min(rows, key=_begins)


def _begins(row: KnownSoftware) -> tuple[int, ...]:
    return min(map(_numbers, row.versions))


def _numbers(version: str) -> tuple[int, ...]:
    found = [int(each) for each in _NUMBER.findall(version)[:3]]
    return tuple(found + [0] * (3 - len(found))) if found else ()

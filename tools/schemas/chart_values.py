"""Names of the values of pinned charts, from their default values.

None of the available charts has a ``values.schema.json``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from gpu_facts import versions
from tools.schemas.definitions import Missing
from tools.schemas.source import Source

# A folder of default values, named <chart>-<version>.yaml. A version prefix is for all versions with it.
FOLDER = "GPU_CONSTRUCTS_CHART_VALUES"


def read() -> Iterator[Source]:
    """Read the names of the values of each pinned chart whose default values are in the folder.

    Raises:
        Missing: No folder is configured.
    """
    folder = os.environ.get(FOLDER)
    if folder is None:
        raise Missing(f"values of charts: set {FOLDER} to a folder with them")
    newest = {each.name: each for each in versions.pinned_charts()}
    for name, pin in sorted(newest.items()):
        file = _file(Path(folder), name, pin.version.removeprefix("v"))
        if file is not None:
            # As safe as SafeLoader, and ten times as fast.
            values = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)
            yield Source(
                name=f"chart {name}",
                version=pin.version,
                url=pin.source,
                as_of=pin.as_of,
                kinds={f"chart/{name}": _names(values)},
                charts={name: pin.version.removeprefix("v")},
            )


def _file(folder: Path, name: str, version: str) -> Path | None:
    major, minor = version.partition(".")[0], version.rpartition(".")[0]
    known = [f"{name}{each}.yaml" for each in (f"-{version}", f"-v{version}", f"-{minor}", f"-{major}", "")]
    return next((folder / each for each in known if (folder / each).is_file()), None)


def _names(value: Any) -> dict[str, Any]:
    """Return the names below a value. An empty mapping or a list allows any names."""
    if not isinstance(value, dict) or not value:
        return {}
    return {"properties": {str(key): _names(each) for key, each in value.items()}}

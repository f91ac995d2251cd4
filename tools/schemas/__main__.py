"""Write the schemas of services into one file of the package; `make schemas`.

Definitions come from Go modules. GPU_CONSTRUCTS_CRDS names a folder for definitions that no module proxy has,
GPU_CONSTRUCTS_SCHEMAS one with the schemas of eksctl and nodeadm, GPU_CONSTRUCTS_CHART_VALUES one with the default
values of charts.
"""

from __future__ import annotations

import io
import json
import sys
import zipfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from tools.schemas import chart_values, cloudformation, definitions, eksctl, kubernetes, nodeadm
from tools.schemas.reduce import pack
from tools.schemas.source import Source

FILE = Path(__file__).parents[2] / "gpu_facts" / "schemas" / "schemas.zip"
INDEX = "index.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)


def main() -> None:
    """Write the file, or report the missing source."""
    try:
        sources = read()
    except definitions.Missing as error:
        sys.exit(f"schemas: {error}")
    FILE.write_bytes(archive(sources))
    kinds = sum(len(each.kinds) for each in sources)
    print(f"schemas: {kinds} kinds of {len(sources)} sources, {FILE.stat().st_size:,} bytes")


def read() -> list[Source]:
    """Read every source.

    Raises:
        Missing: A source isn't available.
    """
    return [source for read in readers().values() for source in read()]


def readers() -> dict[str, Callable[[], Iterable[Source]]]:
    """Return the readers of the sources, by name. Each raises `Missing` if its source isn't available."""
    own = kubernetes.read()
    metadata = kubernetes.metadata(own)
    return {
        "CloudFormation": lambda: [cloudformation.read()],
        "Kubernetes": lambda: [own],
        **{each.name: partial(_project_source, each, metadata) for each in definitions.PROJECTS},
        "eksctl": lambda: [eksctl.read()],
        "nodeadm": lambda: [nodeadm.read()],
        "values of charts": chart_values.read,
    }


def _project_source(project: definitions.Project, metadata: Any) -> list[Source]:
    return [definitions.read(project, metadata)]


def archive(sources: Iterable[Source]) -> bytes:
    """Return an archive with a file for each source, which is read when one of its kinds is checked."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as written:
        for name, text in texts(sources).items():
            info = zipfile.ZipInfo(name, _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            written.writestr(info, text)
    return target.getvalue()


def texts(sources: Iterable[Source]) -> dict[str, str]:
    """Return the files of the archive. The output is deterministic."""
    listed = list(sources)
    index = [
        {
            "name": each.name,
            "version": each.version,
            "source": each.url,
            "as_of": each.as_of,
            "charts": dict(each.charts),
            "deprecated": sorted(each.deprecated),
            "rules": each.rules,
            "kinds": sorted(each.kinds),
        }
        for each in listed
    ]
    return {INDEX: json.dumps(index, indent=1)} | {each.name: pack(each.kinds) for each in listed}


if __name__ == "__main__":
    main()

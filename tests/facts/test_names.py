"""A label, resource, chart or add-on that two modules know is named in `facts`, and nowhere else."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from gpu_facts import charts, kubernetes, labels, resources, storage
from tests.conftest import ROOT

MODULES = {Path(str(each.__file__)): each for each in (charts, kubernetes, labels, resources, storage)}
NAMES = {
    value: f"{module.__name__}.{name}"
    for module in MODULES.values()
    for name, value in vars(module).items()
    # Deployment types and versions of Lustre file systems aren't names of this library.
    if name.isupper() and isinstance(value, str) and not name.startswith("LUSTRE_")
}
ANY_NAME = re.compile("|".join(map(re.escape, sorted(NAMES))))
# Files with images, some of which have the name of their chart.
IMAGES = "gpu_facts/software/images_of_charts.py"
# Words that mean something else elsewhere, which a type of literals knows: where they may be written.
ALLOWED = {
    charts.KARPENTER: ("",),  # a kind of pools and of autoscalers
    charts.CLUSTER_AUTOSCALER: ("",),  # a kind of autoscalers
    charts.KEDA: (IMAGES,),
    charts.DRA_DRIVER: (IMAGES,),
    charts.GPU_OPERATOR: (
        "gpu_constructs/pools/",
        "gpu_constructs/devices/gpu_operator.py",
        IMAGES,
    ),  # a manager of devices, which a shape names
    resources.DISK: (
        "gpu_constructs/nodes/user_data.py",
        "gpu_preflight/node/instance_types.py",
    ),  # a command of Bottlerocket
}


def literals(path: Path) -> Iterator[tuple[int, str]]:
    """Return the string literals of a module with their lines, without docstrings and the texts of f-strings."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    apart = {id(part) for each in nodes if isinstance(each, ast.JoinedStr) for part in each.values}
    apart |= {id(each.value) for each in nodes if isinstance(each, ast.Expr)}
    for each in nodes:
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in apart:
            yield each.lineno, each.value


SIMULATORS = ("aws", "cloudformation", "cluster", "credentials.py", "internet.py", "processes.py")


@cache
def written() -> list[tuple[str, int, str]]:
    """Return where names are written that the facts define: file, line, name."""
    return [
        (path.relative_to(ROOT).as_posix(), line, text)
        for path in sorted(set(ROOT.glob("gpu_*/**/*.py")) - set(MODULES))
        # Simulators may not know what the library knows.
        if not any(path.is_relative_to(ROOT / "gpu_rehearsal" / each) for each in SIMULATORS)
        # A file without any of the names need not be parsed.
        if ANY_NAME.search(path.read_text())
        for line, text in literals(path)
        if text in NAMES
    ]


def test_a_name_of_facts_is_written_nowhere_else() -> None:
    assert [
        f"{file}:{line}: take {NAMES[name]} for {name!r}"
        for file, line, name in written()
        if not file.startswith(ALLOWED.get(name, ()))
    ] == []


def test_what_may_be_written_elsewhere_is() -> None:
    assert {
        (name, place) for file, _, name in written() for place in ALLOWED.get(name, ()) if file.startswith(place)
    } == {(name, place) for name, places in ALLOWED.items() for place in places}


def test_a_name_stands_in_facts_once() -> None:
    said = Counter(text for path in MODULES for _, text in literals(path) if text in NAMES)

    assert [name for name, times in said.items() if times > 1] == []

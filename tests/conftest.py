"""Shared by the tests: the deployed flags, readable snapshots, work that one process does for all."""

from __future__ import annotations

import gc
import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# Before aws_cdk is imported: CDK's own validator costs a second a process and 20 ms to 1 s a template. One test
# of each stack and `make synth` keep it on.
os.environ["CDK_VALIDATION"] = "false"
# The day for which the checker checks: 2026-11-21.
os.environ["SOURCE_DATE_EPOCH"] = "1795219200"
os.environ.pop("NO_COLOR", None)
os.environ.pop("FORCE_COLOR", None)

import hypothesis
import pytest
import yaml
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from tests.distribution import Scheduling, import_in_turn, longest_first, send_results_only
from tests.once import Once

# Tests read files of upstream with `yaml.safe_load`, which takes ten times as long without libyaml. The library has a
# separate loader, which chooses for itself; `tests.without_libyaml` removes libyaml before this line.
yaml.SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # type: ignore[misc]

ROOT = Path(__file__).parents[1]
# The deployed flags, without copies of the functions and layers, which take a third of the time of a stack.
FLAGS = {**json.loads((ROOT / "cdk.json").read_text())["context"], "aws:cdk:disable-asset-staging": True}

# The base install is tested without the CDK (`make light`).
pytest_plugins = ["tests.cdk_fixtures", "tests.emitted"] if find_spec("aws_cdk") else []

# The same examples in every run, and no clock that a busy machine would fail by.
hypothesis.settings.register_profile(
    "suite", deadline=None, derandomize=True, database=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer to test with another version of the CDK than the pinned one (`make floor`)."""
    parser.addoption("--other-cdk", action="store_true", help="compare templates by types and logical ids only")


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Share the work of compiling a new checkout."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        import_in_turn(session.config.args, ROOT)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leave the collected tests, which last, out of garbage collection, and collect less often."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 50)
    send_results_only(session.config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave what asks for every pool there can be to `make lint`, and put the longest tests first.

    A process that is left with a long one at the end keeps the others waiting.
    """
    for each in items:
        if "tried" in getattr(each, "fixturenames", ()):
            each.add_marker("linted")
    longest_first(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Start a process more than there are cores: a tenth of the time, a test waits for a program or a limit of time."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling | None:
    """Share the tests out, unless the command line says how."""
    if config.getoption("dist") != "load":
        return None
    # It would sort by the number of tests.
    config.option.loadscopereorder = False
    return Scheduling(config, log)


class _WithoutAliases(yaml.SafeDumper):
    """Writes an object that is in two places twice."""

    def ignore_aliases(self, data: Any) -> bool:
        """Whether to write an object again."""
        return True


class _Yaml(SingleFileSnapshotExtension):
    """One YAML file a snapshot, keys in the order they are emitted."""

    _write_mode = WriteMode.TEXT
    file_extension = "yaml"

    def serialize(self, data: Any, **_: Any) -> str:
        if isinstance(data, list):
            return yaml.dump_all(data, Dumper=_WithoutAliases, sort_keys=False, width=120)
        return yaml.dump(data, Dumper=_WithoutAliases, sort_keys=False, width=120)


class _TypesAndIds(_Yaml):
    """The same file, of which only the types and logical ids of a template count."""

    def matches(self, *, serialized_data: Any, snapshot_data: Any) -> bool:
        written, kept = (list(yaml.safe_load_all(data)) for data in (serialized_data, snapshot_data))
        return [types_by_id(each) for each in written] == [types_by_id(each) for each in kept]


def types_by_id(content: Any) -> Any:
    """Return the type of each resource of a template; other content stays as it is."""
    resources = content.values() if isinstance(content, dict) else ()
    if not resources or not all(isinstance(each, dict) and "::" in str(each.get("Type")) for each in resources):
        return content
    return {id: each["Type"] for id, each in content.items()}


class _Text(SingleFileSnapshotExtension):
    """One text file a snapshot."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"

    def serialize(self, data: Any, **_: Any) -> str:
        return str(data)


@pytest.fixture
def snapshot_yaml(snapshot: SnapshotAssertion, request: pytest.FixtureRequest) -> SnapshotAssertion:
    """Compare with a YAML file; a list becomes one document each."""
    return snapshot.use_extension(_TypesAndIds if request.config.getoption("--other-cdk") else _Yaml)


@pytest.fixture
def snapshot_text(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    """Compare with a text file."""
    return snapshot.use_extension(_Text)


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """Work that one process does for all of a run."""
    folder = tmp_path_factory.getbasetemp()
    # pytest-xdist gives each of its processes a folder inside the run's folder.
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "once"
    folder.mkdir(exist_ok=True)
    return Once(folder)


@pytest.fixture(scope="session")
def crds() -> Path:
    """Folder of the CustomResourceDefinitions of the software we emit objects for."""
    return _folder_beside("GPU_CONSTRUCTS_CRDS", "crds")


@pytest.fixture(scope="session")
def chart_values() -> Path:
    """Folder of the default values of the pinned charts."""
    return _folder_beside("GPU_CONSTRUCTS_CHART_VALUES", "chart-values")


@pytest.fixture(scope="session")
def upstream_schemas() -> Path:
    """Folder of the schemas of nodeadm and of add-ons."""
    return _folder_beside("GPU_CONSTRUCTS_SCHEMAS", "upstream/schemas")


def _folder_beside(variable: str, name: str) -> Path:
    folder = Path(os.environ.get(variable, ROOT.parent / "shared" / name))
    if not folder.is_dir():
        pytest.skip(f"no {name}: set {variable} to a folder with the upstream files")
    return folder

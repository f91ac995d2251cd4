"""PyYAML without libyaml, as in a zipapp, reads what libyaml reads, refuses what it refuses and names the same line."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest
import yaml

from gpu_preflight import reading
from gpu_preflight.reading import documents, notation
from tests.conftest import ROOT

PREFLIGHT = ROOT / "tests" / "preflight"
CLUSTER = PREFLIGHT / "report" / "cluster.yaml"
PROGRAM = "import yaml; del yaml.CSafeLoader; from gpu_preflight.command_line.cli import main; main()"


@pytest.fixture(scope="module")
def pure() -> ModuleType:
    """The module of the documents, loaded once more where PyYAML has no libyaml."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(yaml, "CSafeLoader", raising=False)
        patch.delitem(sys.modules, notation.__name__)
        patch.setattr(reading, "notation", notation)
        spec = importlib.util.spec_from_file_location("documents_without_libyaml", str(documents.__file__))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        # Its dataclasses look their module up.
        patch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module", params=["libyaml", "pure"])
def reader(request: pytest.FixtureRequest, pure: ModuleType) -> ModuleType:
    """The module of the documents, with libyaml and without."""
    return {"libyaml": documents, "pure": pure}[request.param]


def contents(reader: ModuleType, text: str) -> list[Any]:
    return [each.content for each in reader.parse("a.yaml", text)]


def test_each_has_its_loader(pure: ModuleType) -> None:
    assert issubclass(pure.Loader, yaml.SafeLoader)
    assert issubclass(notation.Loader, getattr(yaml, "CSafeLoader", yaml.SafeLoader))


@pytest.mark.parametrize("folder", ["report", "rules/GPU010", "rules/GPU100", "rules/GPU200", "judging"])
def test_files_have_the_same_documents(pure: ModuleType, folder: str) -> None:
    files = sorted((PREFLIGHT / folder).glob("*.yaml"))

    assert files
    for file in files:
        assert contents(pure, file.read_text()) == contents(documents, file.read_text()), file


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("a: !Ref b\nc: !GetAtt d.e.f\n", {"a": {"Ref": "b"}, "c": {"Fn::GetAtt": ["d", "e.f"]}}),
        ("a: !Join ['', [b, !Sub c]]", {"a": {"Fn::Join": ["", ["b", {"Fn::Sub": "c"}]]}}),
        ("a: 2026-11-21\nb: 22:22\nc: 1_000\nd: 0x10\n", {"a": "2026-11-21", "b": "22:22", "c": 1000, "d": 16}),
        ("True: 1\n2: b\nno: no\n", {"true": 1, "2": "b", "false": False}),
        ("x: &x {a: 1, b: 2}\nz: {<<: *x, b: 3}\n", {"x": {"a": 1, "b": 2}, "z": {"a": 1, "b": 3}}),
        ("a: |\n  b\n  c\nd: >-\n  e\n  f\n", {"a": "b\nc\n", "d": "e f"}),
        ("{a: [1, 2.5, null, ~, 'x', \"\\u00e9\"]}", {"a": [1, 2.5, None, None, "x", "é"]}),
    ],
)
def test_reads(reader: ModuleType, text: str, content: Any) -> None:
    assert contents(reader, text) == [content]


def test_reads_several_documents(reader: ModuleType) -> None:
    assert contents(reader, "a: 1\n---\n---\nb: 2\n...\n") == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- " * 5_000 + "a", "must be nested at most 200 deep"),
        ("a: " + "[" * 201 + "]" * 201, "must be nested at most 200 deep"),
        ("a: &a [*a]", "an alias may contain itself"),
        ("a: &a\n  <<: *a\n  b: [*a]\n", "an alias may contain itself"),
        ("a: " + "9" * 101, "a number of more than 100 digits"),
        ("a: 1\n? [b]\n: 2\n", "a key must be a text in line 1"),
        ("a: 1\nb: !!set {c}\n", "tag tag:yaml.org,2002:set, which no manifest has in line 2"),
        ("a: 1\nb: !!python/none c\n", "in line 2"),
        ("a: 1\nb: c: d\n", "mapping values are not allowed"),
        ("a: 1\nb: *c\n", "found undefined alias"),
        ("a: 1\nb: [1\n", "expected"),
        ("a: 1\nb: @c\n", "cannot start any token in line 2"),
        ("<<: 1\n", "<< must merge mappings in line 1"),
    ],
)
def test_refuses(reader: ModuleType, text: str, message: str) -> None:
    with pytest.raises(reader.UnusableInput) as refused:
        contents(reader, text)

    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_takes_what_is_nested_as_deep_as_allowed(reader: ModuleType) -> None:
    depth = documents.MAX_DEPTH - 1

    assert len(contents(reader, "- " + "[" * depth + "]" * depth)) == 1


def test_refuses_too_many_values(reader: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_NODES", 100)

    assert contents(reader, "[" + "1," * 99 + "]")
    with pytest.raises(reader.UnusableInput, match="must have at most 100 values, got more"):
        contents(reader, "[" + "1," * 100 + "]")


def test_refuses_merges_of_merges(reader: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_NODES", 200)
    lines = ["a0: &a0 {b: 1, c: 2}", *(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 12))]

    with pytest.raises(reader.UnusableInput, match="<< merges too much in line"):
        contents(reader, "\n".join(lines))


@pytest.mark.parametrize("command", [("check", str(CLUSTER)), ("instances",), ("rules",), ("schema",)])
def test_commands_say_the_same(command: tuple[str, ...]) -> None:
    with_it = subprocess.run([sys.executable, "-m", "gpu_constructs", *command], capture_output=True, check=False)
    without = subprocess.run([sys.executable, "-c", PROGRAM, *command], capture_output=True, check=False)

    assert (without.returncode, without.stdout, without.stderr) == (
        with_it.returncode,
        with_it.stdout,
        with_it.stderr,
    )
    assert without.returncode in (0, 1)

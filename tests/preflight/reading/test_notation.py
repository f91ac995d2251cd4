"""YAML is read as kubectl and helm read it, and a template as CloudFormation does."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_preflight.reading.documents import UnusableInput, parse
from gpu_preflight.reading.notation import written
from tests.long import count
from tests.preflight.reading.programs import needs

HEAD = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nspec:\n"
WORDS = (
    *("y", "n", "Y", "N", "yes", "No", "on", "OFF", "true", "False", "yEs", "tRue", "~", "Null", "=", "nan"),
    *(
        "0777",
        "0o777",
        "0O17",
        "0888",
        "09",
        "017777777777777777777777",
        "0x1F",
        "0x_1f",
        "0xg",
        "0b101",
        "-0B11",
        "0b2",
    ),
    *("1:30", "22:22:22", "1_000", "1__0", "_1", "1_", "+12", "-0", "-017", "+0o7", "--1", "08.5", "0_7", "0_8"),
    *(
        "1e3",
        "1E3",
        "1.",
        "1.0",
        "1.30",
        "-.5",
        ".5",
        ".5_0",
        "._5",
        ".5e3",
        "1e400",
        "-1e-7",
        "1e+06",
        "1e",
        "1..2",
        ".",
    ),
    *("2020-01-01", "2001-12-14 21:59:43", "9223372036854775807", "18446744073709551616", "-9223372036854775809"),
    *(
        "123456789012345678901",
        "1e20",
        "1e21",
        "1234567.5",
        "16777217.0",
        "3.14159265358979",
        "500m",
        "1.5Gi",
        "a",
        "é",
    ),
    *("'y'", '"no"', "'1'", "!!str 5", "!!int '7'", "!!float 5", "!!bool yes", "!!binary aGVsbG8="),
)
KEYS = tuple(each for each in WORDS if each not in ("~", "Null")) + ("k", "l", "m") * 9


def lines(indent: int, depth: int) -> st.SearchStrategy[list[str]]:
    """Lines of a mapping, in which ``<<`` may stand anywhere."""
    space, word = " " * indent, st.sampled_from(WORDS)
    flat = st.builds("{}: {}".format, st.sampled_from(KEYS), word)
    listed = st.builds(
        lambda key, each: f"{key}: [{', '.join(each)}]", st.sampled_from(KEYS), st.lists(word, max_size=3)
    )
    merge = st.sampled_from(["<<: *base", "<<: [*other, *base]", "<<: {k: 7, y: 2}"])
    block = st.sampled_from(["k: |\n" + space + "  y\n", "l: >-\n" + space + "  1e3\n" + space + "  no\n"])
    row: st.SearchStrategy[list[str]] = st.one_of(flat, flat, listed, merge, block).map(lambda each: [space + each])
    if depth:
        inner = st.builds(
            lambda key, body: [f"{space}{key}:", *body], st.sampled_from(KEYS), lines(indent + 2, depth - 1)
        )
        row = st.one_of(row, row, inner)
    return st.lists(row, min_size=1, max_size=4).map(lambda rows: [line for each in rows for line in each])


BASES = "  base: &base {k: 1, 0o17: 2, on: 3}\n  other: &other {l: 1, k: 2}\n"
DOCUMENTS = lines(4, 2).map(lambda found: f"{HEAD}{BASES}  drawn:\n" + "\n".join(found) + "\n")


def by_json(value: Any) -> Any:
    """A value in which numbers that JSON does not tell apart are the same."""
    if isinstance(value, dict):
        return {key: by_json(each) for key, each in value.items()}
    if isinstance(value, list):
        return [by_json(each) for each in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def ours(text: str) -> Any:
    return by_json([each.content for each in parse("a.yaml", text)])


def of_kubectl(folder: Path, text: str) -> Any:
    """The manifest as kubectl reads it, without a cluster; ``None`` if kubectl rejects it."""
    (folder / "a.yaml").write_text(text, encoding="utf-8")
    command = [needs("kubectl"), "label", "--local", f"--filename={folder / 'a.yaml'}", "read=1", "--output=json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return None
    content = json.loads(done.stdout)
    del content["metadata"]["labels"]
    return by_json([content])


@settings(max_examples=count(20, 500), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(DOCUMENTS)
def test_kubectl_reads_the_same(tmp_path: Path, text: str) -> None:
    assert ours(text) == of_kubectl(tmp_path, text)


def test_each_word_is_to_kubectl_what_it_is_here(tmp_path: Path) -> None:
    rows = [f"  w{place}: {each}" for place, each in enumerate(WORDS)]
    text = HEAD + "\n".join(rows) + "\n"

    assert ours(text) == of_kubectl(tmp_path, text)


def test_each_word_is_to_kubectl_the_key_that_it_is_here(tmp_path: Path) -> None:
    rows = [f"  w{place}: {{{each}: 1}}" for place, each in enumerate(WORDS) if each in KEYS]
    text = HEAD + "\n".join(rows) + "\n"

    assert ours(text) == of_kubectl(tmp_path, text)


def test_helm_reads_values_the_same(tmp_path: Path) -> None:
    text = "".join(f"w{place}: {each}\n" for place, each in enumerate(WORDS)) + "n: 5\non: 1\n0777: 2\n"
    chart = {
        "Chart.yaml": "apiVersion: v2\nname: values\nversion: 0.1.0\n",
        "values.yaml": text,
        "templates/values.yaml": "values: {{ .Values | toJson }}\n",
    }
    (tmp_path / "templates").mkdir()
    for name, content in chart.items():
        (tmp_path / name).write_text(content, encoding="utf-8")

    done = subprocess.run([needs("helm"), "template", "a", str(tmp_path)], capture_output=True, text=True, check=True)

    [[content], [found]] = ours(text), ours(done.stdout)
    # Helm takes a key of nothing away.
    assert found["values"] == {key: each for key, each in content.items() if each is not None}


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("n: 5\n", {"false": 5}),
        ("data: {on: a, 'off': b}\n", {"data": {"true": "a", "off": "b"}}),
        ("x: &x {k: 2, l: 3}\nz: {k: 1, <<: *x}\n", {"x": {"k": 2, "l": 3}, "z": {"k": 2, "l": 3}}),
        ("x: &x {k: 2, l: 3}\nz: {<<: *x, k: 1}\n", {"x": {"k": 2, "l": 3}, "z": {"k": 1, "l": 3}}),
        ("a: 1e1\nb: 0o17\nc: 08\nd: 1:30\n", {"a": 10, "b": 15, "c": 8, "d": "1:30"}),
        ("\N{BYTE ORDER MARK}a: y\n", {"a": True}),
    ],
)
def test_reads(text: str, content: Any) -> None:
    assert [each.content for each in parse("a.yaml", text)] == [content]


def test_a_template_is_read_as_yaml_1_1_and_its_keys_are_texts() -> None:
    text = "Resources:\n  N:\n    Type: A\n    Properties: {y: n, on: yes, a: 1e3, b: 0o17, c: 010, d: 1:30}\n"

    [document] = parse("a.yaml", text)

    properties = {"y": "n", "on": True, "a": "1e3", "b": "0o17", "c": 8, "d": "1:30"}
    assert document.content == {"Resources": {"N": {"Type": "A", "Properties": properties}}}


def test_an_object_has_no_functions_of_cloudformation() -> None:
    [document] = parse("a.yaml", "kind: Thing\nspec: !Ref {a: !Sub b}\n")

    assert document.content == {"kind": "Thing", "spec": {"a": "b"}}


def test_a_merged_key_is_noted_as_repeated() -> None:
    text = "x: &x {k: 2}\nz:\n  k: 1\n  <<: *x\nw:\n  <<: *x\n  k: 1\n"

    [document] = parse("a.yaml", text)

    assert [(each.name, each.line, each.again) for each in document.repeated] == [("k", 3, 4)]


@pytest.mark.parametrize("word", ["!!int 1.5", "!!bool maybe", "!!null a", "!!float b", "!!binary a"])
def test_a_tag_that_a_value_does_not_have_is_refused(word: str) -> None:
    with pytest.raises(UnusableInput):
        list(parse("a.yaml", f"a: {word}\n"))


@pytest.mark.parametrize(
    "value",
    ["y", "n", "0o17", "1e3", "08", "1_0", ".5", "~", "", "null", "a: b", "-", "2020-01-01", 1, 1.5, True, None],
)
def test_what_is_written_is_read_back(value: Any) -> None:
    content = {"kind": "Thing", str(value): [value]}

    [document] = parse("a.yaml", written(content))

    assert document.content == content


def test_a_key_of_an_object_that_is_read_as_another_is_noted() -> None:
    text = "kind: Thing\nspec:\n  n: 1\n  'y': 2\n  0777: 3\n  8080: 4\n  ? on\n  : 5\n"

    [document] = parse("a.yaml", text)

    assert [(each.name, each.line, each.read_as) for each in document.repeated] == [
        ("n", 3, "false"),
        ("0777", 5, "511"),
        ("on", 7, "true"),
    ]


@pytest.mark.parametrize("text", ["n: 1\n", "Resources: {N: {Type: A, Properties: {n: 1}}}\n"])
def test_keys_of_what_is_no_object_are_not_noted(text: str) -> None:
    [document] = parse("a.yaml", text)

    assert document.repeated == ()

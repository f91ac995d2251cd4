"""Files that are huge, nested deep, or small and endless when walked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpu_preflight.reading.documents import MAX_DEPTH, MAX_FILE_BYTES, UnusableInput, parse, read
from tests.preflight.hostile.files import file_of, refusal
from tests.preflight.hostile.work import bytes_at_most


def test_refuses_a_huge_file_without_reading_it_all(tmp_path: Path) -> None:
    file = tmp_path / "huge.json"
    with file.open("wb") as stream:
        stream.truncate(1024**3)

    with bytes_at_most(4 * MAX_FILE_BYTES):
        assert "must be at most 16 MiB" in refusal(str(file))


def test_reads_the_largest_file_that_it_takes(tmp_path: Path) -> None:
    pod = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})

    documents = read(file_of(tmp_path, pod + " " * (MAX_FILE_BYTES - len(pod))))

    assert documents[0].content["kind"] == "Pod"


def test_refuses_one_byte_more(tmp_path: Path) -> None:
    assert "16 MiB" in refusal(file_of(tmp_path, "{}" + " " * (MAX_FILE_BYTES - 1)))


@pytest.mark.parametrize(
    "text", ["[" * 100_000 + "]" * 100_000, "[" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000]
)
@pytest.mark.parametrize("name", ["deep.json", "deep.yaml"])
def test_refuses_deep_brackets(tmp_path: Path, name: str, text: str) -> None:
    assert "deep" in refusal(file_of(tmp_path, text, name))


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 100_000,
        "- " * 100_000 + "a",
        "? " * 5_000 + "a",
        "\n".join(" " * each + "a:" for each in range(2_000)),
    ],
    ids=["flow", "sequences", "keys", "blocks"],
)
def test_refuses_deep_yaml_before_its_parser_crashes(tmp_path: Path, text: str) -> None:
    """The parser, libyaml 0.2.5, builds its tree by recursion and overflows the stack of the process."""
    assert "at most 200 deep" in refusal(file_of(tmp_path, text, "deep.yaml"))


def test_takes_what_is_nested_as_deep_as_allowed() -> None:
    text = "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1)

    assert len(list(parse("a.yaml", text))) == 1
    assert len(list(parse("a.yaml", f"- {text}"))) == 1


@pytest.mark.parametrize("start", ["", "- "])
def test_refuses_one_level_more(start: str) -> None:
    with pytest.raises(UnusableInput, match="at most 200 deep"):
        list(parse("a.yaml", start + "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)))


def nine_of_the_last(prefix: str) -> str:
    """Nineteen lines, each with nine aliases of the line before."""
    aliases = (",".join([f"*a{line - 1}"] * 9) for line in range(1, 20))
    return "".join(f"a{line}: &a{line}{prefix}[{each}]\n" for line, each in enumerate(aliases, 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a0: &a0 [lol]\n" + nine_of_the_last(" "), "at most 1,000,000 values"),
        ("a0: &a0 {a: 1}\n" + nine_of_the_last("\n  <<: "), "<< merges too much"),
        ("a: &a " + "x" * 1_000_000 + "\nb: [" + ",".join(["*a"] * 1000) + "]\n", "at most 64 Mi characters"),
        ("a: &a {" + "x" * 1000 + ": 1}\nb: [" + ",".join(["*a"] * 100_000) + "]\n", "at most 64 Mi characters"),
        ("a: &a [*a]\n", "an alias may contain itself"),
        ("a: &a {b: *a}\n", "an alias may contain itself"),
        ("- \n" * 1_100_000, "at most 1,000,000 values"),
    ],
    ids=["laughs", "merges", "long texts", "long keys", "cycle", "cycle of mappings", "empty values"],
)
def test_refuses_what_grows_when_it_is_walked(tmp_path: Path, text: str, message: str) -> None:
    assert message in refusal(file_of(tmp_path, text, "bomb.yaml"))


def test_takes_aliases_as_people_use_them() -> None:
    text = "x: &x {cpu: 1}\nlimits: *x\nmore:\n  <<: *x\n  memory: 2\n"

    [document] = parse("a.yaml", text)

    assert document.content == {"x": {"cpu": 1}, "limits": {"cpu": 1}, "more": {"cpu": 1, "memory": 2}}


def test_a_mapping_that_merges_itself_ends() -> None:
    [document] = parse("a.yaml", "a: &a\n  <<: *a\n  b: 1\n")

    assert document.content == {"a": {"b": 1}}


def test_a_list_may_have_more_values_than_one_object(tmp_path: Path) -> None:
    labels = dict.fromkeys("abcdefgh", "b")
    items = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"a{number}", "labels": labels}}
        for number in range(80_000)
    ]
    file = tmp_path / "list.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert file.stat().st_size < MAX_FILE_BYTES

    assert len(read(str(file))) == 80_000

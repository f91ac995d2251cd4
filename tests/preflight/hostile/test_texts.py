"""Bytes, tags, numbers, characters and keys that no manifest has."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_preflight.reading.documents import UnusableInput, parse
from tests.preflight.hostile.files import file_of, refusal


@pytest.mark.parametrize(
    "tag", ["!!python/object/apply:os.system", "!!python/name:os.system", "!!python/object/new:os.system"]
)
def test_never_runs_what_yaml_names(tmp_path: Path, tag: str) -> None:
    target = tmp_path / "made"

    refusal(file_of(tmp_path, f"a: {tag} ['touch {target}']\n", "a.yaml"))

    assert not target.exists()


def test_a_short_tag_names_an_intrinsic_and_runs_nothing(tmp_path: Path) -> None:
    target = tmp_path / "made"

    [document] = parse("a.yaml", f"a: !python/object/apply:os.system ['touch {target}']\n")

    assert list(document.content["a"]) == ["Fn::python/object/apply:os.system"]
    assert not target.exists()


@pytest.mark.parametrize(
    "tag", ["!!set {a, b}", "!!omap [a: 1]", "!!pairs [a: 1]", "!!int x", "!!float [1]", "!!bool maybe"]
)
def test_refuses_types_that_json_does_not_have(tag: str) -> None:
    with pytest.raises(UnusableInput):
        list(parse("a.yaml", f"a: {tag}\n"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", '{"a": ' + "9" * 5_000 + "}"),
        ("a.yaml", "a: " + "9" * 5_000),
        ("b.yaml", "a: 0x" + "f" * 100_000),
        ("c.yaml", "a: " + "9" * 101),
        ("b.json", '{"a": ' + "9" * 101 + "}"),
        ("c.json", '{"a": NaN}'),
        ("d.json", '{"a": -Infinity}'),
    ],
)
def test_refuses_numbers_that_are_none(tmp_path: Path, name: str, text: str) -> None:
    refusal(file_of(tmp_path, text, name))


@pytest.mark.parametrize(
    ("name", "text", "number"),
    # YAML uses Go's integers, with at most 64 bits.
    [("a.json", '{"a": ' + "9" * 100 + "}", int("9" * 100)), ("a.yaml", "a: " + "9" * 100, 1e100)],
)
def test_takes_numbers_that_are_only_large(name: str, text: str, number: float) -> None:
    [document] = parse(name, text)

    assert document.content == {"a": number}


@pytest.mark.parametrize("text", ["22:22", ":".join(["1"] * 200_000)], ids=["short", "long"])
def test_numbers_of_base_sixty_are_texts(text: str) -> None:
    [document] = parse("a.yaml", f"port: {text}\n")

    assert document.content == {"port": text}


@pytest.mark.parametrize("text", ['{"kind": "\\ud800"}', '{"\\udc00": 1}'])
def test_refuses_half_a_character(tmp_path: Path, text: str) -> None:
    assert "surrogates" in refusal(file_of(tmp_path, text))


def test_takes_a_character_of_two_halves() -> None:
    [document] = parse("a.json", '{"a": "\\ud83d\\ude00"}')

    assert document.content == {"a": "\U0001f600"}


@pytest.mark.parametrize(
    "data", [b"\x00", b"a: \x00b", b"\xff\xfe\x00a", b"\x7fELF\x02\x01", bytes(range(256)), b"", b"\xef\xbb\xbf"]
)
@pytest.mark.parametrize("name", ["a.yaml", "a.json"])
def test_refuses_bytes_that_are_no_text(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)

    refusal(str(tmp_path / name))


@pytest.mark.parametrize("path", ["a\0b", "a" * 5_000, "/nowhere/at/all", "a/\udc80"])
def test_refuses_what_is_no_path(path: str) -> None:
    refusal(path)


@pytest.mark.parametrize(
    ("name", "text"), [("a.json", '{"kind": "Pod", "kind": "Job"}'), ("a.yaml", "kind: Pod\nkind: Job\n")]
)
def test_the_last_of_two_equal_keys_counts(name: str, text: str) -> None:
    [document] = parse(name, text)

    assert document.content == {"kind": "Job"}


def test_keys_are_texts() -> None:
    [document] = parse("a.yaml", "1: a\ntrue: b\nnull: c\n2026-01-01: d\n")

    assert document.content == {"1": "a", "true": "b", "null": "c", "2026-01-01": "d"}


@pytest.mark.parametrize("key", ["[a]", "{a: b}", "? [a]\n"])
def test_refuses_keys_that_are_no_texts(tmp_path: Path, key: str) -> None:
    assert "a key must be a text" in refusal(file_of(tmp_path, f"kind: Pod\nspec: {{{key}: b}}\n", "a.yaml"))


def test_a_key_with_a_tag_is_its_text() -> None:
    [document] = parse("a.yaml", "kind: Pod\nspec: {!Ref A: b}\n")

    assert document.content == {"kind": "Pod", "spec": {"A": "b"}}

"""Whatever is given to preflight ends soon, in bounded memory, with an answer or with one line that refuses it."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gpu_constructs.preflight.judging.check import check
from gpu_constructs.preflight.judging.explain import explain
from gpu_constructs.preflight.reading.documents import MAX_DEPTH, MAX_FILE_BYTES, UnusableInput, parse, read
from gpu_constructs.preflight.reading.inputs import Input, read_input
from gpu_constructs.preflight.reading.unknown import Unknown
from gpu_constructs.preflight.reading.user_data import read_user_data
from tests.preflight.hostile import broken, judged, realistic, written

# Inputs of the suite; a long run is FUZZ=100000 pytest tests/preflight/test_hostile.py -k fuzz.
_FUZZED = int(os.environ.get("FUZZ", "300"))
_GROUP = {"Type": "AWS::EKS::Nodegroup", "Properties": {"ClusterName": "demo", "InstanceTypes": ["g6.xlarge"]}}


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail when the block takes longer; the bounds leave a slow machine ten times what was measured."""
    start = time.monotonic()
    yield
    assert time.monotonic() - start < seconds


def file_of(folder: Path, content: Any, name: str = "stack.template.json") -> str:
    file = folder / name
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(file)


def template(**parts: Any) -> dict[str, Any]:
    return {"Resources": {"Nodes": _GROUP}, **parts}


def valued(folder: Path, value: Any, **parts: Any) -> Any:
    """Return what the value of a label of a node group resolves to."""
    properties = {**_GROUP["Properties"], "Labels": {"value": value}}
    resources = {"Nodes": {"Type": "AWS::EKS::Nodegroup", "Properties": properties}}
    given = read_input([file_of(folder, {"Resources": resources, **parts})])
    return given.resources["stack/Nodes"].properties["Labels"]["value"]


def everything(path: str) -> Input | None:
    return judged(Path(path))


def refusal(path: str) -> str:
    with pytest.raises(UnusableInput) as refused:
        read_input([path])
    return str(refused.value)


def test_fuzz(tmp_path: Path) -> None:
    """Real templates and manifests with broken parts are judged or refused, never a crash."""
    documents = realistic()
    file = tmp_path / "broken.yaml"
    before: Input | None = None
    for seed in range(_FUZZED):
        random = Random(seed)
        written(broken(random, random.choice(documents)), file)
        try:
            given = judged(file, before)
        except Exception as error:
            error.add_note(f"seed {seed}") if hasattr(error, "add_note") else None
            raise
        before = given if given is not None and seed % 7 == 0 else before


def test_fuzz_torn_text(tmp_path: Path) -> None:
    """Files that end in the middle, or with bytes changed."""
    texts = [json.dumps(each).encode() for each in realistic()[::40]]
    for seed in range(_FUZZED // 2):
        random = Random(seed)
        data = bytearray(random.choice(texts))
        for _ in range(random.choice((0, 1, 4))):
            data[random.randrange(len(data))] = random.randrange(256)
        del data[random.randrange(len(data)) if random.random() < 0.5 else len(data) :]
        file = tmp_path / random.choice(("a.json", "a.yaml"))
        file.write_bytes(data)

        judged(file)


def test_refuses_a_huge_file_without_reading_it_all(tmp_path: Path) -> None:
    file = tmp_path / "huge.json"
    with file.open("wb") as stream:
        stream.truncate(100 * 1024**2)

    with within(2):
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
    with within(5):
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
    with within(5):
        refusal(file_of(tmp_path, text, "deep.yaml"))


def test_takes_what_is_nested_as_deep_as_allowed() -> None:
    text = "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1)

    assert len(list(parse("a.yaml", text))) == 1
    assert len(list(parse("a.yaml", f"- {text}"))) == 1


@pytest.mark.parametrize("start", ["", "- "])
def test_refuses_one_level_more(start: str) -> None:
    with pytest.raises(UnusableInput, match="at most 200 deep"):
        list(parse("a.yaml", start + "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)))


BOMBS = {
    "laughs": "a0: &a0 [lol]\n" + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 20)),
    "merges": "a0: &a0 {a: 1}\n"
    + "".join(f"a{n}: &a{n}\n  <<: [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 20)),
    "long texts": "a: &a " + "x" * 1_000_000 + "\nb: [" + ",".join(["*a"] * 1000) + "]\n",
    "long keys": "a: &a {" + "x" * 1000 + ": 1}\nb: [" + ",".join(["*a"] * 100_000) + "]\n",
    "cycle": "a: &a [*a]\n",
    "cycle of mappings": "a: &a {b: *a}\n",
    "empty values": "- \n" * 1_100_000,
}


@pytest.mark.parametrize("name", BOMBS)
def test_refuses_what_grows_when_it_is_walked(tmp_path: Path, name: str) -> None:
    with within(20):
        refusal(file_of(tmp_path, BOMBS[name], "bomb.yaml"))


def test_takes_aliases_as_people_use_them() -> None:
    text = "x: &x {cpu: 1}\nlimits: *x\nmore:\n  <<: *x\n  memory: 2\n"

    [document] = parse("a.yaml", text)

    assert document.content == {"x": {"cpu": 1}, "limits": {"cpu": 1}, "more": {"cpu": 1, "memory": 2}}


def test_a_mapping_that_merges_itself_ends() -> None:
    [document] = parse("a.yaml", "a: &a\n  <<: *a\n  b: 1\n")

    assert document.content == {"a": {"b": 1}}


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


@pytest.mark.parametrize(("name", "text"), [("a.json", '{"a": ' + "9" * 100 + "}"), ("a.yaml", "a: " + "9" * 100)])
def test_takes_numbers_that_are_only_large(name: str, text: str) -> None:
    [document] = parse(name, text)

    assert document.content == {"a": int("9" * 100)}


def test_numbers_of_base_sixty_are_texts() -> None:
    with within(2):
        [document] = parse("a.yaml", "port: 22:22\nlong: " + ":".join(["1"] * 200_000))

    assert document.content["port"] == "22:22"


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


def test_the_last_of_two_equal_keys_counts(tmp_path: Path) -> None:
    for name, text in (("a.json", '{"kind": "Pod", "kind": "Job"}'), ("a.yaml", "kind: Pod\nkind: Job\n")):
        [document] = parse(name, text)

        assert document.content == {"kind": "Job"}


def test_keys_are_texts(tmp_path: Path) -> None:
    [document] = parse("a.yaml", "1: a\ntrue: b\nnull: c\n2026-01-01: d\n")

    assert document.content == {"1": "a", "true": "b", "null": "c", "2026-01-01": "d"}


@pytest.mark.parametrize("key", ["[a]", "{a: b}", "!Ref A", "? [a]\n"])
def test_refuses_keys_that_are_none_or_judges_them_as_texts(tmp_path: Path, key: str) -> None:
    everything(file_of(tmp_path, f"apiVersion: v1\nkind: Pod\nspec: {{{key}: b}}\n", "a.yaml"))


# Assemblies


def assembly(folder: Path, artifacts: Any) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "manifest.json").write_text(json.dumps({"version": "1", "artifacts": artifacts}))
    return str(folder)


def stack_of(name: Any) -> dict[str, Any]:
    return {"S": {"type": "aws:cloudformation:stack", "properties": {"templateFile": name}}}


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc/passwd", "..", ".", "", None, 7, [], "a\0b", "a" * 5_000, "a/../../x"]
)
def test_refuses_an_assembly_that_names_files_outside(tmp_path: Path, name: Any) -> None:
    refusal(assembly(tmp_path / "out", stack_of(name)))


@pytest.mark.parametrize("name", ["../..", "/", ".", "a\0b", None])
def test_refuses_an_assembly_inside_that_lies_outside(tmp_path: Path, name: Any) -> None:
    inner = {"A": {"type": "cdk:cloud-assembly", "properties": {"directoryName": name}}}

    refusal(assembly(tmp_path / "out", inner))


@pytest.mark.parametrize("name", ["../secret.json", "/etc/passwd", "a\0b", 3])
def test_refuses_metadata_outside(tmp_path: Path, name: Any) -> None:
    artifact = {**stack_of("s.json")["S"], "additionalMetadataFile": name}
    path = assembly(tmp_path / "out", {"S": artifact})
    file_of(tmp_path / "out", template(), "s.json")

    refusal(path)


def test_refuses_a_link_out_of_an_assembly(tmp_path: Path) -> None:
    secret = file_of(tmp_path, template(), "secret.json")
    path = assembly(tmp_path / "out", stack_of("s.json"))
    (tmp_path / "out" / "s.json").symlink_to(secret)

    assert "of its own folder" in refusal(path)


def test_refuses_a_link_to_itself(tmp_path: Path) -> None:
    path = assembly(tmp_path / "out", stack_of("s.json"))
    (tmp_path / "out" / "s.json").symlink_to(tmp_path / "out" / "s.json")

    refusal(path)


@pytest.mark.parametrize("artifacts", [[], "x", None, {"S": []}, {"S": {"type": []}}, {"S": {"type": "cdk:tree"}}, {}])
def test_refuses_an_assembly_without_stacks(tmp_path: Path, artifacts: Any) -> None:
    refusal(assembly(tmp_path / "out", artifacts))


@pytest.mark.parametrize("content", ["", "{", "[]", "\0", "9" * 5_000, "[" * 100_000])
def test_a_manifest_that_cannot_be_read_makes_no_assembly(tmp_path: Path, content: str) -> None:
    file_of(tmp_path, content, "manifest.json")

    refusal(str(tmp_path))


def test_a_huge_manifest_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "manifest.json").open("wb") as stream:
        stream.truncate(100 * 1024**2)

    with within(2):
        refusal(str(tmp_path))


@pytest.mark.parametrize(
    "metadata", [[], "x", {"/S": 1}, {"/S": [1]}, {"/S": [{"type": "aws:cdk:logicalId", "data": []}]}]
)
def test_metadata_of_other_types_is_passed_over(tmp_path: Path, metadata: Any) -> None:
    path = assembly(tmp_path / "out", {"S": {**stack_of("s.json")["S"], "metadata": metadata}})
    file_of(tmp_path / "out", template(), "s.json")

    assert read_input([path]).resources


def nested(asset: Any) -> dict[str, Any]:
    return {
        "Type": "AWS::CloudFormation::Stack",
        "Properties": {"Parameters": {"P": {"Fn::GetAtt": ["Inner", "Outputs.O"]}}},
        "Metadata": {"aws:asset:path": asset},
    }


def test_refuses_a_template_nested_in_itself(tmp_path: Path) -> None:
    path = file_of(tmp_path, template(Resources={"Inner": nested("s.json")}), "s.json")

    assert "nested in itself" in refusal(path)


def test_refuses_templates_nested_in_each_other(tmp_path: Path) -> None:
    path = file_of(tmp_path, template(Resources={"Inner": nested("b.json")}), "a.json")
    file_of(tmp_path, template(Resources={"Inner": nested("a.json")}), "b.json")

    refusal(path)


def test_refuses_nested_templates_that_double(tmp_path: Path) -> None:
    for level in range(30):
        inner = {f"Inner{each}": nested(f"{level + 1}.json") for each in range(2)}
        file_of(tmp_path, template(Resources=inner), f"{level}.json")
    file_of(tmp_path, template(), "30.json")

    with within(20):
        assert "at most 1,000 templates" in refusal(str(tmp_path / "0.json"))


@pytest.mark.parametrize("asset", ["../x.json", "/etc/x.json", "a\0.json", "a" * 5_000 + ".json", "missing.json"])
def test_refuses_a_nested_template_outside(tmp_path: Path, asset: str) -> None:
    refusal(file_of(tmp_path, template(Resources={"Inner": nested(asset)})))


def test_a_nested_stack_that_feeds_itself_is_refused_or_judged(tmp_path: Path) -> None:
    path = file_of(tmp_path, template(Resources={"Nodes": _GROUP, "Inner": nested("inner.json")}), "a.json")
    file_of(
        tmp_path, template(Parameters={"P": {"Type": "String"}}, Outputs={"O": {"Value": {"Ref": "P"}}}), "inner.json"
    )

    everything(path)


# Intrinsics


def subs(levels: int, separator: str = "") -> Any:
    value: Any = "xx"
    for _ in range(levels):
        value = {"Fn::Sub": [f"${{A}}{separator}${{A}}", {"A": value}]}
    return value


def test_a_text_that_doubles_is_known_while_it_is_short(tmp_path: Path) -> None:
    assert valued(tmp_path, subs(10)) == "xx" * 2**10


def test_a_text_that_doubles_is_given_up_when_it_is_long(tmp_path: Path) -> None:
    with within(5):
        assert isinstance(valued(tmp_path, subs(60)), Unknown)


def test_two_texts_that_are_too_long_are_not_called_equal(tmp_path: Path) -> None:
    long = {"Fn::Join": ["", [subs(30), "a"]]}, {"Fn::Join": ["", [subs(30), "b"]]}
    chosen = {"Fn::If": ["Same", "yes", "no"]}

    assert isinstance(valued(tmp_path, chosen, Conditions={"Same": {"Fn::Equals": list(long)}}), Unknown)


def test_many_long_texts_end_in_bounded_memory(tmp_path: Path) -> None:
    joins = [{"Fn::Join": ["", [{"Ref": "Long"}, str(each)]]} for each in range(20_000)]
    parameters = {"Long": {"Type": "String", "Default": "x" * 900_000}}

    with within(20):
        values = valued(tmp_path, joins, Parameters=parameters)

    known = [each for each in values if isinstance(each, str)]
    assert sum(map(len, known)) < 200 * 1024**2


@pytest.mark.parametrize(
    "wrap",
    [
        lambda inner: {"Fn::Anything": inner},
        lambda inner: {"Fn::Select": [{"Ref": "Nodes"}, [inner, inner]]},
        lambda inner: {"Fn::If": ["Missing", inner, "x"]},
        lambda inner: {"Fn::Join": [",", {"Fn::GetAZs": inner}]},
        lambda inner: {"Fn::Base64": inner},
        lambda inner: {"Fn::ToJsonString": {"a": inner}},
        lambda inner: {"Fn::Sub": ["${A}", {"A": inner}]},
        lambda inner: {"Fn::Split": [",", inner]},
        lambda inner: {"Fn::FindInMap": ["A", inner, "B"]},
        lambda inner: {"Fn::ImportValue": inner},
        lambda inner: {"Fn::Length": [inner]},
        lambda inner: {"Fn::GetAtt": ["Nodes", inner]},
        lambda inner: {"Fn::GetStackOutput": {"StackName": "stack", "OutputName": inner}},
    ],
)
def test_nested_intrinsics_end(tmp_path: Path, wrap: Any) -> None:
    """Each is resolved once, and quotes inside quotes, which double, are given up at 1 MiB."""
    value: Any = {"Ref": "Nodes"}
    for _ in range(14):
        value = wrap(value)

    with within(10):
        everything(
            file_of(
                tmp_path, {"Resources": {"Nodes": _GROUP, "Other": {"Type": "A::B::C", "Properties": {"P": value}}}}
            )
        )


@pytest.mark.parametrize("levels", [60])
def test_deeply_nested_unknown_intrinsics_end(tmp_path: Path, levels: int) -> None:
    value: Any = {"Ref": "Nodes"}
    for _ in range(levels):
        value = {"Fn::Anything": {"a": value}}

    with within(10):
        assert isinstance(valued(tmp_path, value), Unknown)


def test_outputs_that_double_end(tmp_path: Path) -> None:
    def output(name: str) -> Any:
        return {"Fn::GetStackOutput": {"StackName": "stack", "OutputName": name}}

    outputs = {f"O{n}": {"Value": [output(f"O{n + 1}")] * 2} for n in range(60)}

    with within(30):
        everything(file_of(tmp_path, template(Outputs={**outputs, "O60": {"Value": "x"}})))


def test_an_output_of_itself_ends(tmp_path: Path) -> None:
    value = {"Fn::GetStackOutput": {"StackName": "stack", "OutputName": "A"}}

    with within(5):
        everything(file_of(tmp_path, template(Outputs={"A": {"Value": {"Fn::Sub": ["${B}", {"B": value}]}}})))


def test_a_list_of_long_lists_ends(tmp_path: Path) -> None:
    parameters = {"Long": {"Type": "CommaDelimitedList", "Default": "," * 900_000}}

    with within(30):
        everything(
            file_of(
                tmp_path,
                template(Parameters=parameters, Outputs={"A": {"Value": "x"}})
                | {"Resources": {"Nodes": {**_GROUP, "Properties": {"Subnets": [{"Ref": "Long"}] * 50_000}}}},
            )
        )


@pytest.mark.parametrize(
    "conditions",
    [
        {"A": {"Condition": "A"}},
        {"A": {"Fn::Not": [{"Condition": "A"}]}},
        {"A": {"Condition": "B"}, "B": {"Fn::Or": [{"Condition": "A"}, {"Condition": "B"}]}},
        {"A": {"Fn::And": []}},
        {"A": {"Fn::Equals": [{"Ref": "AWS::NoValue"}, "a"]}},
        {"A": {"Fn::Equals": [{"Fn::If": ["A", "a", "b"]}, "a"]}},
        {"A": []},
        [],
    ],
)
def test_conditions_that_mean_nothing_are_not_known(tmp_path: Path, conditions: Any) -> None:
    resources = {"Nodes": {**_GROUP, "Condition": "A"}}

    given = read_input([file_of(tmp_path, {"Resources": resources, "Conditions": conditions})])

    assert given.resources["stack/Nodes"].conditional


def test_a_long_chain_of_conditions_ends(tmp_path: Path) -> None:
    conditions = {f"C{n}": {"Condition": f"C{n + 1}"} for n in range(10_000)}

    with within(5):
        everything(file_of(tmp_path, {"Resources": {"Nodes": {**_GROUP, "Condition": "C0"}}, "Conditions": conditions}))


def test_a_long_chain_of_outputs_ends(tmp_path: Path) -> None:
    def value(number: int) -> Any:
        return {"Fn::GetStackOutput": {"StackName": "stack", "OutputName": f"O{number}"}}

    outputs = {f"O{n}": {"Value": {"Fn::Sub": ["${A}", {"A": value(n + 1)}]}} for n in range(10_000)}

    with within(5):
        everything(file_of(tmp_path, template(Outputs=outputs)))


def test_a_parameter_that_names_itself_is_a_text(tmp_path: Path) -> None:
    found = valued(tmp_path, {"Ref": "P"}, Parameters={"P": {"Type": "String", "Default": "${P}"}})

    assert found == "${P}"


@pytest.mark.parametrize("index", ["²", "-1", "9" * 5_000, True, 1.5, None, "1e0", []])
def test_an_index_that_is_none_is_not_known(tmp_path: Path, index: Any) -> None:
    assert isinstance(valued(tmp_path, {"Fn::Select": [index, ["a", "b"]]}), Unknown)


@pytest.mark.parametrize(
    "text",
    ["${" * 400_000, "${a." * 400_000, "$" * 1_000_000, "${!" * 300_000, "{{resolve:" * 80_000],
)
def test_texts_made_for_slow_patterns_end(tmp_path: Path, text: str) -> None:
    value = {"Fn::Sub": text}
    manifest = {"Type": "Custom::AWSCDK-EKS-KubernetesResource", "Properties": {"Manifest": value}}
    group = {**_GROUP, "Properties": {"Labels": {"a": text, "b": value}, "InstanceTypes": [text], "ClusterName": value}}

    with within(20):
        everything(file_of(tmp_path, {"Resources": {"Nodes": group, "Manifest": manifest}}))


LONG = 200_000


@pytest.mark.parametrize(
    "text",
    [
        "a" * LONG,
        "1" * LONG,
        " " * LONG,
        "\n" * LONG,
        "-" * LONG,
        "." * LONG,
        "--" + "a-" * LONG,
        "a=" * LONG,
        ":" * LONG,
        "nvidia-smi " * (LONG // 10),
        "nvidia-smi mig " * (LONG // 10),
        "avg (" * (LONG // 5),
        "DCGM_FI_" * (LONG // 8),
        "g6" + "a-" * LONG,
        "apt-get install " * (LONG // 16),
        "asg:tag=" * (LONG // 8),
        "runtimes." * (LONG // 9),
        "default_runtime_name " * (LONG // 20),
        "vector( " * (LONG // 8),
        "sum by (" * (LONG // 8),
        "*a" * 1_000,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_no_pattern_of_any_rule_is_slow(tmp_path: Path, text: str) -> None:
    """One long text at every place of a cluster where a rule looks."""
    with within(20):
        everything(file_of(tmp_path, _cluster_full_of(text)))


def _cluster_full_of(text: str) -> Any:
    pod = {
        "containers": [
            {
                "name": text,
                "image": text,
                "command": [text],
                "args": [text],
                "env": [{"name": text, "value": text}],
                "resources": {"limits": {"nvidia.com/gpu": text, text: "1"}},
            }
        ],
        "nodeSelector": {text: text},
        "tolerations": [{"key": text, "value": text}],
        "priorityClassName": text,
        "schedulerName": text,
    }
    kinds = ("Deployment", "DaemonSet", "Job")
    objects = [
        {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": text, "labels": {text: text}, "annotations": {text: text}},
            "spec": {"template": {"spec": pod}},
        }
        for kind in kinds
    ]
    scaled = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "s"},
        "spec": {
            "triggers": [{"type": "prometheus", "metadata": {"query": text, "threshold": text}}],
            "scaleTargetRef": {"name": text},
        },
    }
    autoscaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "spec": {"metrics": [{"type": "Pods", "pods": {"metric": {"name": text}, "target": {"averageValue": text}}}]},
    }
    node_pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": text},
        "spec": {
            "limits": {"cpu": text},
            "disruption": {"consolidateAfter": text, "budgets": [{"nodes": text, "duration": text, "schedule": text}]},
            "template": {
                "metadata": {"labels": {text: text}},
                "spec": {
                    "expireAfter": text,
                    "requirements": [
                        {"key": text, "operator": "In", "values": [text]},
                        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [text]},
                    ],
                },
            },
        },
    }
    node_class = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": text},
        "spec": {"amiSelectorTerms": [{"alias": text}], "userData": text},
    }
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": text}, "data": {text: text}}
    objects = [*objects, scaled, autoscaler, node_pool, node_class, config]
    group = {
        "ClusterName": "demo",
        "AmiType": text,
        "Version": text,
        "ReleaseVersion": text,
        "InstanceTypes": [text, "g6.xlarge"],
        "Labels": {text: text},
        "Taints": [{"Key": text, "Value": text, "Effect": text}],
        "Tags": {text: text},
        "LaunchTemplate": {"Id": {"Ref": "Template"}},
    }
    launch = {
        "LaunchTemplateData": {"ImageId": text, "InstanceType": text, "UserData": {"Fn::Base64": "#!/bin/sh\n" + text}}
    }
    addon = {"ClusterName": "demo", "AddonName": text, "AddonVersion": text, "ConfigurationValues": text}
    chart = {"ClusterName": "demo", "Chart": text, "Version": text, "Values": json.dumps({text: text})}
    resources = {
        "Cluster": {"Type": "AWS::EKS::Cluster", "Properties": {"Name": "demo", "Version": "1.36"}},
        "Nodes": {"Type": "AWS::EKS::Nodegroup", "Properties": group},
        "Template": {"Type": "AWS::EC2::LaunchTemplate", "Properties": launch},
        "Addon": {"Type": "AWS::EKS::Addon", "Properties": addon},
        "Chart": {"Type": "Custom::AWSCDK-EKS-HelmChart", "Properties": chart},
        "Manifest": {
            "Type": "Custom::AWSCDK-EKS-KubernetesResource",
            "Properties": {"ClusterName": "demo", "Manifest": json.dumps(objects)},
        },
    }
    return {"Resources": resources}


# User data


@pytest.mark.parametrize(
    "text",
    [
        "Content-Type: multipart/mixed; boundary=a\n\n--a\n" * 2_000,
        "Content-Type: multipart/mixed; " + ";" * 100_000,
        'MIME-Version: 1.0\nContent-Type: multipart/mixed; a="' + ";" * 120_000,
        "MIME-Version: 1.0\n" * 7_000,
        "Content-Type: text/plain; charset=\udcff\n\n\udcff",
        "[" * 60_000,
        "a = " + "[" * 60_000,
        "a" + ".a" * 60_000 + " = 1",
        "[settings" + ".a" * 5_000 + "]\nb = 1",
        "settings.a = 0x" + "f" * 60_000,
        "settings.a = nan\nsettings.b = 1979-05-27T07:32:00Z",
        "apiVersion: node.eks.aws/v1alpha1\nspec: " + "[" * 60_000,
        "apiVersion: node.eks.aws\na: &a [*a]",
        "#!" + "x" * 1_000_000,
        "\0",
        "x" * 10_000_000,
    ],
    ids=lambda text: repr(text[:24]),
)
@pytest.mark.parametrize("encoded", [True, False])
def test_user_data_of_any_kind_ends(text: str, encoded: bool) -> None:
    data = base64.b64encode(text.encode(errors="replace")).decode() if encoded else text

    with within(10):
        read = read_user_data(data, encoded=encoded)

    assert read.text is None or isinstance(read.text, str)


def nested_parts(levels: int) -> str:
    parts = [f'Content-Type: multipart/mixed; boundary="{each}"\n\n--{each}\n' for each in range(levels)]
    return "MIME-Version: 1.0\n" + "".join(parts)


def test_parts_inside_parts_end() -> None:
    with within(10):
        read_user_data(nested_parts(2_000), encoded=False)


# Large inputs


def test_twenty_thousand_resources_end(tmp_path: Path) -> None:
    """Measured: 3 s on one core of 2026."""
    resources: dict[str, Any] = {
        "Cluster": {"Type": "AWS::EKS::Cluster", "Properties": {"Name": "demo", "Version": "1.36"}}
    }
    for number in range(20_000):
        resources[f"R{number}"] = {
            "Type": "AWS::SNS::Topic",
            "Properties": {"TopicName": {"Fn::Sub": f"t{number}-${{AWS::Region}}"}},
        }

    with within(60):
        check(read_input([file_of(tmp_path, {"Resources": resources})]))


def test_many_pools_and_pods_end(tmp_path: Path) -> None:
    groups = {
        f"N{n}": {
            "Type": "AWS::EKS::Nodegroup",
            "Properties": {"ClusterName": "demo", "InstanceTypes": ["g6.xlarge"], "Labels": {"n": str(n)}},
        }
        for n in range(100)
    }
    limits = {"limits": {"nvidia.com/gpu": 1}}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{n}"},
            "spec": {"nodeSelector": {"n": str(n)}, "containers": [{"name": "a", "image": "a:1", "resources": limits}]},
        }
        for n in range(100)
    ]
    paths = [file_of(tmp_path, {"Resources": groups}), file_of(tmp_path, json.dumps(pods), "pods.json")]

    with within(60):
        report = check(read_input(paths))
        for each in report.clusters:
            explain(each)


def test_many_clusters_end(tmp_path: Path) -> None:
    resources = {
        f"C{n}": {"Type": "AWS::EKS::Cluster", "Properties": {"Name": f"c{n}", "Version": "1.36"}} for n in range(3_000)
    }

    with within(60):
        everything(file_of(tmp_path, {"Resources": resources}))


@pytest.mark.parametrize("count", [10**18 - 1, "9" * 18, 10**40, "1e9"])
def test_huge_counts_are_arithmetic(tmp_path: Path, count: Any) -> None:
    pod = {"containers": [{"name": "a", "image": "a:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"parallelism": count, "template": {"spec": pod}},
    }
    group = {**_GROUP, "Properties": {**_GROUP["Properties"], "ScalingConfig": {"MaxSize": count}}}
    file_of(tmp_path, {"Resources": {"Nodes": group}})
    file_of(tmp_path, job, "job.json")

    with within(5):
        everything(str(tmp_path))

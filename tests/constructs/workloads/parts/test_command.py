"""A command is a list of words: an error about anything else has the correct list, and doesn't repeat tokens."""

from __future__ import annotations

import aws_cdk as cdk
import pytest

from gpu_constructs.workloads.init_container import command_words

TOKEN = "hf_" + "aB" * 17


@pytest.mark.parametrize(
    ("argument", "line", "fix"),
    [
        ("args", "--model /weights", "['--model', '/weights']"),
        ("args", "--name 'my model'", "['--name', 'my model']"),
        ("args", "it's", '["it\'s"]'),
        ("args", "a; b", "['a;', 'b']"),
        ("command", "python train.py", "['python', 'train.py']"),
        ("command", "cd /app && python train.py", "['sh', '-c', 'cd /app && python train.py']"),
        ("command", "cd /app; python train.py", "['sh', '-c', 'cd /app; python train.py']"),
    ],
)
def test_one_string_is_refused_with_its_words(argument: str, line: str, fix: str) -> None:
    with pytest.raises(TypeError) as refused:
        command_words("pod", argument, line)

    assert str(refused.value) == f"pod: {argument} must be a list of strings, got {line!r}; write {fix}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--port", 8000], "args[1] must be a string, got 8000; write '8000'"),
        ([0.5], "args[0] must be a string, got 0.5; write '0.5'"),
        (["--eager", True], "args[1] must be a string, got True"),
        (["--port", cdk.Token.as_number({"Ref": "Port"})], "args[1] must be a string, got a token; write cdk.Token"),
        ([["--port", "8000"]], "args[0] must be a string, got ['--port', '8000']"),
        (8000, "args must be a list of strings, got 8000"),
    ],
)
def test_what_is_no_word_is_named_by_its_place(words: object, message: str) -> None:
    with pytest.raises(TypeError) as refused:
        command_words("pod", "args", words)

    assert str(refused.value).startswith(f"pod: {message}")


@pytest.mark.parametrize("value", [f"--token={TOKEN} --port 8000", ["--port", 8000, f"--token={TOKEN}"]])
def test_a_token_is_refused_first_and_not_repeated(value: object) -> None:
    with pytest.raises(
        ValueError, match=r"args must contain no secret in the template, got .*and write \$\(NAME\) here \[GPU413\]$"
    ) as refused:
        command_words("pod", "args", value)

    assert TOKEN not in str(refused.value)


def test_words_are_taken_as_they_are() -> None:
    assert command_words("pod", "args", ["--model", "/my weights", ""]) == ("--model", "/my weights", "")

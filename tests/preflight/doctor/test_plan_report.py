"""The report of a comparison with a plan."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpu_preflight.command_line.cli import cli
from tests.preflight.doctor.planned_clusters import FOLDER, PENDING, POOL, World, lower_the_limit


def _run(world: World, folder: Path, *arguments: str) -> tuple[int, str]:
    plan = str(FOLDER / "plans" / "karpenter.yaml")
    arguments = ("doctor", world.dump(folder), "--against", plan, *arguments)
    result = CliRunner().invoke(cli, arguments, standalone_mode=False)
    assert result.exception is None
    return result.return_value, result.stdout


def test_a_difference_that_stops_no_pod_does_not_fail_the_command(tmp_path: Path) -> None:
    world = World("karpenter")
    lower_the_limit(world)

    code, text = _run(world, tmp_path)

    assert code == 0
    assert "1 difference from the plan: 7 planned objects compared" in text
    assert f"{POOL}: spec.limits[nvidia.com/gpu] is lowered to 2, planned 8" in text


def test_a_difference_that_stops_a_pod_fails_the_command(tmp_path: Path) -> None:
    world = World("karpenter")
    lower_the_limit(world)
    world.lists["pods"].append(copy.deepcopy(PENDING))

    code, text = _run(world, tmp_path)

    assert code == 1
    assert "Pod default/train: with the planned value, the simulation runs it" in text


@pytest.mark.parametrize("form", ["text", "markdown", "html", "json"])
def test_each_format_has_the_differences(form: str, tmp_path: Path) -> None:
    world = World("karpenter")
    lower_the_limit(world)

    code, text = _run(world, tmp_path, "--format", form)

    assert code == 0
    assert "is lowered to 2, planned 8" in text.replace("\\", "")


def test_without_a_plan_no_comparison_is_mentioned(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["doctor", World("karpenter").dump(tmp_path)])

    assert "plan" not in result.output


def test_a_plan_that_does_not_exist_is_one_line(tmp_path: Path) -> None:
    folder = World("karpenter").dump(tmp_path)
    result = CliRunner().invoke(cli, ["doctor", folder, "--against", str(tmp_path / "cdk.out")])

    assert result.exit_code == 2
    assert "cdk.out" in result.output.splitlines()[-1]


def test_a_plan_of_which_nothing_was_compared_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text("apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: x}\n")
    (tmp_path / "dump").mkdir()
    arguments = ["doctor", World("karpenter").dump(tmp_path / "dump"), "--against", str(tmp_path / "plan.yaml")]

    result = CliRunner().invoke(cli, [*arguments, "--strict"], standalone_mode=False)

    assert result.return_value == 1
    assert "Nothing of the plan was compared" in result.stdout
    assert "Widget x: the list of kind Widget of example.com isn't in the dump" in " ".join(result.stdout.split())
    assert CliRunner().invoke(cli, arguments, standalone_mode=False).return_value == 0


def test_the_headline_counts_the_parts_that_were_not_compared(tmp_path: Path) -> None:
    world = World("karpenter")
    del world.lists["nodes"]

    _, text = _run(world, tmp_path)

    assert "No difference from the plan: 7 planned objects compared; not compared: 1 part" in text

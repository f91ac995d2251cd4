"""The console script: its input, its output and its exit codes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime, time, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gpu_constructs import __version__
from gpu_facts import data_age
from gpu_preflight.command_line import console
from gpu_preflight.command_line.cli import cli
from gpu_preflight.command_line.parameter_types import JUDGED, PLAIN
from tests.conftest import ROOT
from tests.preflight.rule_cases import FIXTURES

SAMPLES = ROOT / "tests" / "preflight" / "report"
CLUSTER, WORKLOADS = str(SAMPLES / "cluster.yaml"), str(SAMPLES / "workloads.yaml")
FAILING = str(FIXTURES / "GPU010" / "fails_plugin_without_toleration_of_the_taint.yaml")
PASSING = str(FIXTURES / "GPU010" / "passes_plugin_tolerates_everything.yaml")
WARNING = str(FIXTURES / "GPU048" / "fails_default_disk_of_20_gib.yaml")
CONSOLE = (sys.executable, "-m", "gpu_preflight.command_line.cli")
POD = "{apiVersion: v1, kind: Pod, metadata: {name: small}, spec: {containers: [{name: a, image: 'b:1'}]}}"


class Done:
    """How a command ended."""

    def __init__(self, *arguments: str, given: str | None = None, environment: dict[str, str] | None = None) -> None:
        """Run the command as the console script does, in this process."""
        runner = CliRunner(env=environment or {})
        with pytest.MonkeyPatch.context() as patch, runner.isolation(input=given) as (out, err, _):
            patch.setattr(sys, "argv", ["gpu-constructs", *arguments])
            # The catalogue gets older without a change to a test.
            patch.setattr(data_age, "MAX_AGE_DAYS", 100_000)
            self.code = console.run(cli)
            self.out, self.err = out.getvalue().decode(), err.getvalue().decode()

    @property
    def json(self) -> Any:
        """The output as JSON."""
        return json.loads(self.out)


def as_process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command in its own process."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [*CONSOLE, *arguments], capture_output=True, text=True, check=False, env=environment, **options
    )


BLOCK = str(FIXTURES / "GPU290" / "passes_ends_later.yaml")


@pytest.mark.parametrize(("day", "found"), [("2026-11-21", ""), ("2099-12-02", "GPU291"), ("2100-01-01", "GPU290")])
def test_dates_are_checked_as_of_a_day(day: str, found: str) -> None:
    done = as_process("check", "--as-of", day, BLOCK)

    assert re.findall(r"^GPU29\d", done.stdout, re.MULTILINE) == ([found] if found else [])


def test_check_finds_an_error_and_fails() -> None:
    done = Done("check", FAILING)

    assert done.code == 1
    assert done.out.startswith("Errors (")
    assert "GPU010" in done.out
    assert done.err == ""


def test_explain_checks_workloads_of_files_against_clusters_of_paths() -> None:
    done = Done("explain", CLUSTER, "-f", WORKLOADS, "--format", "json")

    [cluster] = done.json["clusters"]
    assert done.code == 1
    assert {each["name"]: each["answer"] for each in cluster["workloads"]} == {
        "Job default/train": "yes",
        "Deployment web/chat": "no",
        "Pod default/gated": "unknown",
    }


def test_explain_without_files_checks_every_gpu_workload() -> None:
    [cluster] = Done("explain", CLUSTER, WORKLOADS, "--format", "json").json["clusters"]

    assert len(cluster["workloads"]) == 3


def test_explain_checks_workloads_of_files_that_request_no_gpu(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(POD)

    [cluster] = Done("explain", CLUSTER, "-f", str(tmp_path), "--format", "json").json["clusters"]

    assert [each["name"] for each in cluster["workloads"]] == ["Pod default/small"]


def test_explain_reads_workloads_from_standard_input() -> None:
    done = Done("explain", CLUSTER, "-f", "-", given=Path(WORKLOADS).read_text())

    assert done.code == 1
    assert "Deployment web/chat: Pending" in done.out


def test_explain_of_one_cluster() -> None:
    assert Done("explain", CLUSTER, "--cluster", "demo").code == 0
    assert "--cluster must be one of demo, got 'prod'" in Done("explain", CLUSTER, "--cluster", "prod").err


def test_check_reads_standard_input() -> None:
    assert Done("check", "-", given=Path(FAILING).read_text()).code == 1


def test_review_says_what_comes_and_goes() -> None:
    done = Done("review", PASSING, FAILING, "--format", "json")

    assert done.code == 1
    assert "GPU010" in [each["id"] for each in done.json["new"]]
    assert Done("review", FAILING, PASSING).code == 0


@pytest.mark.parametrize(
    ("limits", "code", "results"),
    [
        (("--max-usd-per-month", "1e9", "--max-added-gpus", "0", "--fail-on-replace"), 0, ["kept"] * 3),
        (("--max-usd-per-month", "0", "--max-added-usd-per-month", "0"), 1, ["exceeded", "kept"]),
        (("--max-usd-per-month", "0", "--fail-on", "never"), 0, ["exceeded"]),
    ],
)
def test_review_keeps_limits(limits: Sequence[str], code: int, results: list[str]) -> None:
    done = Done("review", PASSING, PASSING, "--format", "json", *limits)

    assert done.code == code
    assert [each["result"] for each in done.json["limits"]] == results
    assert ("exceeded" in done.json["headline"]) is ("exceeded" in results)


@pytest.mark.parametrize("command", [("check", CLUSTER), ("explain", CLUSTER), ("review", CLUSTER, CLUSTER)])
@pytest.mark.parametrize("form", ["text", "json", "markdown", "html"])
def test_every_command_writes_every_format(command: Sequence[str], form: str) -> None:
    done = Done(*command, "--format", form)

    assert done.code in (0, 1)
    assert done.out.endswith("\n")
    assert done.err == ""


@pytest.mark.parametrize("command", [("check", CLUSTER), ("review", CLUSTER, CLUSTER)])
def test_findings_are_written_as_sarif(command: Sequence[str]) -> None:
    assert Done(*command, "--format", "sarif").json["version"] == "2.1.0"


@pytest.mark.parametrize("command", ["explain", "instances", "rules"])
def test_what_is_no_finding_is_not_written_as_sarif(command: str) -> None:
    done = Done(command, "--format", "sarif")

    assert (done.code, done.out) == (2, "")
    forms = ", ".join((*PLAIN, "html") if command == "explain" else PLAIN)
    assert f"must be one of {forms}, got 'sarif', which is for check and review" in done.err


def test_files_are_written(tmp_path: Path) -> None:
    output, page = tmp_path / "out.json", tmp_path / "page.html"

    done = Done("check", FAILING, "--format", "json", "--output", str(output), "--html", str(page))

    assert (done.code, done.out) == (1, "")
    assert json.loads(output.read_text())["outcome"] == "fail"
    assert page.read_text().startswith("<!doctype html>")


def test_a_report_is_written_in_several_formats_at_once(tmp_path: Path) -> None:
    files = {form: tmp_path / form for form in JUDGED}

    done = Done("check", FAILING, *(each for form, file in files.items() for each in ("--also", f"{form}={file}")))

    assert done.code == 1
    assert "GPU010" in done.out
    assert all("GPU010" in file.read_text() for file in files.values())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("sarf=a", "must be one of text, json, sarif, markdown, html, concise, github, gitlab, junit, got 'sarf'"),
        ("sarif", "must be FORMAT=FILE, got 'sarif'"),
        ("sarif=", "must be FORMAT=FILE, got 'sarif='"),
        ("sarif=/nowhere/a", "/nowhere/a"),
    ],
)
def test_a_further_format_that_cannot_be_written_is_one_line(given: str, words: str) -> None:
    done = Done("check", FAILING, "--also", given)

    assert done.code == 2
    assert words in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("file", "codes"),
    [
        (FAILING, {"error": 1, "warning": 1, "unknown": 1, "never": 0}),
        (WARNING, {"error": 0, "warning": 1, "never": 0}),
        (PASSING, {"error": 0, "never": 0}),
    ],
)
def test_what_fails_is_the_users_choice(file: str, codes: dict[str, int]) -> None:
    assert {least: Done("check", file, "--fail-on", least).code for least in codes} == codes


def test_a_check_that_fails_on_warnings_counts_them() -> None:
    done = Done("check", WARNING, "--fail-on", "warning")

    assert "--fail-on warning: 1 to correct or acknowledge" in done.err


def test_strict_counts_what_is_not_known(tmp_path: Path) -> None:
    gated = Path(WORKLOADS).read_text().split("---")[-1]
    (tmp_path / "gated.yaml").write_text(gated)
    command = ("explain", CLUSTER, "-f", str(tmp_path / "gated.yaml"))

    assert Done(*command).code == 0
    assert Done(*command, "--strict").code == 1


def test_parameters_reach_the_template(tmp_path: Path) -> None:
    template = Path(CLUSTER).read_text().replace("MaxSize: 12", "MaxSize: !Ref Most")
    parameters = "Parameters: {Most: {Type: Number, Default: 3}}\nResources:"
    (tmp_path / "app.yaml").write_text(template.replace("Resources:", parameters, 1))

    done = Done("explain", str(tmp_path / "app.yaml"), "--parameter", "Most=5", "--format", "json")

    pools = {each["name"]: each["maxNodes"] for each in done.json["clusters"][0]["pools"]}
    assert pools == {"Train": 2, "Infer": 5, "System": 2}


def test_workloads_of_a_kustomization_are_explained(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text("resources: [job.yaml]\n")
    (tmp_path / "job.yaml").write_text(Path(WORKLOADS).read_text())

    for named in (tmp_path, tmp_path / "kustomization.yaml"):
        done = Done("explain", CLUSTER, "-f", str(named), "--format", "json")
        assert done.json["clusters"][0]["workloads"]


def test_an_unknown_parameter_is_refused_with_the_nearest(tmp_path: Path) -> None:
    template = Path(CLUSTER).read_text().replace("Resources:", "Parameters: {Most: {Type: Number}}\nResources:", 1)
    (tmp_path / "app.yaml").write_text(template)

    done = Done("check", str(tmp_path / "app.yaml"), "--parameter", "Mots=5")

    assert done.code == 2
    assert "--parameter must name a parameter of a template (Most), got 'Mots'; did you mean 'Most'?" in done.err


def test_an_acknowledgement_of_nothing_is_reported(tmp_path: Path) -> None:
    lines = "acknowledgements:\n- {id: GPU010, reason: seen}\n- {id: GPU024, reason: gone, path: 'x/*'}\n"
    (tmp_path / "accepted.yaml").write_text(lines)

    done = Done("check", FAILING, str(tmp_path / "accepted.yaml"))

    assert "accepted.yaml: acknowledgement of GPU024 at x/* accepts nothing; remove it" in done.err
    assert "GPU010" not in done.err


def test_an_annotation_of_no_rule_is_reported(tmp_path: Path) -> None:
    annotations = "{gpu-constructs.io/acknowledge.GPU0100: seen}"
    (tmp_path / "pod.yaml").write_text(
        f"{{apiVersion: v1, kind: Pod, metadata: {{name: a, annotations: {annotations}}}}}"
    )

    assert "Pod a: acknowledge: id must be a rule's id, got 'GPU0100'" in Done("check", str(tmp_path)).err


def test_acknowledgements_are_read_next_to_the_input(tmp_path: Path) -> None:
    lines = "acknowledgements:\n- {id: GPU010, reason: the plugin comes by GitOps}\n"
    (tmp_path / "accepted.yaml").write_text(lines)

    done = Done("check", FAILING, str(tmp_path / "accepted.yaml"), "--format", "json")

    accepted = {each["id"]: each["acknowledged"] for each in done.json["findings"]}
    assert accepted["GPU010"] == "the plugin comes by GitOps"


def test_default_input_is_the_assembly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "PATH must be given if there is no folder cdk.out" in Done("check").err

    shutil.copytree(FIXTURES / "GPU010", tmp_path / "cdk.out", ignore=shutil.ignore_patterns("passes_*"))

    assert Done("check").code == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "nowhere.yaml"), "nowhere.yaml: must be a readable file or folder, got No such file or directory"),
        (
            ("check", "--fast"),
            "option must be one of --also, --as-of, --assume, --baseline, --cluster, --color, --config, --fail-on",
        ),
        (("check", "--formt", "json"), "--write-baseline, got '--formt'; did you mean '--format'?"),
        (("check", "-x"), "--write-baseline, got '-x'"),
        (("--versoin",), "option must be one of -h, --help, --version, got '--versoin'; did you mean '--version'?"),
        (("chek",), f"command must be one of {', '.join(cli.commands)}, got 'chek'; did you mean 'check'?"),
        (("exlain",), "command must be one of check, explain, "),
        (("instances", "--sort", "prise"), "must be one of price, gpus, name, got 'prise'; did you mean 'price'?"),
        (("check", "--format", "jsn"), "concise, github, gitlab, junit, got 'jsn'; did you mean 'json'?"),
        (("review", CLUSTER), "Missing argument 'NEW'"),
        (("review", "-", "-"), "OLD and NEW must not both be standard input"),
        (
            ("review", CLUSTER, CLUSTER, "--max-usd-per-month", "40k"),
            "'--max-usd-per-month': must be a number of US dollars from 0, such as 40000, got '40k'",
        ),
        (
            ("review", CLUSTER, CLUSTER, "--max-added-usd-per-month", "nan"),
            "must be a number of US dollars from 0, such as 40000, got 'nan'",
        ),
        (
            ("review", CLUSTER, CLUSTER, "--max-added-gpus", "1.5"),
            "must be a whole number of GPUs from 0, such as 40, got '1.5'",
        ),
        (("review", CLUSTER, CLUSTER, "--max-added-gpus", "-1"), "from 0, such as 40, got '-1'"),
        (("explain", CLUSTER, "-f", FAILING), "the_taint.yaml: must hold a workload, got none"),
        (("check", CLUSTER, "--parameter", "Most"), "must be KEY=VALUE, got 'Most'"),
        (("check", "--assume", "nvidia-device-plugin"), "got 'nvidia-device-plugin'; did you mean 'device-plugin'?"),
        (("check", "--assume", "aws-efa-plugin"), "got 'aws-efa-plugin'; did you mean 'efa-device-plugin'?"),
        (
            ("doctor", "--replay", "gone"),
            "--replay must be a file that --record wrote, got 'gone', which doesn't exist",
        ),
        (("check", CLUSTER, "--parameter", "Most=3"), "must name a parameter of a template (none), got 'Most'"),
        (("check", CLUSTER, "--output", "nowhere/out.txt"), "nowhere/out.txt: must be a file that can be written"),
        (("instances", "--gpu", "H1000"), "did you mean 'H100'?"),
        (("instances", "--gpu-memory", "lots"), "must be a number, with >=, >, =, <= or < before it, got 'lots'"),
        (("instances", "--max-price", "-1"), "-1"),
        (("rules", "GPU01"), "ID must be a rule's id, got 'GPU01'; did you mean 'GPU001'?"),
        (("rules", "GPU999"), "ID must be a rule's id, got 'GPU999'; 'gpu-constructs rules' lists them"),
        (
            ("rules", "gpu047"),
            "got 'gpu047'; its rule, 'Nodes with several network interfaces are in a public subnet', was retired on "
            "2026-11-21",
        ),
    ],
)
def test_what_cannot_be_used_is_one_line(arguments: Sequence[str], message: str) -> None:
    done = Done(*arguments)

    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("gpu-constructs: ")
    assert message in done.err
    assert done.err.count("\n") == 1


def test_unusable_files_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("a: [1, 2\nb: }")

    done = Done("check", str(tmp_path / "broken.yaml"))

    assert done.code == 2
    assert re.fullmatch(r"gpu-constructs: .*broken\.yaml: must be YAML or JSON, got .*\n", done.err)


def test_an_unexpected_error_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise KeyError("x\ny")

    monkeypatch.setattr("gpu_preflight.judging.check.check", fails)

    done = Done("check", CLUSTER)

    assert done.code == 2
    assert (
        done.err == "gpu-constructs: failed unexpectedly with KeyError: 'x\\ny'; this is a bug in gpu-constructs, "
        "please report it\n"
    )
    with pytest.raises(KeyError):
        Done("check", CLUSTER, environment={"GPU_CONSTRUCTS_DEBUG": "1"})


def test_interrupts_end_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gpu_preflight.judging.check.check", interrupted)

    assert Done("check", CLUSTER).code == 130


def test_instances() -> None:
    done = Done("instances", "--gpu-memory", ">=80", "--gpus", "8", "--efa", "--sort", "price", "--format", "json")

    rows = done.json["instanceTypes"]
    assert rows[0]["name"] == "p4de.24xlarge"
    assert all(each["gpus"] == 8 and each["gpuMemoryGib"] >= 80 and each["efaInterfaces"] for each in rows)
    assert rows[0]["usdPerGpuHour"] == pytest.approx(rows[0]["usdPerHour"] / 8, abs=1e-4)


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_instances_that_newer_images_drive_are_starred(form: str) -> None:
    starred = Done("instances", "--family", "g7", "--format", form).out

    assert "Needs NVIDIA driver 595: AL2023 from release v20260917 on" in starred
    assert starred.count(" *") - starred.count(" * ") <= starred.count("g7.")
    assert "NVIDIA driver" not in Done("instances", "--family", "g6", "--format", form).out


def test_a_price_that_is_missing_has_its_reason() -> None:
    assert "p5e.48xlarge has no price: not sold in us-east-1." in Done("instances", "--family", "p5e").out
    assert "no price" not in Done("instances", "--family", "p5").out


def test_a_highest_price_says_what_it_left_out_for_want_of_one() -> None:
    done = Done("instances", "--gpu-memory", ">=100", "--max-price", "70", "--format", "json")

    assert [each["name"] for each in done.json["instanceTypes"]] == ["p5en.48xlarge"]
    assert [each["name"] for each in done.json["leftOutWithoutPrice"]] == ["p5e.48xlarge"]
    assert (
        "p5e.48xlarge is left out because it has no price: not sold in us-east-1."
        in Done("instances", "--gpu-memory", ">=100", "--max-price", "70").out
    )
    assert not Done("instances", "--gpu-memory", ">=100", "--format", "json").json["leftOutWithoutPrice"]


def test_rules_are_listed_and_explained() -> None:
    listed, one = Done("rules").out, Done("rules", "gpu010").out

    assert listed.count("GPU") > 5
    assert one.startswith("GPU010 (error): ")
    assert [line.partition(":")[0] for line in one.splitlines()[1:]] == ["why", "fix", "source", "place"]
    assert "GPU010" in Done("rules", "--format", "markdown").out


def test_a_rule_says_where_it_stands() -> None:
    [told] = Done("rules", "GPU168", "--format", "json").json["rules"]

    assert re.fullmatch(r"gpu_preflight/rules/\w+\.py:\d+", told["place"])
    assert Done("rules", "GPU168").out.endswith(f"place: {told['place']}\n")
    assert "**Place:** " in Done("rules", "GPU168", "--format", "markdown").out


def test_a_list_of_rules_says_in_json_alone_where_they_stand() -> None:
    assert all(each["place"] for each in Done("rules", "--format", "json").json["rules"])
    assert ".py:" not in Done("rules").out
    assert ".py:" not in Done("rules", "--format", "markdown").out


def test_a_finding_does_not_say_where_its_rule_stands() -> None:
    assert all("place" not in each for each in Done("check", FAILING, "--format", "json").json["findings"])


@pytest.mark.parametrize("sign", ["\x1b]0;pwn\x07", "\x9b31m", "\u202e"])
def test_names_out_of_a_file_do_not_reach_the_terminal_as_they_are(tmp_path: Path, sign: str) -> None:
    cluster = {"Type": "AWS::EKS::Cluster", "Properties": {"Name": f"demo{sign}"}}
    file = tmp_path / "template.json"
    file.write_text(json.dumps({"Resources": {"Cluster": cluster}}))

    told = Done("explain", str(file), "--cluster", "zz").err

    assert "--cluster must be one of demo\ufffd" in told
    assert all(each.isprintable() for each in told.rstrip("\n"))


def test_schema_is_printed() -> None:
    assert Done("schema").json["title"] == "JSON output of gpu-constructs"


def test_version_names_the_dates_of_what_it_knows() -> None:
    dates = [f"{each.name}: {each.day}" for each in data_age.data_sets()]

    assert Done("--version").out.splitlines() == [f"gpu-constructs {__version__}", *dates]


@pytest.mark.parametrize("command", [("check", PASSING), ("explain", CLUSTER), ("review", CLUSTER, CLUSTER)])
def test_old_data_is_one_warning_outside_of_the_report(command: Sequence[str]) -> None:
    oldest = min(each.day for each in data_age.data_sets())
    days = [str(oldest + timedelta(days=data_age.MAX_AGE_DAYS + more)) for more in (0, 1)]

    in_time, late = (as_process(*command, "--as-of", day, "--format", "json") for day in days)

    assert in_time.stderr == ""
    [warning] = late.stderr.splitlines()
    assert re.fullmatch(r"gpu-constructs: data is more than 90 days old: .*; a newer version .*", warning)
    assert str(oldest) in warning
    assert "days old" not in late.stdout
    assert late.returncode == in_time.returncode


def test_images_are_not_read_from_the_catalogue_and_have_no_price(monkeypatch: pytest.MonkeyPatch) -> None:
    pins = next(each.day for each in data_age.data_sets() if each.name == "pins")

    late = datetime.combine(pins + timedelta(days=data_age.MAX_AGE_DAYS + 1), time(12), timezone.utc)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(int(late.timestamp())))

    told = as_process("images", CLUSTER).stderr

    assert re.fullmatch(r"gpu-constructs: data is more than 90 days old: pins \S+; a newer version .*\n", told)


def test_help_names_every_command() -> None:
    assert all(name in Done("--help").out for name in cli.commands)


def test_output_that_is_no_terminal_is_plain_and_the_same_each_time() -> None:
    runs = [as_process("check", FAILING).stdout for _ in range(2)]

    assert runs[0] == runs[1]
    assert "\x1b" not in runs[0]
    longer = [line.split() for line in runs[0].splitlines() if len(line) > 110]
    # Words, such as the path of the file, are never cut.
    assert [words[-1].startswith(FAILING) for words in longer] == [True] * len(longer)


def test_terminals_get_colour_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", _Terminal())
    monkeypatch.delenv("TERM", raising=False)
    assert console._terminal(None)["colour"]

    monkeypatch.setenv("NO_COLOR", "1")

    assert not console._terminal(None)["colour"]


@pytest.mark.parametrize(
    ("option", "environment", "is_colored"),
    [
        ((), {}, False),
        ((), {"FORCE_COLOR": "1"}, True),
        ((), {"FORCE_COLOR": ""}, False),
        ((), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (("--color", "auto"), {"FORCE_COLOR": "1"}, True),
        (("--color", "always"), {"NO_COLOR": "1"}, True),
        (("--color", "never"), {"FORCE_COLOR": "1"}, False),
    ],
)
@pytest.mark.parametrize("command", ["check", "rules"])
def test_colors_are_the_users_choice(
    command: str, option: tuple[str, ...], environment: dict[str, str], is_colored: bool
) -> None:
    path = [CLUSTER] if command == "check" else []

    done = Done(command, *path, *option, environment=environment)

    assert ("\x1b[" in done.out) == is_colored


def test_variables_do_not_color_a_file(tmp_path: Path) -> None:
    file = tmp_path / "report.txt"

    Done("check", CLUSTER, "-o", str(file), "--also", f"text={file}.2", environment={"FORCE_COLOR": "1"})

    assert "\x1b" not in file.read_text() + Path(f"{file}.2").read_text()


def test_widths_of_terminals_are_used_down_to_40(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", _Terminal())
    widths = []
    for columns in ("200", "80", "40", "5"):
        monkeypatch.setenv("COLUMNS", columns)
        widths.append(console._terminal(None)["width"])

    assert widths == [200, 80, 40, 40]


class _Terminal:
    def isatty(self) -> bool:
        return True


def test_readers_that_leave_early_change_nothing() -> None:
    command = [*CONSOLE, "rules", "--format", "json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    started = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, env=environment, text=True
    )
    assert started.stdout is not None
    assert started.stderr is not None
    started.stdout.close()

    assert (started.wait(), started.stderr.read()) == (0, "")
    started.stderr.close()


def test_narrow_encodings_get_what_they_can_show() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"}

    # On this day, no data is old.
    command = [*CONSOLE, "check", FAILING, "--as-of", "2026-08-10"]

    done = subprocess.run(command, capture_output=True, check=False, env=environment)

    assert (done.returncode, done.stderr) == (1, b"")


def loaded(*arguments: str) -> set[str]:
    """The modules that a command has loaded when it ends."""
    code = (
        "import sys; from gpu_preflight.command_line import cli, console; sys.argv = sys.argv[1:]; "
        "console.run(cli.cli); print(*sys.modules, file=sys.stderr)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, "gpu-constructs", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return set(done.stderr.split())


@pytest.mark.parametrize("arguments", [("check", FAILING), ("instances",), ("rules",)])
def test_cdk_is_never_loaded(arguments: Sequence[str]) -> None:
    modules = loaded(*arguments)

    assert "gpu_preflight.command_line.cli" in modules
    assert not {"aws_cdk", "jsii", "constructs", "cdk8s"} & modules


def test_help_is_there_at_once() -> None:
    """A command's dependencies are loaded when it runs; help needs click."""
    modules = loaded("--help")

    assert {each for each in modules if each.startswith("gpu_")} == {
        "gpu_facts",
        "gpu_facts._version",
        "gpu_preflight",
        "gpu_preflight.command_line",
        "gpu_preflight.command_line.cli",
        "gpu_preflight.command_line.parameter_types",
        "gpu_preflight.command_line.console",
        "gpu_preflight.command_line.shared_options",
        "gpu_preflight.command_line.settings",
    }
    assert not {"aws_cdk", "json", "rich", "yaml"} & modules


def test_two_files_are_two_versions_of_one_stack(tmp_path: Path) -> None:
    fixture = FIXTURES / "GPU001"
    old, new = tmp_path / "before.yaml", tmp_path / "after.yaml"
    old.write_text((fixture / "fails_cpu_image_on_an_l4.yaml").read_text())
    new.write_text((fixture / "passes_accelerated_image_on_an_l4.yaml").read_text())

    view = Done("review", str(old), str(new), "--format", "json").json

    assert [each["change"] for each in view["pools"]] == ["replaced"]
    assert "GPU001" in {each["id"] for each in view["fixed"]}


def test_a_review_of_a_pod_that_moves_where_nothing_reads_it_is_unknown(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for side in (old, new):
        (side / "app").mkdir(parents=True)
        shutil.copy(PASSING, side / "cluster.yaml")
    (old / "pod.yaml").write_text(GPU_POD.replace("AMOUNT", "1"))
    (new / "app" / "pod.yaml").write_text(GPU_POD.replace("AMOUNT", "1"))
    (new / "app" / "kustomization.yaml").write_text("resources: [pod.yaml]\nvars: [{name: A}]\n")

    done = Done("review", str(old), str(new), "--fail-on", "unknown")

    assert Done("check", str(new), "--strict").code == done.code == 1
    assert "1 part not read" in done.out
    assert "kustomization.yaml" in done.out


def test_a_review_of_an_old_version_that_is_partly_not_read_is_unknown(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for side in (old, new):
        (side / "app").mkdir(parents=True)
        shutil.copy(PASSING, side / "cluster.yaml")
    (old / "app" / "pool.yaml").write_text(GPU_POD.replace("AMOUNT", "1"))
    (old / "app" / "kustomization.yaml").write_text("resources: [pool.yaml]\nvars: [{name: A}]\n")

    done = Done("review", str(old), str(new), "--fail-on", "unknown")

    assert done.code == 1
    assert "1 part not read" in done.out


def test_a_workload_whose_result_stays_unknown_makes_a_review_unknown(tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "gpu"},
        "spec": {
            "template": {
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
                    "requirements": [
                        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g6.xlarge"]}
                    ],
                }
            }
        },
    }
    file.write_text(f"{json.dumps(pool)}\n---\n{GPU_POD.replace('AMOUNT', '1')}")

    assert Done("check", str(file), "--strict").code == 1
    assert Done("review", str(file), str(file), "--fail-on", "unknown").code == 1
    assert Done("review", str(file), str(file)).code == 0


def test_a_review_tells_which_acknowledgements_of_the_new_version_accept_nothing(tmp_path: Path) -> None:
    new = tmp_path / "new.yaml"
    new.write_text(f"# gpu-constructs: ignore GPU048 it was small\n{POD}\n")

    assert "new.yaml" in (told := Done("review", CLUSTER, str(new)).err)
    assert "acknowledgement of GPU048" in told


def test_a_limit_is_not_kept_where_the_type_of_a_gpu_group_is_not_known(tmp_path: Path) -> None:
    old, new = tmp_path / "before.yaml", tmp_path / "after.yaml"
    asked = f"Parameters: {{T: {{Type: String}}}}{TEMPLATE.replace('[g6.xlarge]', '[!Ref T]')}"
    old.write_text(asked)
    new.write_text(asked.replace("MaxSize: 2", "MaxSize: 200"))
    limits = "--max-added-usd-per-month", "0", "--max-added-gpus", "0"

    assert Done("review", str(old), str(old), *limits).code == 0
    done = Done("review", str(old), str(new), *limits, "--format", "json")

    assert done.code == 1
    assert [each["result"] for each in done.json["limits"]] == ["unknown", "unknown"]


TEMPLATE = """
Resources:
  Cluster: {Type: 'AWS::EKS::Cluster', Properties: {Name: theirs, Version: '1.36'}}
  Nodes:
    Type: AWS::EKS::Nodegroup
    Properties:
      ClusterName: !Ref Cluster
      AmiType: AL2023_x86_64_NVIDIA
      InstanceTypes: [g6.xlarge]
      ScalingConfig: {MinSize: 1, MaxSize: 2}
      Subnets: [subnet-0123456789abcdef0]
"""
GPU_POD = """
apiVersion: v1
kind: Pod
metadata: {name: train}
spec: {containers: [{name: main, image: 'train:1', resources: {limits: {nvidia.com/gpu: AMOUNT}}}]}
"""


def test_a_workload_next_to_a_template_does_not_define_what_runs_in_the_cluster(tmp_path: Path) -> None:
    (tmp_path / "template.yaml").write_text(TEMPLATE)
    (tmp_path / "pod.yaml").write_text(GPU_POD.replace("AMOUNT", "1"))

    done = Done("explain", "-f", str(tmp_path / "pod.yaml"), str(tmp_path / "template.yaml"), "--format", "json")

    assert done.code == 0
    assert done.json["clusters"][0]["workloads"][0]["answer"] == "unknown"


@pytest.mark.parametrize("amount", ["0.5", "one", "-1"])
def test_a_pod_that_the_api_server_refuses_does_not_run(tmp_path: Path, amount: str) -> None:
    (tmp_path / "pod.yaml").write_text(GPU_POD.replace("AMOUNT", amount))

    done = Done("explain", "-f", str(tmp_path / "pod.yaml"), PASSING)

    assert done.code == 1
    assert "the API server rejects it" in done.out


def test_templates_of_charts_are_reported_and_not_checked(tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "job.yaml").write_text("kind: {{ .Values.kind }}")
    (tmp_path / "pod.yaml").write_text(GPU_POD.replace("AMOUNT", "1"))

    done = Done("check", str(tmp_path), "--strict")

    assert done.code == 1
    assert "helm template" in " ".join(done.out.split())


def test_a_misspelt_key_of_an_acknowledgement_is_refused(tmp_path: Path) -> None:
    (tmp_path / "accepted.yaml").write_text("acknowledgements: [{id: GPU010, reason: ours, paht: 'Job x'}]")

    done = Done("check", FAILING, str(tmp_path / "accepted.yaml"))

    assert done.code == 2
    assert "did you mean 'path'?" in done.err


def test_images_are_listed_with_who_asks() -> None:
    done = Done("images", PASSING, "--format", "json")

    [cluster] = done.json["clusters"]
    assert done.code == 0
    assert [each["reference"] for each in cluster["images"]] == ["nvcr.io/nvidia/k8s-device-plugin:v0.20.0"]
    assert done.json["mirror"] is None


def test_a_copy_script_is_written_for_a_mirror(tmp_path: Path) -> None:
    script = tmp_path / "copy.sh"

    done = Done("images", PASSING, "--mirror", "mirror.example.com", "--copy-script", str(script))

    assert done.code == 0
    assert "copy nvcr.io/nvidia/k8s-device-plugin:v0.20.0 nvidia/k8s-device-plugin:v0.20.0" in script.read_text()
    assert 'Host(registry_mirrors={"nvcr.io": "https://mirror.example.com"})' in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--copy-script", "x.sh"), "--mirror must be given with --copy-script, got none"),
        (("--mirror", "https://a.example.com"), "--mirror must be the host of a registry"),
        (("--charts", "nowhere"), "--charts must be a folder of packed charts, got 'nowhere'"),
    ],
)
def test_images_refuses_what_it_cannot_use(arguments: tuple[str, ...], message: str) -> None:
    done = Done("images", PASSING, *arguments)

    assert done.code == 2
    assert message in done.err


def test_images_with_strict_fails_where_some_are_not_known(tmp_path: Path) -> None:
    pod = tmp_path / "pod.yaml"
    pod.write_text(POD.replace("b:1", "${IMAGE}"))

    assert Done("images", str(pod)).code == 0
    assert Done("images", str(pod), "--strict").code == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", ""),
        ("explain", ""),
        ("explain", CLUSTER, "-f", ""),
        ("images", ""),
        ("review", "", CLUSTER),
        ("review", CLUSTER, ""),
        ("check", CLUSTER, "-o", ""),
        ("check", CLUSTER, "--html", ""),
    ],
)
def test_an_empty_path_is_refused(arguments: Sequence[str]) -> None:
    done = Done(*arguments)

    assert (done.code, done.out) == (2, "")
    assert "must name a file or folder, got ''" in done.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full, which only Linux has")
@pytest.mark.parametrize("arguments", [("check", CLUSTER), ("--help",), ("schema",), ("check", "--help")])
def test_a_full_output_is_said_in_one_line(arguments: Sequence[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*CONSOLE, *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    assert done.returncode == 2
    assert done.stderr == "gpu-constructs: standard output must be writable, got No space left on device\n"


@pytest.mark.skipif(not Path("/dev/tty").exists(), reason="no devices, which Windows does not have")
@pytest.mark.parametrize("device", ["/dev/null", "/dev/zero", "/dev/tty"])
def test_a_device_is_refused(device: str) -> None:
    done = Done("check", device)

    assert (done.code, done.out) == (2, "")
    assert f"'{device}': must be a readable file or folder, got a device" in done.err


@pytest.mark.skipif(not os.access("/proc/kmsg", os.R_OK), reason="no /proc/kmsg that this user can read")
def test_a_file_that_waits_for_its_content_is_refused() -> None:
    assert as_process("check", "/proc/kmsg", timeout=30).returncode == 2


COMMANDS = re.compile(r"^\s*::|##\w*\[", re.MULTILINE)


@pytest.fixture(scope="module")
def shouting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pods whose names would be commands of a CI system at the start of a wrapped line."""
    names = ["y" * count + " ::error file=a::pwned" for count in range(30, 111)]
    names += ["##[set-output name=ok;]true", "##[error]x", "###[error]x", "##vso[task.setvariable variable=x]y"]
    resources = {"limits": {"nvidia.com/gpu": 1}}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "a", "image": "b", "resources": resources}]},
        }
        for name in names
    ]
    file = tmp_path_factory.mktemp("shouting") / "pods.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
    return file


@pytest.mark.parametrize(
    ("command", "form"),
    [
        *((command, form) for command in ("check", "review") for form in JUDGED if form not in ("github", "junit")),
        *(("explain", form) for form in (*PLAIN, "html")),
        *(("images", form) for form in PLAIN),
    ],
)
def test_no_name_is_a_command_of_a_ci_system(shouting: Path, command: str, form: str, tmp_path: Path) -> None:
    paths = [CLUSTER, str(shouting)] if command == "review" else [str(shouting)]
    done = Done(command, *paths, "--format", form)
    Done(command, *paths, "--format", form, "-o", str(tmp_path / "out"))

    assert "error" in done.out
    assert not COMMANDS.search(done.out)
    assert not COMMANDS.search((tmp_path / "out").read_text())
    if form == "json":
        assert "##[error]x" in str(done.json)


def test_no_message_is_a_command_of_a_ci_system() -> None:
    done = Done("check", "##[error]missing")

    assert done.code == 2
    assert not COMMANDS.search(done.err)


LONG = json.dumps(
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "n" * 200_000},
        "spec": {"containers": [{"name": "a", "image": "i" * 200_000, "resources": {"limits": {"nvidia.com/gpu": 1}}}]},
    }
)


def test_a_long_name_is_cut(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(LONG)

    for command in ("check", "explain"):
        assert len(Done(command, str(tmp_path / "pod.yaml")).out) < 5_000
    assert "i" * 200 + "..." in re.sub(r"\s+", "", Done("check", str(tmp_path / "pod.yaml")).out)


def test_a_number_of_very_many_digits_is_refused_in_the_librarys_words(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"a": ' + "1" * 5000 + "}")

    done = Done("check", str(tmp_path / "x.json"))

    assert done.err.endswith("x.json: must be JSON, got a number of more than 100 digits\n")


@pytest.mark.parametrize("command", ["check", "explain", "images"])
def test_a_logical_id_may_have_a_slash(tmp_path: Path, command: str) -> None:
    file = tmp_path / "x.template.json"
    file.write_text(json.dumps({"Resources": {"a/b": {"Type": "AWS::EKS::Cluster", "Properties": {}}}}))

    done = Done(command, str(file))

    assert (done.code, done.err) == (0, "")

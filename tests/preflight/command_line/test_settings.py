"""Settings in a file, and the options that choose and accept findings."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.command_line.parameter_types import JUDGED
from tests.preflight.command_line.test_cli import Done
from tests.preflight.rule_cases import FIXTURES

FAULTY = FIXTURES / "GPU001" / "fails_cpu_image_on_an_l4.yaml"
PLAN = '{"format_version": "1.2", "terraform_version": "1.9", "planned_values": {}}'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose only template has an error of GPU001, as the current folder."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(FAULTY, tmp_path / "app.yaml")
    return tmp_path


def findings(*arguments: str) -> dict[str, str | None]:
    """Return why each finding is accepted, by rule."""
    return {each["id"]: each["acknowledged"] for each in Done("check", *arguments, "--format", "json").json["findings"]}


def errors(*arguments: str) -> list[str]:
    """Return the lines on standard error of a command that ends with 2, of which each must be one line."""
    done = Done(*arguments)
    assert (done.code, done.out) == (2, "")
    return done.err.splitlines()


def write(text: str, name: str = "gpu-constructs.toml") -> None:
    Path(name).write_text(text)


@pytest.mark.parametrize(
    ("name", "table", "prefix"),
    [
        ("gpu-constructs.toml", "", ""),
        ("pyproject.toml", "[tool.gpu-constructs]\n", "tool.gpu-constructs."),
    ],
)
def test_settings_are_found_in_a_folder_above(
    name: str, table: str, prefix: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(f'{table}paths = ["app.yaml"]\n[{prefix}ignore]\nGPU001 = "known"\n', name)
    (folder / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(folder / "deep" / "er")

    assert findings()["GPU001"] == "known"


def test_the_own_file_wins_over_the_shared_one_and_the_nearest_over_both(folder: Path) -> None:
    write('[ignore]\nGPU001 = "own"\n')
    write('[tool.gpu-constructs.ignore]\nGPU001 = "shared"\n', "pyproject.toml")
    assert findings("app.yaml")["GPU001"] == "own"

    Path("gpu-constructs.toml").rename(folder.parent / "gpu-constructs.toml")
    assert findings("app.yaml")["GPU001"] == "shared"
    (folder.parent / "gpu-constructs.toml").unlink()


def test_a_file_above_that_may_not_be_read_is_passed_over(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write('[ignore]\nGPU001 = "known"\n')
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / "below")
    opened = Path.open

    def refuse(self: Path, *arguments: Any, **options: Any) -> Any:
        if self.name == "gpu-constructs.toml":
            raise PermissionError
        return opened(self, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse)

    assert findings("../app.yaml")["GPU001"] is None


def test_a_project_file_without_the_table_has_no_settings() -> None:
    write("broken [", "pyproject.toml")

    assert findings("app.yaml")["GPU001"] is None


def test_the_command_line_wins_and_can_leave_the_file_out() -> None:
    write('fail-on = "never"\n[ignore]\nGPU002 = "known"\n')
    assert Done("check", "app.yaml").code == 0
    assert Done("check", "app.yaml", "--fail-on", "error").code == 1
    assert Done("check", "app.yaml", "--no-config").code == 1

    write('fail-on = "never"\n', "other.toml")
    assert Done("check", "app.yaml", "--config", "other.toml").code == 0
    assert "leave one out" in errors("check", "app.yaml", "--config", "other.toml", "--no-config")[0]


def test_parameters_on_the_command_line_replace_one_by_one() -> None:
    write('[parameters]\nOne = 1\nTwo = "b"\n')

    done = Done("check", "app.yaml", "--show-settings", "--parameter", "Two=c")

    assert 'parameters = {"One" = "1", "Two" = "c"}  # command line' in done.out


def test_a_parameter_in_settings_that_this_input_lacks_is_a_warning() -> None:
    write("[parameters]\nElsewhere = 1\n")

    done = Done("check", "app.yaml")

    assert done.code == 1
    assert "parameters in the settings: each must name a parameter of a template (none), got 'Elsewhere'" in done.err


def test_each_setting_is_shown_with_its_origin() -> None:
    write(
        'strict = true\nselect = ["GPU0", "361"]\n[[ignore-at]]\nrule = "GPU001"\nfile = "app.yaml"\nreason = "known"\n'
    )

    lines = Done("check", "app.yaml", "--show-settings", "--ignore", "GPU002=ours").out.splitlines()

    assert lines[0] == "# settings file: gpu-constructs.toml"
    assert {
        'paths = ["app.yaml"]  # command line',
        'select = ["GPU0", "GPU361"]  # gpu-constructs.toml',
        'fail-on = "error"  # default',
        "strict = true  # gpu-constructs.toml",
        'ignore.GPU002 = "ours"  # command line',
        'ignore-at = [{rule = "GPU001", file = "app.yaml", reason = "known"}]  # gpu-constructs.toml',
    } <= set(lines)


@pytest.mark.parametrize(
    ("place", "accepted"),
    [
        ('file = "app.yaml"', True),
        ('file = "*.yaml"', True),
        ('file = "other"', False),
        ('path = "app/*"', True),
        ('path = "other/*"', False),
    ],
)
def test_a_rule_is_ignored_at_a_file_or_a_path(place: str, accepted: bool) -> None:
    write(f'[[ignore-at]]\nrule = "GPU001"\nreason = "known"\n{place}\n')

    assert findings("app.yaml")["GPU001"] == ("known" if accepted else None)


@pytest.mark.parametrize(
    ("place", "arguments", "where"),
    [
        ('path = "app/*"', ["app.yaml"], ""),
        ('path = "other/*"', ["app.yaml"], " at other/*"),
        ('file = "app.yaml"', ["app.yaml"], ""),
        ('file = "gone.yaml"', ["app.yaml"], " in gone.yaml"),
        ('path = "x"\nfile = "app.yaml"', ["app.yaml"], " at x in app.yaml"),
        ('file = "other.yaml"', ["app.yaml"], ""),
        ('file = "other.yaml"', ["."], " in other.yaml"),
        ('file = "o*.yaml"', ["app.yaml"], ""),
        ('file = "o*.yaml"', ["."], " in o*.yaml"),
    ],
)
def test_a_place_in_the_settings_that_accepts_nothing_is_reported(
    place: str, arguments: list[str], where: str, folder: Path
) -> None:
    (folder / "other.yaml").write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: other}}")
    write(f'[[ignore-at]]\nrule = "GPU001"\nreason = "known"\n{place}\n')

    told = Done("check", *arguments).err

    line = f"gpu-constructs: gpu-constructs.toml: acknowledgement of GPU001{where} accepts nothing; remove it\n"
    assert told == (line if where else "")


def test_a_rule_that_is_ignored_everywhere_may_find_nothing() -> None:
    write('[ignore]\nGPU009 = "not used here"\n')

    assert Done("check", "app.yaml").err == ""


def test_a_folder_stands_for_its_files(folder: Path) -> None:
    (folder / "old").mkdir()
    (folder / "app.yaml").rename(folder / "old" / "app.yaml")
    write('[[ignore-at]]\nrule = "GPU001"\nreason = "known"\nfile = "old"\n')

    assert findings("old/app.yaml")["GPU001"] == "known"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ignroe = 1", "got 'ignroe'; did you mean 'ignore'?"),
        ("paths = 1", "paths must be a list of paths, got 1"),
        ("strict = 1", "strict must be true or false, got 1"),
        ('fail-on-replace = "no"', "fail-on-replace must be true or false, got 'no'"),
        ("max-usd-per-month = true", "max-usd-per-month must be a number, got True"),
        ("fail-on = 1", "fail-on must be a word, got 1"),
        ('[ignore]\nGPU0O1 = "x"', "ignore: rule must be a rule's id, got 'GPU0O1'; did you mean 'GPU001'?"),
        ('[ignore]\nGPU001 = " "', "ignore: GPU001 must have a reason"),
        ("[ignore]\nGPU001 = 1", "ignore: reason must be a text, got 1"),
        ('[[ignore-at]]\nrule = "GPU001"\nreason = "x"', "must have a path or a file, got none"),
        ('[[ignore-at]]\nrule = "GPU001"\npaths = "x"', "got 'paths'; did you mean 'path'?"),
        (
            'fail-on = "warn"',
            "fail-on: must be one of error, warning, unknown, never, got 'warn'; did you mean 'warning'?",
        ),
        ('select = ["GPU9"]', "select: must be rule ids or their beginnings"),
        ("a = [", "must be TOML, got"),
        (f"a = {'1' * 5000}", "must be TOML, got"),
    ],
)
def test_a_wrong_setting_is_one_line_with_the_file(text: str, message: str) -> None:
    write(text)

    [line] = errors("check", "app.yaml")

    assert line.startswith("gpu-constructs: gpu-constructs.toml: ")
    assert message in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--ignore", "GPU001"), "GPU001 must have a reason, got ''; write GPU001='why you accept it'"),
        (("--ignore", "GPU0O1=x"), "RULE must be a rule's id, got 'GPU0O1'; did you mean 'GPU001'?"),
        (("--select", "GPU36O"), "got 'GPU36O'; did you mean 'GPU360'?"),
        (("--select", ","), "must name a rule, got ','"),
        (("--baseline", "none.json"), "No such file or directory; 'gpu-constructs check --write-baseline none.json'"),
        (("--config", "none.toml"), "name a gpu-constructs.toml or a pyproject.toml"),
        (("--config", "app.yaml"), "app.yaml: must be TOML"),
        (("--cluster", "elsewhere"), "--cluster must be one of"),
    ],
)
def test_an_option_that_cannot_be_used_is_one_line(arguments: tuple[str, ...], message: str) -> None:
    [line] = errors("check", "app.yaml", *arguments)

    assert message in line


@pytest.mark.parametrize(
    ("file", "advice"), [("no/x.json", "create the folder no"), (".", "name a file in it"), ("app.yaml/x", "create")]
)
def test_a_report_that_cannot_be_written_is_one_line(file: str, advice: str) -> None:
    done = Done("check", "app.yaml", "--also", f"json={file}")

    assert done.code == 2
    [line] = done.err.splitlines()
    assert advice in line


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"version": 2, "entries": []}, "must have version 1, got 2 of a newer release; upgrade gpu-constructs"),
        ({"version": 1}, "must have version 1 and a list of entries; delete it, then write it"),
        ([], "must have version 1 and a list of entries"),
        ({"version": 1, "entries": [3]}, "entries[0]: must be an object"),
        ({"version": 1, "entries": [{"rul": "GPU001"}]}, "got 'rul'; did you mean 'rule'?"),
    ],
)
def test_a_baseline_that_cannot_be_used_is_one_line(content: Any, message: str) -> None:
    Path("b.json").write_text(json.dumps(content))

    [line] = errors("check", "app.yaml", "--baseline", "b.json")

    assert message in line


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("rule", "GPU0O1", "did you mean 'GPU001'?"),
        ("reason", " ", "must have a reason"),
        ("kind", "eror", "did you mean 'error'?"),
        ("date", "today", "date must be a day"),
        ("count", 0, "count must be a whole number of at least 1"),
        ("path", 1, "path must be a text, got 1"),
    ],
)
def test_a_broken_entry_is_named(key: str, value: Any, message: str) -> None:
    entry = {
        "rule": "GPU001",
        "kind": "error",
        "path": "x",
        "file": "x",
        "reason": "x",
        "date": "2026-11-26",
        key: value,
    }
    Path("b.json").write_text(json.dumps({"version": 1, "entries": [entry]}))

    [line] = errors("check", "app.yaml", "--baseline", "b.json")

    assert line.startswith("gpu-constructs: b.json: entries[0]: ")
    assert message in line


HIDING = {
    "--ignore": "1 error hidden by --ignore",
    "settings": "1 error hidden by settings",
    "comment": "1 error hidden by comments",
    "baseline": "hidden by the baseline",
    "selection": "1 error",
}


def hide(by: str) -> list[str]:
    """Hide the error in the way, and return the options for it."""
    if by == "--ignore":
        return ["--ignore", "GPU001=known"]
    if by == "settings":
        write('[ignore]\nGPU001 = "known"\n')
    if by == "comment":
        file = Path("app.yaml")
        file.write_text(file.read_text().replace("AmiType:", "# gpu-constructs: ignore GPU001 known\n      AmiType:"))
    if by == "baseline":
        assert Done("check", "app.yaml", "--write-baseline", "b.json").code == 0
        return ["--baseline", "b.json"]
    return ["--select", "GPU048"] if by == "selection" else []


@pytest.mark.parametrize("form", JUDGED)
@pytest.mark.parametrize("by", HIDING)
def test_every_format_counts_what_is_hidden_and_none_says_that_the_check_passes(by: str, form: str) -> None:
    options = hide(by)

    done = Done("check", "app.yaml", *options, "--format", form)

    assert "GPU check passes" not in done.out
    assert "\N{WHITE HEAVY CHECK MARK} GPU check" not in done.out
    if form == "json":
        assert [(each["by"].replace("comments", "comment"), each["errors"]) for each in done.json["hidden"]] == [
            (by, 1)
        ]
    else:
        assert HIDING[by] in " ".join(done.out.split())
    assert done.code == 0


@pytest.mark.parametrize("by", HIDING)
def test_nothing_that_hides_a_finding_changes_explain(by: str) -> None:
    before = Done("explain", "app.yaml").out
    options = hide(by)

    assert Done("explain", "app.yaml").out == before
    if by in ("--ignore", "baseline", "selection"):
        assert options
        assert f"got '{options[0]}'" in errors("explain", "app.yaml", *options)[0]


def test_clusters_in_settings_hide_no_workload_from_explain() -> None:
    Path("other.yaml").write_text(Path("app.yaml").read_text().replace("Name: demo", "Name: second"))
    before = Done("explain", "app.yaml", "other.yaml", "--format", "json")
    names = [each["name"] for each in before.json["clusters"]]
    write(f"clusters = [{names[0]!r}]\n")

    assert len(set(names)) == 2
    assert Done("explain", "app.yaml", "other.yaml", "--format", "json").out == before.out


def test_review_counts_what_is_hidden_and_accepts_files_in_other_folders(folder: Path) -> None:
    Done("check", "app.yaml", "--write-baseline", "b.json")
    for side in ("before", "after"):
        (folder / side).mkdir()
        shutil.copy("app.yaml", folder / side)

    plain = Done("review", "before/app.yaml", "after/app.yaml")
    adopted = Done("review", "before/app.yaml", "after/app.yaml", "--baseline", "b.json")

    assert (plain.code, adopted.code) == (1, 0)
    assert "GPU review passes" not in adopted.out
    assert "hidden by the baseline" in " ".join(adopted.out.split())


@pytest.mark.parametrize("content", ["{", "[]", '{"version": 1, "entries": [1]}'])
def test_a_corrupt_baseline_is_written_again_as_its_error_says(folder: Path, content: str) -> None:
    baseline = folder / "b.json"
    baseline.write_text(content)
    done = Done("check", "app.yaml", "--write-baseline", "b.json")

    assert done.code == 2
    assert "delete it, then write it with 'gpu-constructs check --write-baseline b.json'" in done.err
    baseline.unlink()
    assert Done("check", "app.yaml", "--write-baseline", "b.json").code == 0


@pytest.mark.parametrize(("name", "accepted"), [("app.yaml", True), ("my-app.yaml", False)])
def test_a_setting_for_a_file_accepts_no_other_file_in_a_review(folder: Path, name: str, accepted: bool) -> None:
    write('[[ignore-at]]\nrule = "GPU001"\nfile = "app.yaml"\nreason = "known"\n')
    for side in ("before", "after"):
        (folder / side).mkdir()
        shutil.copy("app.yaml", folder / side / name)

    view = Done("review", "before", "after", "--format", "json").json

    assert bool(view["hidden"]) is accepted


def test_a_selection_states_how_many_rules_were_selected() -> None:
    done = Done("check", "app.yaml", "--select", "GPU361")

    assert "only 1 of " in done.out
    assert Done("check", "app.yaml", "--select", "GPU361", "--format", "json").json["ruleSelection"]["selected"] == 1


def test_rules_are_searched_in_any_case_and_by_severity() -> None:
    found = Done("rules", "--search", "NVME", "--severity", "note", "--format", "json").json["rules"]

    assert "GPU049" in {each["id"] for each in found}
    assert {each["severity"] for each in found} == {"note"}
    assert all("nvme" in f"{each['title']} {each['why']} {each['fix']}".lower() for each in found)
    assert "got none with severity note and 'qqq' in it" in errors("rules", "--search", "qqq", "--severity", "note")[0]


@pytest.mark.parametrize("name", ["main.tf", "plan.json", "terraform.tfstate", "saved", "-"])
def test_terraform_is_named_with_what_to_do(name: str, folder: Path) -> None:
    block = 'resource "aws_eks_cluster" "a" {\n  name = "x"\n}\n'
    content = {"main.tf": block, "saved": "PK\x03\x04 tfplan \ud800"}.get(name, PLAN)
    if name != "-":
        (folder / name).write_bytes(content.encode(errors="surrogatepass"))

    done = Done("check", name, given=block if name == "-" else None)

    assert (done.code, done.out) == (2, "")
    [line] = done.err.splitlines()
    assert "got a Terraform file; Terraform isn't supported: check the manifests and charts" in line


def test_a_folder_of_terraform_is_named_too(folder: Path) -> None:
    (folder / "infra").mkdir()
    (folder / "infra" / "main.tf").write_text("")

    assert "Terraform isn't supported" in errors("check", "infra")[0]


def test_a_repository_root_is_read_and_what_is_skipped_is_listed(folder: Path) -> None:
    for name, text in {
        "node_modules/a/broken.json": "{",
        ".github/workflows/ci.yml": "on: push",
        "infra/main.tf": "",
        "site.yml": "a: !!python/name:x\n\t- b",
        "tsconfig.json": "{}",
        "cdk.out/manifest.json": json.dumps(
            {
                "artifacts": {
                    "Other": {
                        "type": "aws:cloudformation:stack",
                        "environment": "aws://unknown-account/unknown-region",
                        "properties": {"templateFile": "Other.template.json"},
                    }
                }
            }
        ),
        "cdk.out/Other.template.json": '{"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}',
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)

    done = Done("check", ".", "--format", "json")

    assert "GPU001" in {each["id"] for each in done.json["findings"]}
    assert {each["what"]: each["names"] for each in done.json["skipped"]} == {
        "hidden files and folders": [".github"],
        "folders of dependencies": ["node_modules"],
        "Terraform files": [str(Path("infra/main.tf"))],
        "files that aren't YAML or JSON": ["site.yml"],
        "files without a template or objects": ["tsconfig.json"],
    }
    for form in JUDGED:
        assert "tsconfig.json" in Done("check", ".", "--format", form).out


def test_a_manifest_in_a_folder_that_cannot_be_parsed_is_an_error(folder: Path) -> None:
    (folder / "broken.yaml").write_text("apiVersion: v1\nkind: Pod\n\tname: x\n")

    assert "broken.yaml: must be YAML or JSON" in errors("check", ".")[0]

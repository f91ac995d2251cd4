"""Write the changes of examples that snapshots of `review` are of: synthesize both sides, and store their difference.

    python -m tools.write_review_diffs

Each example's template is stored once. Each side of a change is a merge patch of it (RFC 7386).
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.apps import run_program

_ROOT = Path(__file__).parents[1]
FOLDER = _ROOT / "tests" / "preflight" / "report" / "diffs"


def main() -> None:
    """Write every change."""
    changes = yaml.safe_load((FOLDER / "diffs.yaml").read_text())
    templates: dict[str, Any] = {}
    for name, change in changes.items():
        example = change["example"]
        if example not in templates:
            templates[example] = _synthesize(example, {})
            write(FOLDER / f"{example}.example.json", templates[example])
        sides = {
            side: merge_patch(templates[example], _synthesize(example, change[side]))
            for side in ("before", "after")
            if side in change
        }
        write(FOLDER / f"{name}.diff.json", sides)


def _synthesize(example: str, edits: Mapping[str, str]) -> dict[str, Any]:
    """Return the template of an edited example, and the region of its stack."""
    program = (_ROOT / "examples" / example / "app.py").read_text()
    for old, new in edits.items():
        if old not in program:
            raise SystemExit(f"{example}: must have {old!r}, which an edit replaces")
        program = program.replace(old, new)
    with tempfile.TemporaryDirectory() as folder:
        output = run_program(program, Path(folder))
        [template] = output.glob("*.template.json")
        manifest = json.loads((output / "manifest.json").read_text())
        found = json.loads(template.read_text())
        stack = template.name.partition(".")[0]
        paths = _construct_paths(output, manifest["artifacts"][stack])
    resources = {key: each for key, each in found["Resources"].items() if each["Type"] != "AWS::CDK::Metadata"}
    return {
        "stack": stack,
        "environment": manifest["artifacts"][stack]["environment"],
        "paths": {key: path for key, path in paths.items() if key in resources},
        "template": {"Resources": resources, **({"Outputs": found["Outputs"]} if "Outputs" in found else {})},
    }


def _construct_paths(output: Path, artifact: Mapping[str, Any]) -> dict[str, str]:
    """Return the path of each construct, by logical id."""
    metadata = dict(artifact.get("metadata", {}))
    if file := artifact.get("additionalMetadataFile"):
        metadata |= json.loads((output / file).read_text())
    return {
        entry["data"]: path
        for path, entries in metadata.items()
        for entry in entries
        if entry["type"] == "aws:cdk:logicalId"
    }


def merge_patch(old: Any, new: Any) -> Any:
    """Return what turns one value into another one: mappings differ by key, and null removes a key."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    removed = {key: None for key in old if key not in new}
    changed = {key: merge_patch(old.get(key), each) for key, each in new.items() if key not in old or old[key] != each}
    return removed | changed


def write(file: Path, content: Any) -> None:
    """Write JSON with a line for each part of a resource."""
    file.write_text(_lines(content, depth=4) + "\n")


def _lines(value: Any, depth: int) -> str:
    if not depth or not isinstance(value, dict) or not value:
        return json.dumps(value, sort_keys=True)
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {_lines(value[key], depth - 1)}" for key in sorted(value)) + "\n}"


if __name__ == "__main__":
    main()

"""Write docs/changes.md from the table of changes that tests try."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "changes.md"
CHANGES = ROOT / "tests" / "second_deployments" / "changes.yaml"
# ruff: noqa: E501 - rows of a table are one line each
HEAD = """# What happens when you change an option

For each option of each public class: what a second deployment does when only this option changes. A test deploys each
change to templates and compares them with CloudFormation's schemas and the fields that Kubernetes keeps immutable. No
row was tried in an AWS account ([evidence.md](evidence.md)). `gpu-constructs review OLD NEW` reports the same classes for your own change.

| class | meaning |
|---|---|
| in place | resources and objects are updated, added or removed. Pods of a changed Deployment and nodes of a changed group are replaced one after the other |
| replaced | a new resource or object is created, and the old one is deleted after everything else has succeeded |
| fails | AWS or Kubernetes rejects the update, and the deployment is rolled back |
| destructive | data or a run that has not ended is lost |
| rejected | `cdk synth` rejects the change |
| none | the template stays the same |

The table doesn't have the combinations that CloudFormation rejects in one update of a managed node group, such as tags
together with the launch template ([one kind of change a deployment](upgrades.md#one-kind-of-change-a-deployment)), and not
subnets whose blocks would overlap. `review` reports the former as refused.

With another `cluster`, everything is created in the new cluster and deleted from the old one. This page is written by
`make changes`.
"""


@dataclass(frozen=True)
class Row:
    """Options of a class whose change is of one class.

    Attributes:
        options: Their names.
        change: The class of the change.
        of: Kinds of the resources and objects with that change; none where it goes without saying.
        how: What to know, or to do instead.
    """

    options: tuple[str, ...]
    change: str
    of: tuple[str, ...] = ()
    how: str = ""


def rows() -> dict[str, list[Row]]:
    """Return the rows of each class."""
    read = yaml.safe_load(CHANGES.read_text())
    return {
        name: [
            Row(tuple(each["options"]), each["change"], tuple(each.get("of", ())), each.get("how", ""))
            for each in found
        ]
        for name, found in read.items()
    }


def document() -> str:
    """Return the page."""
    parts = [f"## {name}\n\n" + "\n".join(_table(found)) + "\n" for name, found in sorted(rows().items(), key=_name)]
    return "\n".join([HEAD, *parts])


def _name(entry: tuple[str, list[Row]]) -> str:
    return entry[0].lower()


def _table(found: Iterable[Row]) -> list[str]:
    lines = ["| options | class | what to know |", "|---|---|---|"]
    for each in found:
        options = ", ".join(f"`{option}`" for option in each.options)
        what = ". ".join(part for part in (", ".join(each.of), each.how) if part)
        lines.append(f"| {options} | {each.change} | {what} |")
    return lines


if __name__ == "__main__":
    DOCUMENT.write_text(document())

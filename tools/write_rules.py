"""Write docs/reference/rules.md from the rules themselves, and from the causes that no rule finds."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import yaml

from gpu_preflight.rule import Rule
from gpu_preflight.rules import rules

_ROOT = Path(__file__).parents[1]
CAUSES = _ROOT / "tests" / "preflight" / "known_causes.yaml"
DOCUMENT = _ROOT / "docs" / "reference" / "rules.md"
HEAD = """# Rules

The faults that `gpu-constructs check` and `check_gpus(app)` find. An **error** keeps a GPU pod from running or a stack
from deploying. A **warning** may do so, or costs money without a running pod. A **note** is worth knowing. If a value
isn't in the input, or is known only at deployment, a finding is marked "may be true" and fails only with `--strict`.

[Ways to accept a finding](checker.md#ways-to-accept-a-finding) lists the places for a reason. `make rules` writes this
page.
"""


def document() -> str:
    """Return the page."""
    every = list(rules().values())
    return "\n".join([HEAD, *index(every), "", *(section(each) for each in every), *unreachable()]) + "\n"


def index(every: Iterable[Rule]) -> list[str]:
    """Return the table of all rules."""
    rows = [f"| [{each.id}](#{each.id.lower()}) | {each.severity} | {each.title} |" for each in every]
    return ["| rule | severity | fault |", "|---|---|---|", *rows]


def section(rule: Rule) -> str:
    """Return the section of a rule."""
    source = f"<{rule.source}>" if rule.source.startswith("https://") else f"`{rule.source}`"
    return f"""## {rule.id}

**{rule.title}** ({rule.severity}). {rule.why}

Fix: {rule.fix}

Source: {source}
"""


def unreachable() -> list[str]:
    """Return the table of causes that no template shows."""
    causes = yaml.safe_load(CAUSES.read_text())["causes"]
    rows = [f"| {each['cause']} | {each['out_of_reach']} |" for each in causes if "out_of_reach" in each]
    head = [
        "## Out of static reach",
        "",
        "Causes that keep GPU pods Pending and that templates and manifests don't show.",
    ]
    return [*head, "", "| cause | why the checker can't find it |", "|---|---|", *rows]


if __name__ == "__main__":
    DOCUMENT.write_text(document())

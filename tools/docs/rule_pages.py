"""One page per rule, with examples from its fixtures, and the index by subject and severity."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from itertools import groupby

from gpu_preflight.rule import RETIRED, SEVERITIES, Rule
from gpu_preflight.rules import rules
from tests.preflight.rule_cases import CASES, RULES, case_texts
from tools.docs.markdown import ROOT, Pages, fenced, linked_source, table
from tools.write_rules import unreachable

_MESSAGES = ROOT / "tests" / "preflight" / "__snapshots__" / "test_rules" / "test_messages.txt"
# A longer passing example is shown as its difference from the failing one.
_MAX_LINES = 20
HEAD = """# Rules

`gpu-constructs check` and `check_gpus(app)` apply {count} rules. Each rule has a page with an example that fails and an
example that passes.

* An **error** keeps a GPU pod from running or a stack from deploying.
* A **warning** may do so, or costs money while no pod runs.
* A **note** is worth knowing.

A finding whose values aren't in the input is marked "may be true". It doesn't fail the check, unless you pass
`--strict`. [Ways to accept a finding](checker.md#ways-to-accept-a-finding) lists the places for a reason.

`gpu-constructs rules GPU010` prints a rule in the terminal.
"""


@dataclass(frozen=True)
class Example:
    """A fixture of a rule.

    Attributes:
        name: Name of the fixture, without suffix.
        case: The case, in a few words.
        text: The file, without the line of the case.
    """

    name: str
    case: str
    text: str

    @property
    def size(self) -> tuple[int, int, str]:
        """Lines, characters and name, by which the smallest is found."""
        return self.text.count("\n"), len(self.text), self.name


def rule_pages() -> Pages:
    """Return the index, and a page for each rule."""
    examples = _examples()
    messages = _messages()
    every = list(rules().values())
    pages = {f"reference/rules/{rule.id.lower()}.md": _page(rule, examples[rule.id], messages) for rule in every}
    return {"reference/rules.md": _index(every), **pages}


def _index(every: list[Rule]) -> str:
    parts = [HEAD.format(count=len(every))]
    parts.append("## By severity\n")
    for severity in SEVERITIES:
        found = [rule for rule in every if rule.severity == severity]
        links = ", ".join(f"[{rule.id}](rules/{rule.id.lower()}.md)" for rule in found)
        parts.append(f"**{severity}** ({len(found)}): {links}\n")
    parts.append("## By subject\n")
    for module, same in groupby(sorted(every, key=lambda rule: (_subject(rule), rule.id)), key=_subject):
        parts.append(f"### {module}\n")
        rows = [[f"[{rule.id}](rules/{rule.id.lower()}.md)", rule.severity, rule.title] for rule in same]
        parts.append(table(("rule", "severity", "title"), rows))
    parts.append("## Retired rules\n\nAn id is never used again.\n")
    rows = [[id, old.title, old.date, ", ".join(old.now) or old.why] for id, old in RETIRED.items()]
    parts.append(table(("rule", "title", "retired on", "found now by"), rows))
    return "\n".join([*parts, *unreachable()]) + "\n"


def _page(rule: Rule, examples: list[Example], messages: dict[str, str]) -> str:
    # A certain finding before one that "may be".
    failing = [each for each in examples if each.name.startswith("fails_")]
    bad = min(failing, key=lambda each: ("(may be)" in messages.get(f"{rule.id}/{each.name}", ""), each.size))
    good, shown = _passing(bad, [each for each in examples if each.name.startswith("passes_")])
    message = messages.get(f"{rule.id}/{bad.name}")
    reported = f"The checker reports:\n\n{fenced('text', message)}" if message else ""
    return f"""# {rule.id}: {rule.title}

**{rule.severity.capitalize()}** · [{_subject(rule)}](../rules.md#{_anchor(_subject(rule))}) · [all rules](../rules.md)

{rule.why}

## Fix

{rule.fix}

## Example that fails

{bad.case}

{fenced("yaml", bad.text)}
{reported}
## Example that passes

{good.case}

{shown}
## Source

{linked_source(rule.source)}
"""


def _passing(bad: Example, passing: list[Example]) -> tuple[Example, str]:
    """Return the passing example that differs least from the failing one or is the smallest, and how to show it."""
    differences = {each: _difference(bad.text, each.text) for each in passing}
    nearest = min(passing, key=lambda each: (len(differences[each]), each.size))
    smallest = min(passing, key=lambda each: each.size)
    if smallest.size[0] <= _MAX_LINES or len(differences[nearest]) > smallest.size[0]:
        return smallest, fenced("yaml", smallest.text)
    return (
        nearest,
        f"Its difference from the example that fails:\n\n{fenced('diff', chr(10).join(differences[nearest]))}",
    )


def _difference(old: str, new: str) -> list[str]:
    return list(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm=""))[2:]


def _examples() -> dict[str, list[Example]]:
    found: dict[str, list[Example]] = {}
    for name, text in case_texts():
        id, _, file = name.partition("/")
        first, _, rest = text.partition("\n")
        case = first.removeprefix("#").strip()
        found.setdefault(id, []).append(Example(file.removesuffix(".yaml"), case, rest))
    assert found, f"{RULES} has no fixtures and no {CASES}"
    return found


def _messages() -> dict[str, str]:
    """Return the first message for each failing fixture; a test keeps this snapshot current."""
    found: dict[str, str] = {}
    for line in _MESSAGES.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"(GPU\d{3}/\w+): (.+)", line):
            found.setdefault(match[1], match[2])
    return found


def _subject(rule: Rule) -> str:
    module = rule.check.__module__
    text = module.rpartition(".")[2].replace("_", " ").capitalize()
    return re.sub(r"\b(gpu|efa)\b", lambda word: word[0].upper(), text, flags=re.IGNORECASE)


def _anchor(heading: str) -> str:
    return heading.lower().replace(" ", "-")

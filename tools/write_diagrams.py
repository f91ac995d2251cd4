"""Write the diagrams of the docs, light and dark: a pod from Pending to running, which pool, and effects of changes.

Rules and counts come from the code and from the change table, so a test finds a diagram that is out of date.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpu_preflight.rules import rules
from tools.write_changes import CHANGES, rows

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "pictures"
WIDTH = 480
STYLE = """\
    text { font: 13px -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #424a53 }
    .strong { font-weight: 600; font-size: 14px; fill: #1f2328 }
    .small { font-size: 11.5px }
    .mono { font: 11.5px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace }
    .middle { text-anchor: middle }
    .end { text-anchor: end }
    .box { fill: #f3f5f8; stroke: #d0d7de }
    .good { fill: #dafbe1; stroke: #1a7f37 }
    .care { fill: #fff8e1; stroke: #b58a1b }
    .bad { fill: #ffebe9; stroke: #cf222e }
    .line { stroke: #768390; stroke-width: 2; fill: none }
    .head { fill: #768390 }
    @media (prefers-color-scheme: dark) {
      text { fill: #b6bfc9 }
      .strong { fill: #f0f3f6 }
      .box { fill: #161b22; stroke: #3d444d }
      .good { fill: #12261e; stroke: #3fb950 }
      .care { fill: #2b2412; stroke: #b58a1b }
      .bad { fill: #2d1517; stroke: #f85149 }
    }"""


@dataclass(frozen=True)
class Step:
    """A step of a pod on its way to running.

    Attributes:
        actor: The component that acts.
        action: The action.
        failure: A common failure.
        rules: Ids of rules that report such a failure before deployment.
    """

    actor: str
    action: str
    failure: str
    rules: tuple[str, ...]


STEPS = (
    Step(
        "API server",
        "accepts the pod",
        "Invalid field, quota, missing PriorityClass",
        ("GPU405", "GPU130", "GPU370"),
    ),
    Step(
        "Scheduler",
        "finds no free node: Pending",
        "No pool matches taints, labels or size",
        ("GPU120", "GPU121", "GPU366"),
    ),
    Step(
        "Autoscaler",
        "chooses a pool",
        "No permission, unknown group, limit reached",
        ("GPU154", "GPU151", "GPU172"),
    ),
    Step("EC2", "launches an instance", "Quota, type not sold in the zone", ("GPU020", "GPU271", "GPU026")),
    Step(
        "Node",
        "boots and joins the cluster",
        "No route, no access entry, wrong user data",
        ("GPU075", "GPU070", "GPU055"),
    ),
    Step(
        "Device plugin",
        "advertises nvidia.com/gpu",
        "No driver, or the plugin doesn't run there",
        ("GPU001", "GPU006", "GPU010"),
    ),
    Step(
        "Kubelet",
        "pulls the image and starts it",
        "Disk too small, CUDA too new for the driver",
        ("GPU048", "GPU367", "GPU383"),
    ),
)


@dataclass(frozen=True)
class Question:
    """A question of the diagram "which pool", and the answer to yes."""

    text: tuple[str, ...]
    answer: str
    code: str


QUESTIONS = (
    Question(("AWS runs the controllers, and", "each pod uses whole GPUs?"), "EKS Auto Mode", "AutoMode()"),
    Question(
        ("Several instance types, or Spot", "with a fallback to on-demand?"),
        "Karpenter",
        "KarpenterNodePool",
    ),
    Question(
        ("A setting that managed node", "groups don't have?"),
        "Self-managed",
        "SelfManagedNodeGroup",
    ),
)
LAST = Question(("One or two instance types",), "Managed", "ManagedNodeGroup")
# From the safest to the most severe: the class of a change, and how a box of it looks.
CLASSES = (
    ("in place", "good"),
    ("pods restart", "care"),
    ("nodes replaced", "care"),
    ("replaced", "care"),
    ("rejected", "box"),
    ("left behind", "bad"),
    ("fails", "bad"),
    ("destructive", "bad"),
)


def main() -> None:
    """Write each diagram."""
    for file, text in diagrams().items():
        file.write_text(text)


def diagrams() -> dict[Path, str]:
    """Return each diagram by its file."""
    drawn = {
        "pending-to-running": ("A GPU pod from Pending to running", list(lifecycle())),
        "which-pool": ("Which kind of pool", list(which_pool())),
        "changes": ("What a changed option does", list(changes())),
    }
    return {FOLDER / f"{name}.svg": _svg(title, shapes) for name, (title, shapes) in drawn.items()}


def lifecycle() -> Iterator[str]:
    """Draw the actions until the container starts, and the rules that report failures."""
    known = rules()
    for number, step in enumerate(STEPS):
        absent = [each for each in step.rules if each not in known]
        if absent:
            raise ValueError(f"step {step.actor!r}: rules must exist, got {absent}")
        top = 10 + 78 * number
        if number:
            yield _arrow(38, top - 17, 38, top)
        yield _box("good" if step is STEPS[-1] else "box", 10, top, WIDTH - 20, 60)
        yield _text("strong middle", 38, top + 36, str(number + 1))
        yield _text("strong", 66, top + 19, step.actor)
        yield _text("", 66, top + 36, step.action)
        yield _text("small", 66, top + 52, step.failure)
        yield _text("mono end", WIDTH - 22, top + 19, "  ".join(step.rules))
    top = 10 + 78 * len(STEPS)
    yield _text(
        "small middle",
        WIDTH // 2,
        top + 2,
        "Third line: a common failure. Right: rules that report it before deployment.",
    )


def which_pool() -> Iterator[str]:
    """Draw three questions, and the kind of pool for each answer."""
    for number, question in enumerate(QUESTIONS):
        top = 10 + 92 * number
        yield _box("box", 10, top, 254, 60)
        yield from _lines(question.text, 20, top + 26)
        yield _arrow(264, top + 30, 302, top + 30)
        yield _text("small middle", 281, top + 24, "yes")
        yield from _pool(question, 302, top)
        yield _arrow(140, top + 60, 140, top + 92)
        yield _text("small", 148, top + 79, "no")
    top = 10 + 92 * len(QUESTIONS)
    yield _box("box", 10, top, 254, 60)
    yield from _lines(LAST.text, 20, top + 34)
    yield _arrow(264, top + 30, 302, top + 30)
    yield from _pool(LAST, 302, top)


def _pool(question: Question, left: int, top: int) -> Iterator[str]:
    yield _box("good", left, top, WIDTH - left - 10, 60)
    yield _text("strong", left + 12, top + 26, question.answer)
    yield _text("mono", left + 12, top + 46, question.code)


def changes() -> Iterator[str]:
    """Draw how many options have which class in the change table."""
    counts = Counter(row.change for found in rows().values() for row in found for _ in row.options)
    drawn = dict(CLASSES)
    unknown = set(counts) - set(drawn) - {"none"}
    if unknown:
        raise ValueError(f"{CHANGES}: classes must be among {', '.join(drawn)}, got {sorted(unknown)}")
    most = max(counts.values())
    for number, (name, look) in enumerate(CLASSES):
        top, width = 10 + 30 * number, max(round(260 * counts[name] / most), 12)
        yield _text("end", 116, top + 16, name)
        yield _box(look, 126, top, width, 22)
        yield _text("small", 134 + width, top + 16, f"{counts[name]} options")


def _box(look: str, left: int, top: int, width: int, height: int) -> str:
    return f'<rect class="{look}" x="{left}" y="{top}" width="{width}" height="{height}" rx="6"/>'


def _text(look: str, left: int, baseline: int, text: str) -> str:
    kind = f' class="{look}"' if look else ""
    return f'<text{kind} x="{left}" y="{baseline}">{text}</text>'


def _lines(texts: tuple[str, ...], left: int, baseline: int) -> Iterator[str]:
    return (_text("", left, baseline + 18 * number, each) for number, each in enumerate(texts))


def _arrow(left: int, top: int, right: int, bottom: int) -> str:
    return f'<path class="line" marker-end="url(#head)" d="M{left} {top} {right} {bottom}"/>'


def _svg(title: str, shapes: list[str]) -> str:
    ends = re.findall(r' y="(\d+)"(?: width="\d+" height="(\d+)")?', "".join(shapes))
    bottom = 10 + max(int(top) + int(height or 0) for top, height in ends)
    body = "\n".join(f"  {each}" for each in shapes)
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom}" role="img" aria-labelledby="title">
  <title id="title">{title}</title>
  <!-- Written by make picture. -->
  <style>
{STYLE}
  </style>
  <defs>
    <marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="4" markerHeight="4" orient="auto">
      <path class="head" d="M0 0 8 4 0 8z"/>
    </marker>
  </defs>
{body}
</svg>
"""


if __name__ == "__main__":
    main()

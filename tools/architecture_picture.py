"""The picture of docs/contributing: inputs go down the left side, results come up the right side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

WIDTH, SIDE, LEFT, RIGHT = 440, 146, 10, 284
MIDDLE, MIDDLE_WIDTH = 176, 88
TOP, PILL, PART, PADDING, GAP, HEAD, EDGE = 6, 42, 31, 7, 13, 22, 5
STYLE = """\
    text { font: 12px -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; text-anchor: middle; fill: #424a53 }
    .name { font: 600 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; fill: #1f2328 }
    .strong { font-weight: 600; font-size: 14px }
    .panel { fill: #f3f5f8; stroke: #d0d7de }
    .box { fill: #ffffff; stroke: #8c959f }
    .facts { fill: #fff8e1; stroke: #b58a1b }
    .pill { fill: #ddeeff; stroke: #2f7fd1 }
    .said { fill: #0a3069 }
    .arrow { stroke: #768390; stroke-width: 2; fill: none; marker-end: url(#head) }
    .head { fill: #768390 }
    @media (prefers-color-scheme: dark) {
      text { fill: #b6bfc9 }
      .name { fill: #f0f3f6 }
      .panel { fill: #161b22; stroke: #3d444d }
      .box { fill: #21262d; stroke: #6e7681 }
      .facts { fill: #2b2412; stroke: #b58a1b }
      .pill { fill: #10294a; stroke: #4c94e0 }
      .said { fill: #cfe5ff }
    }"""
TITLE = "Your app goes through the constructs into templates, manifests and charts, and through preflight into results"
HEADER = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="title">
  <title id="title">{title}</title>
  <!-- Written by make architecture. -->
  <style>
{style}
  </style>
  <defs>
    <marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="4" markerHeight="4" orient="auto">
      <path class="head" d="M0 0 8 4 0 8z"/>
    </marker>
  </defs>"""
# Lines of text: kind, distance from the one before, words.
LEGEND = (
    ("", 48, "Both sides"),
    ("", 15, "use"),
    ("", 15, "the facts."),
    ("", 30, "Neither side"),
    ("", 15, "imports"),
    ("", 15, "the other."),
    ("", 30, "Data goes"),
    ("", 15, "along the"),
    ("", 15, "arrows,"),
    ("", 15, "imports go"),
    ("", 15, "the other"),
    ("", 15, "way."),
)


@dataclass(frozen=True, slots=True)
class Part:
    """A folder or a module.

    Attributes:
        name: Its name.
        nouns: Important names that it defines.
        framed: Whether it is inside the panel of its side.
    """

    name: str
    nouns: tuple[str, ...]
    framed: bool = True


Layer = Sequence[Part]


def picture(constructs: Sequence[Layer], preflight: Sequence[Layer], facts: Part) -> str:
    """Return the picture as SVG. The output is deterministic.

    Args:
        constructs: Layers of the left side. Each imports from earlier ones.
        preflight: Layers of the right side. Each imports from earlier ones.
        facts: The base of both sides.
    """
    top = TOP + PILL + GAP
    bottom = top + max(_least(constructs), _least(preflight))
    end = bottom + GAP + EDGE
    left = _Side("constructs", constructs, LEFT, top, bottom)
    right = _Side("preflight", preflight[::-1], RIGHT, top, bottom)
    lines = [
        HEADER.format(width=WIDTH, height=_number(end + PILL + TOP), title=TITLE, style=STYLE),
        *_pill(LEFT, TOP, SIDE, "Your app", "nodes, pools and pods"),
        *_pill(RIGHT, TOP, SIDE, "Results", "runs, Pending, unknown"),
        *_pill(LEFT, end, WIDTH - 2 * LEFT, "cdk.out", "templates, manifests, charts; or your own files"),
        *left.drawn(TOP + PILL, end, down=True),
        *right.drawn(TOP + PILL, end, down=False),
        *_facts(facts, right.panel_top, bottom + EDGE),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _height(layer: Layer) -> float:
    return PADDING + PART * len(layer)


def _least(layers: Sequence[Layer]) -> float:
    return sum(map(_height, layers)) + GAP * (len(layers) - 1) + HEAD


@dataclass(frozen=True, slots=True)
class _Box:
    """The box of a layer, with its parts one below the other."""

    layer: Layer
    x: float
    y: float

    @property
    def bottom(self) -> float:
        return self.y + _height(self.layer)

    @property
    def middle(self) -> float:
        return self.x + SIDE / 2

    def drawn(self) -> Iterator[str]:
        yield _rectangle("box", self.x, self.y, SIDE, _height(self.layer))
        for number, part in enumerate(self.layer):
            top = self.y + PADDING / 2 + number * PART
            yield _text("name", self.middle, top + 13, part.name)
            yield _text("", self.middle, top + 27, ", ".join(part.nouns))


class _Side:
    """A column of boxes. The framed ones are in a panel with a name."""

    def __init__(self, name: str, layers: Sequence[Layer], x: float, top: float, bottom: float) -> None:
        self.name = name
        gap = (bottom - top - _least(layers)) / (len(layers) - 1) + GAP
        first = next(layer for layer in layers if layer[0].framed)
        self.boxes: list[_Box] = []
        y = top
        for layer in layers:
            y += HEAD if layer is first else 0
            self.boxes.append(_Box(layer, x, y))
            y += _height(layer) + gap

    @property
    def framed(self) -> list[_Box]:
        return [box for box in self.boxes if box.layer[0].framed]

    @property
    def panel_top(self) -> float:
        return self.framed[0].y - HEAD

    def drawn(self, start: float, end: float, *, down: bool) -> Iterator[str]:
        """Return it as SVG, with arrows from the start to the end, or back."""
        first, last = self.framed[0], self.framed[-1]
        yield _rectangle("panel", first.x - EDGE, self.panel_top, SIDE + 2 * EDGE, last.bottom + EDGE - self.panel_top)
        yield _text("strong", first.middle, self.panel_top + 16, self.name)
        tops = [self.panel_top if box is first else box.y for box in self.boxes]
        for above, below in zip([start, *(box.bottom for box in self.boxes)], [*tops, end], strict=True):
            yield _arrow(first.middle, *((above, below) if down else (below, above)))
        for box in self.boxes:
            yield from box.drawn()


def _facts(facts: Part, top: float, bottom: float) -> Iterator[str]:
    """Draw the base of both sides, and the legend of the arrows."""
    lines = (("name", 0, facts.name), *(("", 15, each) for each in facts.nouns), *LEGEND)
    y = start = (top + bottom - sum(gap for _, gap, _ in lines)) / 2
    yield _rectangle("facts", MIDDLE, top, MIDDLE_WIDTH, bottom - top)
    for kind, gap, words in lines:
        y += gap
        yield _text(kind, MIDDLE + MIDDLE_WIDTH / 2, y, words)
    for edge, target in ((MIDDLE, LEFT + SIDE + EDGE), (MIDDLE + MIDDLE_WIDTH, RIGHT - EDGE)):
        yield f'  <path class="arrow" d="M{edge} {_number(start - 4)} H{target}"/>'


def _pill(x: float, y: float, width: float, title: str, words: str) -> Iterator[str]:
    yield _rectangle("pill", x, y, width, PILL, round_=10)
    yield _text("strong said", x + width / 2, y + 18, title)
    yield _text("said", x + width / 2, y + 34, words)


def _rectangle(kind: str, x: float, y: float, width: float, height: float, *, round_: int = 5) -> str:
    size = f'width="{_number(width)}" height="{_number(height)}"'
    return f'  <rect class="{kind}" x="{_number(x)}" y="{_number(y)}" {size} rx="{round_}"/>'


def _text(kind: str, x: float, y: float, words: str) -> str:
    return f'  <text class="{kind}" x="{_number(x)}" y="{_number(y)}">{words}</text>'.replace(' class=""', "")


def _arrow(x: float, y: float, to: float) -> str:
    return f'  <path class="arrow" d="M{_number(x)} {_number(y)} V{_number(to)}"/>'


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")

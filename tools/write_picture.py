"""Write the pictures of `gpu-constructs explain` for README.md, light and dark, from a real run in a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "pictures"
ARGUMENTS = ("explain", "-f", "llama.yaml", "ml")
# Characters of a line: readable on a phone.
WIDTH = 64

Rgb = tuple[int, int, int]


def _theme(background: Rgb, foreground: Rgb, red: Rgb, green: Rgb, yellow: Rgb, cyan: Rgb) -> TerminalTheme:
    return TerminalTheme(background, foreground, [background, red, green, yellow, cyan, cyan, cyan, foreground])


THEMES = {
    "light": _theme((246, 248, 250), (10, 12, 16), (180, 20, 30), (17, 99, 41), (122, 77, 0), (5, 80, 174)),
    "dark": _theme((22, 27, 34), (240, 243, 246), (255, 129, 122), (86, 211, 100), (227, 179, 65), (121, 192, 255)),
}
# Like rich's own template, with local fonts and a window without buttons.
FORMAT = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="title">
  <title id="title">gpu-constructs explain: one pod, three pools</title>
  <!-- Written by make picture. -->
  <style>
    .{unique_id}-matrix {{
      font: {char_height}px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
    }}
    .{unique_id}-title {{ font: 18px -apple-system, "Segoe UI", Helvetica, Arial, sans-serif }}
{styles}
  </style>
  <defs>
    <clipPath id="{unique_id}-clip-terminal">
      <rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
    </clipPath>
{lines}
  </defs>
  {chrome}
  <g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
    <g class="{unique_id}-matrix">
{matrix}
    </g>
  </g>
</svg>
"""


def main() -> None:
    """Write both pictures."""
    for file, text in pictures().items():
        file.write_text(text)


def pictures() -> dict[Path, str]:
    """Return each picture by its file."""
    output = run_command()
    return {FOLDER / f"explain-{name}.svg": picture(output, theme) for name, theme in THEMES.items()}


def picture(output: str, theme: TerminalTheme) -> str:
    """Return a terminal with a command and its output, as SVG."""
    console = Console(record=True, width=WIDTH, file=StringIO())
    console.print(f"$ gpu-constructs {' '.join(ARGUMENTS)}", highlight=False)
    console.print(Text.from_ansi(output.rstrip()), soft_wrap=True)
    svg = console.export_svg(title="gpu-constructs explain", theme=theme, code_format=FORMAT, unique_id="explain")
    return "\n".join(line.strip() for line in svg.splitlines() if line.strip()) + "\n"


def run_command() -> str:
    """Run the command in a terminal, and return its output with colors.

    Raises:
        subprocess.CalledProcessError: The command fails.
    """
    terminal, inside = pty.openpty()
    command = [sys.executable, "-m", "gpu_constructs", *ARGUMENTS]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "COLUMNS": str(WIDTH), "TERM": "xterm"}
    # A warning that data is old depends on the day.
    run = subprocess.Popen(command, cwd=FOLDER, env=environment, stdin=inside, stdout=inside, stderr=subprocess.DEVNULL)
    os.close(inside)
    text = _read(terminal)
    if run.wait():
        raise subprocess.CalledProcessError(run.returncode, command, text)
    return text


def _read(terminal: int) -> str:
    """Return all output to a terminal until the writing process ends."""
    read = b""
    with os.fdopen(terminal, "rb", buffering=0) as open_one:
        while True:
            try:
                some = open_one.read(4096)
            except OSError:  # On Linux, the end of a terminal is an error. On other systems, it is empty output.
                some = b""
            if not some:
                return read.decode().replace("\r\n", "\n")
            read += some


if __name__ == "__main__":
    main()

"""Write the site: copy docs/, add the generated pages, build strictly, and put each page as Markdown next to it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from tools.docs.api_pages import api_pages
from tools.docs.markdown import ROOT, Pages, moved_links, summary_of, title_of, write
from tools.docs.rule_pages import rule_pages
from tools.docs.table_pages import table_pages

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SOURCE, SITE = ROOT / "build" / "docs", ROOT / "site"
CONFIG = ROOT / "zensical.toml"
# Pages outside docs/ that the site has, too.
OUTSIDE = {
    "CHANGELOG.md": "reference/changelog.md",
    "CONTRIBUTING.md": "contributing/index.md",
    "SECURITY.md": "contributing/security.md",
}
# Files and folders to which pages link, and the page of the site.
INSTEAD = {
    "README.md": "index.md",
    "docs": "index.md",
    "docs/how-to/guides": "how-to/guides/index.md",
    "docs/how-to/guides/README.md": "how-to/guides/index.md",
    "docs/contributing/decisions": "contributing/decisions/index.md",
}
# Too many for the navigation; the index of rules links to them.
NOT_IN_NAVIGATION = re.compile(r"reference/rules/gpu\d{3}\.md|contributing/decisions/\d{4}-.+\.md")


def build() -> None:
    """Write the site.

    Raises:
        ValueError: A link leads nowhere, or a page isn't in the navigation.
    """
    config = tomllib.loads(CONFIG.read_text(encoding="utf-8"))["project"]
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.copytree(ROOT / "docs", SOURCE, ignore=shutil.ignore_patterns("*.md"))
    pages = site_pages()
    refuse_unlisted(pages, config["nav"])
    write(pages, SOURCE)
    subprocess.run(["zensical", "build", "--strict", "--clean", "--config-file", str(CONFIG)], cwd=ROOT, check=True)
    write(pages, SITE)
    (SITE / "llms.txt").write_text(llms_text(config, pages), encoding="utf-8")


def site_pages() -> Pages:
    """Return the text of each page by its path in the site's source."""
    repository = repository_url()
    files = [str(file.relative_to(ROOT)) for file in sorted((ROOT / "docs").rglob("*")) if file.is_file()]
    generated = rule_pages() | api_pages() | table_pages()
    homes = {f"docs/{name}": name for name in generated} | {file: file.removeprefix("docs/") for file in files}
    homes |= OUTSIDE | INSTEAD
    written = [file for file in (*files, *OUTSIDE) if file.endswith(".md")]
    pages = {
        homes[file]: moved_links((ROOT / file).read_text(encoding="utf-8"), file, homes[file], homes, repository)
        for file in written
    }
    return pages | {"contributing/decisions/index.md": decisions(pages)} | generated


def decisions(pages: Pages) -> str:
    """Return the list of decisions."""
    found = sorted(name for name in pages if name.startswith("contributing/decisions/"))
    lines = [f"* [{title_of(pages[name])}]({name.rpartition('/')[2]})" for name in found]
    return (
        "\n".join(["# Decisions\n", "Each page states a decision, its context and its consequences.\n", *lines]) + "\n"
    )


def repository_url() -> str:
    """Return the URL of the repository, from pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return str(project["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"])


def listed(navigation: list[Any]) -> Iterator[tuple[str, str]]:
    """Yield section and path of each page in the navigation."""
    for entry in navigation:
        for title, value in entry.items():
            if isinstance(value, str):
                yield title, value
            else:
                yield from ((title, path) for _, path in listed(value))


def refuse_unlisted(pages: Pages, navigation: list[Any]) -> None:
    """Raise an error unless the navigation has exactly the pages.

    Raises:
        ValueError: It doesn't.
    """
    paths = {path for _, path in listed(navigation)}
    wanted = {name for name in pages if not NOT_IN_NAVIGATION.fullmatch(name)}
    if paths != wanted:
        raise ValueError(
            f"{CONFIG.name}: nav must list every page, got none for {sorted(wanted - paths)}, and unknown"
            f" {sorted(paths - wanted)}"
        )


def llms_text(config: dict[str, Any], pages: Pages) -> str:
    """Return the index for language models (https://llmstxt.org): the Markdown of each page."""
    parts = [f"# {config['site_name']}\n", f"> {config['site_description']}\n"]
    section = ""
    for title, path in listed(config["nav"]):
        if title != section:
            parts.append(f"\n## {title}\n")
            section = title
        parts.append(f"- [{title_of(pages[path])}]({config['site_url']}{path}): {summary_of(pages[path])}".rstrip(": "))
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    build()

"""The files of the site: links, Markdown next to each page, and the names on the API pages."""

from __future__ import annotations

import importlib
import posixpath
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from gpu_preflight.rules import rules
from tests.site.conftest import SITE
from tests.test_documents import public_names

pytestmark = pytest.mark.site

# Tags whose address a browser loads by itself.
_LOADED = {"img": "src", "script": "src", "iframe": "src", "source": "srcset"}


class _Page(HTMLParser):
    """Links, loaded addresses, ids and texts outside code of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.ids: set[str] = set()
        self.texts: list[str] = []
        self._code = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take the addresses and the id of a tag."""
        found = dict(attrs)
        self.ids |= {value for key in ("id", "name") if (value := found.get(key))}
        if tag == "a" and (link := found.get("href")):
            self.links.append(link)
        if address := found.get(_LOADED.get(tag, "")):
            self.loaded.append(address)
        if tag == "link" and found.get("rel") not in ("canonical", "prev", "next", "alternate"):
            self.loaded.append(found.get("href") or "")
        self._code += tag in ("code", "pre", "script", "style")

    def handle_endtag(self, tag: str) -> None:
        """Leave code."""
        self._code -= tag in ("code", "pre", "script", "style")

    def handle_data(self, data: str) -> None:
        """Take a text."""
        if not self._code:
            self.texts.append(data)


@cache
def page(file: Path) -> _Page:
    return _Page(file.read_text(encoding="utf-8"))


def html_files() -> list[Path]:
    return sorted(SITE.rglob("*.html"))


def markdown_files() -> list[Path]:
    return sorted(SITE.rglob("*.md"))


def target_of(file: Path, link: str) -> Path:
    """Return the file to which a relative link leads."""
    path = unquote(urlsplit(link).path)
    if path.startswith("/"):
        return SITE / path.lstrip("/")
    return Path(posixpath.normpath(posixpath.join(str(file.parent), path))) if path else file


def test_no_link_is_broken(site: Path) -> None:
    broken = []
    for file in html_files():
        if file.name == "404.html":
            continue
        for link in page(file).links:
            if urlsplit(link).scheme in ("http", "https", "mailto"):
                continue
            target = target_of(file, link)
            target = target / "index.html" if target.is_dir() else target
            anchor = unquote(urlsplit(link).fragment)
            if not target.exists() or (anchor and target.suffix == ".html" and anchor not in page(target).ids):
                broken.append(f"{file.relative_to(site)}: {link}")

    assert len(html_files()) > 100
    assert broken == []


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    loaded = {address for file in html_files() for address in page(file).loaded}

    assert [address for address in loaded if urlsplit(address).netloc] == []
    styles = [file.read_text(encoding="utf-8") for file in site.rglob("*.css")]
    assert [
        address for text in styles for address in re.findall(r"url\(\"?(?:https?:)?//[^)]+|@import[^;]+", text)
    ] == []


def test_each_page_is_there_as_markdown_and_its_links_lead_somewhere(site: Path) -> None:
    pages = {file.parent.relative_to(site) for file in html_files() if file.name == "index.html"}
    markdown = {file.relative_to(site) for file in markdown_files()}
    places = {file.parent if file.name == "index.md" else file.with_suffix("") for file in markdown}

    assert places == pages
    for file in markdown_files():
        prose = re.sub(
            r"^ *```.*?^ *```$|`[^`\n]*`", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
        )
        for link in re.findall(r"\]\(([^)\s]+)\)", prose):
            if not urlsplit(link).scheme:
                assert target_of(file, link).exists(), f"{file.relative_to(site)}: {link}"


def test_llms_txt_lists_markdown_pages_with_a_sentence_each(site: Path) -> None:
    text = (site / "llms.txt").read_text(encoding="utf-8")

    listed = re.findall(r"^- \[(.+)\]\(http://[^/]+/(.+\.md)\)(?:: (.+))?$", text, re.MULTILINE)
    assert text.startswith("# gpu_constructs\n\n> ")
    assert {"reference/rules.md", "reference/cli.md", "tutorials/check-yaml.md"} <= {path for _, path, _ in listed}
    assert [path for _, path, sentence in listed if not sentence or not (site / path).exists()] == []


def test_markdown_is_not_left_over_in_texts(site: Path) -> None:
    left = [
        f"{file.relative_to(site)}: {text.strip()[:80]}"
        for file in html_files()
        for text in page(file).texts
        if re.search(r"^(\* |- |\|[ -])|``|\]\(|^#{2,} |^\d\. .*\n\d\. ", text, re.MULTILINE)
    ]

    assert left == []


def api_texts() -> dict[str, str]:
    return {file.stem: file.read_text(encoding="utf-8") for file in (SITE / "reference" / "api").glob("gpu_*.md")}


def test_api_pages_have_every_public_name_with_the_import_that_users_write(site: Path) -> None:
    found = [
        each for text in api_texts().values() for each in re.findall(r"^from (\S+) import (\w+)$", text, re.MULTILINE)
    ]

    assert sorted((name, package) for package, name in found) == sorted(
        (name, package) for name, package in public_names().items() if not name.startswith("_")
    )
    for package, name in found:
        module: Any = importlib.import_module(package)
        assert hasattr(module, name)


def test_api_pages_show_arguments_and_no_private_name(site: Path) -> None:
    texts = api_texts()

    assert "network_policies: bool = False" in texts["gpu_constructs.cluster"]
    for name, text in texts.items():
        signatures = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        assert [each for each in signatures if re.search(r"(?<![\w.])_[A-Za-z]", each)] == [], name
        assert "…" not in text, name


def test_each_rule_has_a_page_with_two_examples_and_a_place_in_the_index(site: Path) -> None:
    index = (site / "reference" / "rules.md").read_text(encoding="utf-8")

    for id, rule in rules().items():
        text = (site / "reference" / "rules" / f"{id.lower()}.md").read_text(encoding="utf-8")
        assert text.startswith(f"# {id}: {rule.title}\n")
        assert rule.fix in text
        assert rule.source in text
        assert text.count("\n## Example that ") == 2
        # By severity and by subject.
        assert index.count(f"[{id}](rules/{id.lower()}.md)") == 2, id

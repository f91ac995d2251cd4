"""The site, served on loopback."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver

from tests.browser import start_browser
from tests.conftest import ROOT

SITE = ROOT / "site"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


class _WithoutSearch(_Quiet):
    """The site with an empty search index: each page reads the whole index, which takes most of its time."""

    def do_GET(self) -> None:
        """Answer a request."""
        if self.path != "/search.json":
            super().do_GET()
            return
        index = json.loads((SITE / "search.json").read_text(encoding="utf-8"))
        body = json.dumps({**index, "items": []}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _served(handler: type[_Quiet]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def site() -> Path:
    """The folder of the site. A missing site fails: a check that is skipped checks nothing."""
    if not (SITE / "index.html").exists():
        pytest.fail("no site/: run make docs")
    return SITE


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    """The address of the site on loopback, with a slash at the end."""
    yield from _served(_Quiet)


@pytest.fixture(scope="session")
def address_without_search(site: Path) -> Iterator[str]:
    """The address of the site with an empty search index."""
    yield from _served(_WithoutSearch)


@pytest.fixture(scope="session")
def browser() -> Iterator[webdriver.Chrome]:
    """A browser without window. A missing browser fails."""
    started = start_browser()
    if started is None:
        pytest.fail("no chromium: apt-get install chromium chromium-driver")
    yield started
    started.quit()

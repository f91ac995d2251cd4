"""The site in a browser: it opens everywhere, loads nothing from elsewhere, and search and dark mode work."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains

from tests.browser import console_errors, requested_urls, resize

pytestmark = pytest.mark.site

# Processes share the pages.
PARTS = 8
# The pages of rules have one template. All are opened if GPU_CONSTRUCTS_LONG is set, otherwise one of so many.
RULES_PER_PAGE_OPENED = 1 if os.environ.get("GPU_CONSTRUCTS_LONG") else 8
RULE_PAGE = re.compile(r"reference/rules/gpu\d+/")
PHONE = 390


def paths(site: Path) -> list[str]:
    """Return the path of each page in the site map that is opened."""
    found = re.findall(r"<loc>(.+?)</loc>", (site / "sitemap.xml").read_text(encoding="utf-8"))
    every = sorted(urlsplit(each).path.lstrip("/") for each in found)
    of_rules = [path for path in every if RULE_PAGE.fullmatch(path)]
    return [path for path in every if path not in of_rules] + of_rules[::RULES_PER_PAGE_OPENED]


def wait_for(condition: Callable[[], object]) -> None:
    """Wait until a condition is true.

    Raises:
        AssertionError: It isn't within 20 seconds.
    """
    for _ in range(200):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("the page didn't get there in 20 seconds")


def foreign(urls: list[str], address: str) -> list[str]:
    return [url for url in urls if not url.startswith((address, "data:", "blob:", "chrome:", "about:"))]


@pytest.mark.parametrize("part", range(PARTS))
def test_every_page_opens_on_a_phone_without_errors_and_loads_nothing_from_elsewhere(
    browser: webdriver.Chrome, address_without_search: str, site: Path, part: int
) -> None:
    address = address_without_search
    resize(browser, PHONE)
    pages = paths(site)[part::PARTS]
    assert pages
    wide, wrong = [], []
    for path in pages:
        browser.get(address + path)
        if browser.execute_script("return document.documentElement.scrollWidth") > PHONE:
            wide.append(path)
        wrong += [each["message"] for each in console_errors(browser)]
        wrong += foreign(requested_urls(browser), address)
    assert wide == []
    assert wrong == []


def test_search_finds_an_instance_type(browser: webdriver.Chrome, address: str) -> None:
    # The results are in the shadow root of an element.
    first = """
        const roots = [...document.querySelectorAll("*")].map(each => each.shadowRoot).filter(each => each);
        return roots.map(each => each.querySelector("a")).filter(each => each).map(each => each.href)[0];
    """
    resize(browser, 1280)
    browser.get(address)
    requested_urls(browser)

    browser.execute_script("document.querySelector('.md-search__button').click()")
    focused = "return document.activeElement.shadowRoot && document.activeElement.shadowRoot.activeElement !== null"
    wait_for(lambda: browser.execute_script(focused))
    ActionChains(browser).send_keys("p6-b200").perform()

    wait_for(lambda: browser.execute_script(first))
    assert urlsplit(browser.execute_script(first)).path == "/reference/instances/"
    assert console_errors(browser) == []
    assert foreign(requested_urls(browser), address) == []


def test_dark_mode_toggles(browser: webdriver.Chrome, address: str) -> None:
    def scheme() -> object:
        return browser.execute_script("return document.body.getAttribute('data-md-color-scheme')")

    def background() -> object:
        return browser.execute_script("return getComputedStyle(document.body).backgroundColor")

    resize(browser, 1280)
    browser.get(f"{address}reference/cli/")
    before, light = scheme(), background()

    shown = "[...document.querySelectorAll('label[for^=__palette]')].find(each => !each.hidden && each.offsetParent)"
    browser.execute_script(f"{shown}.click()")

    wait_for(lambda: scheme() != before)
    assert {before, scheme()} == {"default", "slate"}
    assert background() != light


def test_a_link_to_a_name_of_the_api_scrolls_to_it(browser: webdriver.Chrome, address: str) -> None:
    resize(browser, 1280)
    browser.get(f"{address}reference/api/gpu_constructs.cluster/#GpuCluster")

    top = "return document.getElementById('GpuCluster').getBoundingClientRect().top"
    wait_for(lambda: 0 <= browser.execute_script(top) < 300)

"""Pages in a browser: no errors, and filter and search do what they say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By

from gpu_preflight.report.html import render
from gpu_preflight.report.review_view import ReviewView
from gpu_preflight.report.view import CheckView, ExplainView, check_view
from tests.browser import console_errors, resize, start_browser
from tests.preflight.report import samples


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    """A browser without window."""
    started = start_browser()
    if started is None:
        pytest.skip("no chromium: apt-get install chromium chromium-driver")
    yield started
    started.quit()


def opened(browser: webdriver.Chrome, view: CheckView | ExplainView | ReviewView, folder: Path) -> None:
    """Open the page of a view."""
    file = folder / "page.html"
    file.write_text(render(view), encoding="utf-8")
    browser.get(file.as_uri())


def shown(browser: webdriver.Chrome) -> list[str]:
    """The rules whose findings are shown."""
    findings = browser.find_elements(By.CSS_SELECTOR, ".finding")
    return [each.find_element(By.TAG_NAME, "code").text for each in findings if each.is_displayed()]


@pytest.mark.parametrize("kind", ["check", "explain", "review"])
@pytest.mark.parametrize("width", [400, 1400])
def test_page_opens_without_errors_and_fits(browser: webdriver.Chrome, tmp_path: Path, kind: str, width: int) -> None:
    resize(browser, width)

    opened(browser, samples.views()[kind], tmp_path)

    assert console_errors(browser) == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


def test_severities_filter(browser: webdriver.Chrome, tmp_path: Path) -> None:
    opened(browser, check_view(samples.report()), tmp_path)
    assert shown(browser) == ["GPU901", "GPU901", "GPU902", "GPU903", "GPU902"]

    for value in ("error", "acknowledged"):
        browser.find_element(By.CSS_SELECTOR, f"[value={value}]").click()

    assert shown(browser) == ["GPU902", "GPU903"]
    assert browser.find_element(By.ID, "shown").text == "2 of 5 shown"


def test_search_finds_every_word(browser: webdriver.Chrome, tmp_path: Path) -> None:
    opened(browser, check_view(samples.report()), tmp_path)

    browser.find_element(By.ID, "search").send_keys("INFER gpu901")

    assert shown(browser) == ["GPU901"]


def test_page_is_whole_without_its_script(browser: webdriver.Chrome, tmp_path: Path) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        opened(browser, check_view(samples.report()), tmp_path)

        assert len(shown(browser)) == len(samples.FINDINGS)
        assert not browser.find_element(By.ID, "controls").is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_names_are_text(browser: webdriver.Chrome, tmp_path: Path) -> None:
    name = "<script>alert(1)</script>"

    opened(browser, samples.with_text(samples.views()["explain"], ("Train", "Infer"), name), tmp_path)

    assert console_errors(browser) == []
    assert name in [each.text for each in browser.find_elements(By.CSS_SELECTOR, ".pool h4 code")]


def test_foreign_script_is_refused(browser: webdriver.Chrome, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    page = render(samples.views()["check"]).replace("</main>", "<script>document.title = 'owned'</script></main>")
    file.write_text(page, encoding="utf-8")

    browser.get(file.as_uri())

    assert browser.title != "owned"
    assert [each["level"] for each in console_errors(browser)] == ["SEVERE"]

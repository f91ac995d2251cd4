"""A browser without window, as tests of pages need it."""

from __future__ import annotations

import json
import shutil
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.remote.command import Command

_ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


def start_browser() -> webdriver.Chrome | None:
    """Start a browser that logs its console and its requests; ``None`` where chromium isn't installed."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        return None
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    options.add_experimental_option("perfLoggingPrefs", {"enableNetwork": True, "enablePage": False})
    for each in _ARGUMENTS:
        options.add_argument(each)
    return webdriver.Chrome(options=options, service=Service(driver))


def resize(browser: webdriver.Chrome, width: int) -> None:
    """Give the page a width in CSS pixels."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def console_errors(browser: webdriver.Chrome) -> list[dict[str, Any]]:
    """Return what the console has logged since the last call."""
    return list(browser.execute(Command.GET_LOG, {"type": "browser"})["value"])


def requested_urls(browser: webdriver.Chrome) -> list[str]:
    """Return the URLs that the browser has requested since the last call."""
    entries = browser.execute(Command.GET_LOG, {"type": "performance"})["value"]
    messages = [json.loads(entry["message"])["message"] for entry in entries]
    return [each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"]

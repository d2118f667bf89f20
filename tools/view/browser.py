"""Finds a Chromium for the tests of the view and for its screenshots, and opens it without a window."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find_browser(own: str = "") -> str | None:
    """The program: that of TRTDSL_BROWSER, one on the path, or the one that Playwright installed (``own``)."""
    for name in (os.environ.get("TRTDSL_BROWSER"), *NAMES, own):
        found = shutil.which(name) if name else None
        if found:
            return found
    return own if own and Path(own).is_file() else None


@contextmanager
def open_browser() -> Iterator[Any]:
    """Playwright's browser; None where there is no program for it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        program = find_browser(playwright.chromium.executable_path)
        if program is None:
            yield None
            return
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()

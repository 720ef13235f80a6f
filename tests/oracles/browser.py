"""A headless Chromium, if this machine has one, and what it says of a page."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

PAGES = Path(__file__).parent.parent / "analysis" / "report" / "test_in_browser.py"
"""Tests that need a browser."""

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_MEASURE = """
const frame = document.querySelector('iframe'), found = {};
frame.addEventListener('load', () => {
  const page = frame.contentDocument, view = frame.contentWindow;
  const boxes = q => [...page.querySelectorAll(q)].map(e => e.getBoundingClientRect())
    .map(b => [b.left, b.top, b.right, b.bottom]);
  found.scroll_width = page.documentElement.scrollWidth;
  found.width = view.innerWidth;
  found.scripts_ran = view.ran === true;
  found.background = view.getComputedStyle(page.body).backgroundColor;
  found.boxes = Object.fromEntries(QUERIES.map(q => [q, boxes(q)]));
  found.wide = [...page.querySelectorAll('body *')].filter(e => !e.closest('.wide, nav, svg')
    && e.getBoundingClientRect().right > view.innerWidth + 0.5).map(e => e.outerHTML.slice(0, 90));
  const told = document.createElement('pre');
  told.id = 'told';
  told.textContent = JSON.stringify(found);
  document.body.append(told);
});
frame.srcdoc = PAGE;
"""


def browser() -> str | None:
    """Path of a browser, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def unseen_pages(chosen: Sequence[str], program: str | None) -> str:
    """A line for the end of a run of tests that no browser looked at; "" otherwise.

    Args:
        chosen: Arguments of the run: files, folders or tests.
        program: Path of the browser, or None.
    """
    files = [Path(one.partition("::")[0]).resolve() for one in chosen]
    if program is not None or not any(PAGES.is_relative_to(file) for file in files):
        return ""
    place = PAGES.relative_to(PAGES.parents[3])
    return f"no Chromium on this machine: {place} is left out, no browser saw a report"


def measured(
    program: str, page: str, folder: Path, *, width: int, queries: tuple[str, ...], dark: bool
) -> Any:
    """What a page looks like in a window of some width.

    Args:
        program: Path of the browser.
        page: The whole HTML.
        folder: A folder for files.
        width: Width of the window, in CSS pixels.
        queries: Selectors of elements whose places are wanted.
        dark: Whether the user prefers dark pages.
    """
    script = _MEASURE.replace("QUERIES", json.dumps(queries))
    script = script.replace("PAGE", json.dumps(page).replace("</", "<\\/"))
    outer = folder / "outer.html"
    outer.write_text(
        f'<!doctype html><iframe width="{width}" height="900" style="border:0"></iframe>'
        f"<script>{script}</script>",
        "utf-8",
    )
    done = subprocess.run(
        [
            program,
            *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
            f"--user-data-dir={folder / 'profile'}",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            *("--virtual-time-budget=5000", "--dump-dom", outer.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    _, found, rest = done.stdout.partition('<pre id="told">')
    assert found, done.stderr[-2000:]
    text = rest.partition("</pre>")[0]
    for sign in "<>&":
        text = text.replace(escape(sign), sign)
    return json.loads(text)

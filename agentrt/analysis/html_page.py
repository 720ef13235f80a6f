"""HTML pages that load nothing: headings, paragraphs, tables and SVG."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import TypeVar

T = TypeVar("T")

_STYLE = (
    ":root{color-scheme:light dark;--paper:#fbfaf8;--card:#fff;--ink:#1d1f24;--muted:#5b616d;"
    "--line:#e2e0da;--wash:#f2f0ec;--link:#0b5fa5}"
    "@media(prefers-color-scheme:dark){:root{--paper:#121417;--card:#1a1d22;--ink:#e9e7e2;"
    "--muted:#a0a6b1;--line:#31353d;--wash:#23272e;--link:#85bdf2}}"
    "body{font:15px/1.55 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;color:var(--ink);"
    "background:var(--paper);max-width:1000px;margin:2em auto;padding:0 1em;"
    "font-variant-numeric:tabular-nums;-webkit-text-size-adjust:100%}"
    ".wide{overflow-x:auto;margin:1em 0}table{border-collapse:collapse}"
    "td,th{padding:4px 10px;text-align:right;border-bottom:1px solid var(--line)}"
    "td:first-child,th:first-child{text-align:left;padding-left:0}"
    "svg{display:block;margin:1.2em 0}pre{white-space:pre-wrap;overflow-wrap:anywhere}"
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""Nothing is loaded and nothing runs, whatever text the page has."""


def page(title: str, parts: Sequence[str], *, style: str = "") -> str:
    """One HTML page that needs nothing beside it.

    Args:
        title: Title of the page.
        parts: HTML or SVG, as it is; text has to be escaped before.
        style: Style of this page, behind that of all pages.
    """
    body = "\n".join([f"<h1>{escape(title)}</h1>", *parts])
    return document(title, body, style=style)


def document(title: str, body: str, *, style: str = "") -> str:
    """A page whose body stands as it is, its heading included."""
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}{style}</style>"
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def section(name: str, title: str, *parts: str) -> str:
    """A section with a heading, to which `#name` leads."""
    body = "\n".join(parts)
    head = f'<h2 id="{escape(name)}-title">{escape(title)}</h2>'
    opening = f'<section id="{escape(name)}" aria-labelledby="{escape(name)}-title">'
    return f"{opening}{head}\n{body}\n</section>"


def folded(summary: str, *parts: str) -> str:
    """Parts behind a line of text, which opens them."""
    body = "\n".join(parts)
    return f"<details><summary>{escape(summary)}</summary>\n{body}\n</details>"


def heading(text: str) -> str:
    """A heading below the title."""
    return f"<h2>{escape(text)}</h2>"


def paragraphs(*lines: str) -> str:
    """Each line of text as a paragraph."""
    return "".join(f"<p>{escape(line)}</p>" for line in lines)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of text, which scrolls by itself if it is wider than the page."""
    top = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    cells = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return (
        f'<div class="wide" tabindex="0"><table><thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def table_of(values: Iterable[T], columns: Mapping[str, Callable[[T], str]]) -> str:
    """A table with a row for each value.

    Args:
        values: The values.
        columns: Text of a value by the head of its column.
    """
    rows = ([text(value) for text in columns.values()] for value in values)
    return table(list(columns), rows)

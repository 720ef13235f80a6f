"""Pages that need nothing beside them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def page(title: str, parts: Sequence[str]) -> str:
    """One HTML page that needs nothing beside it.

    Args:
        title: Of the page.
        parts: HTML or SVG, as it is: what comes from elsewhere has to be escaped before.
    """
    style = (
        "body{font:14px/1.45 system-ui,sans-serif;max-width:1000px;margin:2em auto;padding:0 1em}"
        "table{border-collapse:collapse;margin:1em 0}td,th{padding:2px 9px;text-align:right;"
        "border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left}"
        "svg{display:block;margin:1.2em 0}pre{white-space:pre-wrap}"
    )
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{style}</style>'
    body = "\n".join([f"<h1>{escape(title)}</h1>", *parts])
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as HTML; what stands in it is text."""
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines_of = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
    return f"<table><tr>{top}</tr>" + "".join(f"<tr>{row}</tr>" for row in lines_of) + "</table>"

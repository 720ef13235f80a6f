"""HTML pages that load nothing: headings, paragraphs, tables and SVG."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import TypeVar

T = TypeVar("T")

_STYLE = (
    "body{font:14px/1.45 system-ui,sans-serif;max-width:1000px;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse;margin:1em 0}td,th{padding:2px 9px;text-align:right;"
    "border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left}"
    "svg{display:block;margin:1.2em 0}pre{white-space:pre-wrap}"
)


def page(title: str, parts: Sequence[str]) -> str:
    """One HTML page that needs nothing beside it.

    Args:
        title: Title of the page.
        parts: HTML or SVG, as it is; text has to be escaped before.
    """
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    body = "\n".join([f"<h1>{escape(title)}</h1>", *parts])
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def heading(text: str) -> str:
    """A heading below the title."""
    return f"<h2>{escape(text)}</h2>"


def paragraphs(*lines: str) -> str:
    """Each line of text as a paragraph."""
    return "".join(f"<p>{escape(line)}</p>" for line in lines)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of text."""
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    cells = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
    return f"<table><tr>{top}</tr>" + "".join(f"<tr>{row}</tr>" for row in cells) + "</table>"


def table_of(values: Iterable[T], columns: Mapping[str, Callable[[T], str]]) -> str:
    """A table with a row for each value.

    Args:
        values: The values.
        columns: Text of a value by the head of its column.
    """
    rows = ([text(value) for text in columns.values()] for value in values)
    return table(list(columns), rows)

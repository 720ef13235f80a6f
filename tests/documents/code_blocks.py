"""Code blocks of a Markdown page, with the marks that stand above them.

A mark is a comment of HTML in the lines above a block: `<!-- not run: why -->`. Pages show none.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOREIGN = frozenset({"LangGraph", "Pydantic-AI", "SGLang", "DSPy"})
"""Tabs with code of other libraries, which is text here."""

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,})(?P<info>[^`]*)$")
_MARK = re.compile(r"^ *<!-- (.+?) -->$")
_TAB = re.compile(r'^ *===!? "(.+)"$')
_TITLE = re.compile(r'title="([^"]+)"')


@dataclass(frozen=True)
class CodeBlock:
    """One block between fences.

    Attributes:
        page: The page.
        line: Number of the line of the opening fence.
        language: First word behind the fence, or "".
        title: File that the block is, or "".
        text: Its content, without the indentation of the fence.
        marks: Marks above it, each by its first words: `{"not run": "why"}`.
        tab: Title of the tab it stands in, or "".
    """

    page: Path
    line: int
    language: str
    title: str
    text: str
    marks: dict[str, str]
    tab: str

    @property
    def place(self) -> str:
        """`page:line`."""
        return f"{self.page.name}:{self.line}"

    @property
    def is_run(self) -> bool:
        """Whether a test has to run it."""
        is_code = self.language in ("python", "shell")
        return is_code and self.tab not in FOREIGN and "not run" not in self.marks


def code_blocks(page: Path) -> Iterator[CodeBlock]:
    """The blocks of a page, in order.

    Raises:
        ValueError: A fence is not closed.
    """
    lines = enumerate(page.read_text("utf-8").splitlines(), start=1)
    marks: dict[str, str] = {}
    tab = ""
    for number, line in lines:
        if mark := _MARK.match(line):
            name, _, value = mark[1].partition(":")
            marks[name] = value.strip()
        elif opening := _FENCE.match(line):
            indent, fence = opening["indent"], opening["fence"]
            content: list[str] = []
            for _, inner in lines:
                if inner.strip() == fence:
                    break
                content.append(inner.removeprefix(indent))
            else:
                raise ValueError(f"{page}:{number}: the fence is not closed")
            info = opening["info"].strip()
            title = _TITLE.search(info)
            yield CodeBlock(
                page,
                number,
                info.partition(" ")[0],
                title[1] if title else "",
                "".join(f"{one}\n" for one in content),
                marks,
                tab if indent else "",
            )
            marks = {}
        elif found := _TAB.match(line):
            tab = found[1]
        elif line.strip():
            marks = {}

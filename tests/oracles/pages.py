"""An HTML page, taken apart by a parser of its own."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "input", "link"}


@dataclass(eq=False)
class Element:
    """An element of a page."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    inside: "list[Element | str]" = field(default_factory=list)

    def every(self, tag: str = "", kind: str = "") -> "list[Element]":
        """The elements below with a tag and a class, in the order of the page."""
        found = []
        for one in self.inside:
            if isinstance(one, Element):
                classes = one.attributes.get("class", "").split()
                if tag in ("", one.tag) and (not kind or kind in classes):
                    found.append(one)
                found += one.every(tag, kind)
        return found

    def text(self) -> str:
        """The text of the element and of those below, spaces joined."""
        parts = (one if isinstance(one, str) else one.text() for one in self.inside)
        return " ".join(" ".join(parts).split())

    def named(self, name: str) -> "Element":
        """The element below with this id."""
        (found,) = (one for one in self.every() if one.attributes.get("id") == name)
        return found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("")
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].inside.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].tag == tag, f"</{tag}> ends <{self._open[-1].tag}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self._open[-1].inside.append(data)

    def close(self) -> None:
        super().close()
        assert self._open == [self.root], f"<{self._open[-1].tag}> is never closed"


def page_of(text: str) -> Element:
    """The elements of a page; each tag must be closed, in order."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return reader.root


def faults(page: Element) -> list[str]:
    """What a page that stands alone must not have: scripts, addresses, ids twice, dead links."""
    found = []
    ids = [one.attributes["id"] for one in page.every() if "id" in one.attributes]
    found += [f"id {name} twice" for name in set(ids) if ids.count(name) > 1]
    for one in page.every():
        if one.tag in {"script", "iframe", "object", "embed", "link", "img", "form"}:
            found.append(f"<{one.tag}>")
        for name, value in one.attributes.items():
            if name.startswith("on"):
                found.append(f"<{one.tag} {name}>")
            if name in {"src", "href", "xlink:href", "action", "srcset"} and value[1:] not in ids:
                found.append(f"<{one.tag} {name}={value}>")
            if name == "aria-labelledby" and value not in ids:
                found.append(f"<{one.tag} {name}={value}>")
        if one.tag == "style" and ("url(" in one.text() or "@import" in one.text()):
            found.append("a style that loads something")
        if one.tag == "svg" and "role" in one.attributes and not one.attributes.get("aria-label"):
            found.append("a picture without words")
    return found

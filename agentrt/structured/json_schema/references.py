"""`$id`, `$anchor` and references by URI, rewritten as pointers into `$defs`.

Afterwards every reference is `#` or `#/$defs/...`, so that the rest of a schema may be rewritten
without breaking one. A schema without any of them is returned unchanged.
Source: JSON Schema 2020-12, section 8.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from agentrt.structured.json_schema.keywords import (
    DEFINITIONS,
    children,
    escape,
    resolve,
    subschemas,
    with_children,
    without,
)

_NO_BASE = "urn:schema"
"""The base of a schema without `$id`."""


def localize(schema: Any) -> Any:
    """`schema` with local references only.

    A reference to another document stays unchanged, to be refused by name.
    """
    if not isinstance(schema, dict) or not _needs_it(schema):
        return schema
    return _Resources(schema).rewritten()


def _needs_it(schema: dict[str, Any]) -> bool:
    for pointer, here, _ in subschemas(schema):
        if not isinstance(here, dict):
            continue
        ref = here.get("$ref")
        if "$anchor" in here or ("$id" in here and pointer):
            return True
        if isinstance(ref, str) and ref != "#" and not _is_definition(ref):
            return True
    return False


def _is_definition(ref: str) -> bool:
    return ref.startswith(("#/$defs/", "#/definitions/")) and ref.count("/") == 2


class _Resources:
    """A schema and the targets of its URIs."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._by_uri: dict[str, Any] = {}
        self._bases: dict[int, str] = {}
        self._hoisted: dict[int, str] = {}
        self._definitions: dict[str, Any] = {}
        self._learn(root, _NO_BASE)

    def rewritten(self) -> dict[str, Any]:
        """The schema with all references local."""
        whole: dict[str, Any] = self._copy(self._root)
        if self._definitions:
            whole["$defs"] = {**whole.get("$defs", {}), **self._definitions}
        return whole

    def _learn(self, here: Any, base: str) -> None:
        if not isinstance(here, dict):
            return
        if isinstance(here.get("$id"), str):
            base = urldefrag(urljoin(base, here["$id"])).url
            self._by_uri.setdefault(base, here)
        if here is self._root:
            self._by_uri.setdefault(base, here)
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(here.get(keyword), str):
                self._by_uri.setdefault(f"{base}#{here[keyword]}", here)
        self._bases[id(here)] = base
        for _, child in children(here):
            self._learn(child, base)

    def _copy(self, here: Any) -> Any:
        if not isinstance(here, dict):
            return here
        copied: dict[str, Any] = {}
        for keyword, value in without(here, "$id", "$anchor").items():  # in order: names count up
            if keyword == "$ref" and isinstance(value, str):
                copied[keyword] = self._pointer(value, self._bases[id(here)])
            else:
                copied |= with_children({keyword: value}, self._copy)
        return copied

    def _pointer(self, ref: str, base: str) -> str:
        """Pointer to the target of `ref`, under `base`, after the rewriting."""
        target = self._target(ref, base)
        if target is None:
            return ref
        if target is self._root:
            return "#"
        for keyword in DEFINITIONS:
            for name, child in self._root.get(keyword, {}).items():
                if child is target:
                    return f"#/{keyword}/{escape(name)}"
        if id(target) not in self._hoisted:
            name = f"at-{len(self._hoisted)}"
            while name in self._root.get("$defs", {}):
                name += "-"
            self._hoisted[id(target)] = name
            self._definitions[name] = self._copy(target)
        return f"#/$defs/{self._hoisted[id(target)]}"

    def _target(self, ref: str, base: str) -> Any | None:
        url, fragment = urldefrag(urljoin(base, ref) if ref and ref[0] != "#" else base + ref)
        if fragment and not fragment.startswith("/"):
            return self._by_uri.get(f"{url}#{fragment}")
        resource = self._by_uri.get(url)
        if resource is None or not fragment:
            return resource
        found = resolve(resource, "#" + unquote(fragment))
        if isinstance(found, dict) and id(found) not in self._bases:
            self._learn(found, url)  # under a name that is no keyword
        return found if isinstance(found, dict | bool) else None

"""xgrammar or outlines-core as a peer: compile a constraint, walk texts through its masks.

Runs in the peers' environment. Questions and answers are lines of JSON, as in our own arm. Each
library is used as its documents say; what it cannot say it refuses, and what it lets through counts
against it.
"""

from __future__ import annotations

import json
import resource
import time
from importlib.metadata import version
from typing import Any, Protocol

import numpy as np
from answering import Json, answer_lines
from numpy.typing import NDArray

_MOST_BYTES = 8 << 30


class PeerMatcher(Protocol):
    """A sequence."""

    def fill(self) -> None:
        """Write the mask."""
        ...

    def take(self, token: int) -> bool:
        """Go on by a token."""
        ...


class Library(Protocol):
    """A peer over one vocabulary. `row` is where its states write masks."""

    row: NDArray[np.int32]
    end_id: int

    def compile(self, kind: str, source: Any) -> Any:
        """The compiled constraint; raises what the library raises."""
        ...

    def start(self, compiled: Any) -> PeerMatcher:
        """A fresh sequence."""
        ...


class XGrammar:
    """xgrammar with its defaults, compact JSON and as many threads as ours has."""

    def __init__(self, told: dict[str, Any]) -> None:
        import xgrammar

        self._xgrammar = xgrammar
        info = xgrammar.TokenizerInfo(
            [bytes.fromhex(token) for token in told["tokens"]],
            xgrammar.VocabType.RAW,
            vocab_size=told["logits_size"],
            stop_token_ids=told["eos_ids"],
        )
        self._compiler = xgrammar.GrammarCompiler(info, max_threads=2, cache_enabled=False)
        self._words = (told["logits_size"] + 31) // 32
        self._mask = np.zeros((1, self._words), dtype=np.int32)
        self.row: NDArray[np.int32] = self._mask[0]
        self.end_id = int(told["eos_ids"][0])

    def compile(self, kind: str, source: Any) -> Any:
        if kind == "regex":
            return self._compiler.compile_regex(source)
        if kind == "grammar":
            return self._compiler.compile_lark(source)
        return self._compiler.compile_json_schema(
            json.dumps(source), any_whitespace=False, separators=(",", ":")
        )

    def start(self, compiled: Any) -> PeerMatcher:
        return XGrammarState(self._xgrammar.GrammarMatcher(compiled), self._mask)

    def rows(self, compiled: Any, prefixes: list[list[int]], rounds: int) -> list[int]:
        """Time of the masks of many rows in one call."""
        matchers = [self._xgrammar.GrammarMatcher(compiled) for _ in prefixes]
        for matcher, prefix in zip(matchers, prefixes, strict=True):
            for token in prefix:
                matcher.accept_token(token)
        mask = np.zeros((len(matchers), self._words), dtype=np.int32)
        batch = self._xgrammar.BatchGrammarMatcher(2)
        wall_ns = []
        for _ in range(rounds):
            began = time.perf_counter_ns()
            batch.batch_fill_next_token_bitmask(matchers, mask)
            wall_ns.append(time.perf_counter_ns() - began)
        return wall_ns


class XGrammarState:
    """A matcher and the row it writes."""

    def __init__(self, matcher: Any, mask: NDArray[np.int32]) -> None:
        self._matcher = matcher
        self._mask = mask

    def fill(self) -> None:
        if not self._matcher.fill_next_token_bitmask(self._mask, 0):
            self._mask[:] = -1

    def take(self, token: int) -> bool:
        return bool(self._matcher.accept_token(token))


class Outlines:
    """outlines-core by itself: a schema becomes a regex, a regex a table over the vocabulary."""

    def __init__(self, told: dict[str, Any]) -> None:
        import outlines_core

        self._outlines = outlines_core
        self.end_id = int(told["eos_ids"][0])
        ids: dict[bytes, list[int]] = {}
        for token, text in enumerate(told["tokens"]):
            if text:
                ids.setdefault(bytes.fromhex(text), []).append(token)
        self._vocabulary = outlines_core.Vocabulary(self.end_id, ids)
        self.row: NDArray[np.int32] = np.zeros((told["logits_size"] + 31) // 32, dtype=np.int32)

    def compile(self, kind: str, source: Any) -> Any:
        if kind == "grammar":
            raise ValueError("it has no grammars")
        pattern = source
        if kind != "regex":
            write = self._outlines.json_schema.build_regex_from_schema
            pattern = write(json.dumps(source), "")
        return self._outlines.Index(pattern, self._vocabulary)

    def start(self, compiled: Any) -> PeerMatcher:
        return OutlinesState(self._outlines.Guide(compiled), self.row, self.end_id)


class OutlinesState:
    """A guide and the row it writes."""

    def __init__(self, guide: Any, row: NDArray[np.int32], end_id: int) -> None:
        self._guide = guide
        self._row = row
        self._end_id = end_id

    def fill(self) -> None:
        self._guide.write_mask_into(self._row.ctypes.data, self._row.size, self._row.itemsize)

    def take(self, token: int) -> bool:
        if token == self._end_id:
            return bool(self._guide.is_finished())
        self._guide.advance(token, False)
        return True


def walk(library: Library, state: PeerMatcher, ids: list[int]) -> dict[str, Any]:
    """Whether the masks let a text through to its end token, and the time of each."""
    wall_ns: list[int] = []
    cpu_ns: list[int] = []
    taken = True
    for token in (*ids, library.end_id):
        cpu, began = time.thread_time_ns(), time.perf_counter_ns()
        state.fill()
        ended, cpu_ended = time.perf_counter_ns(), time.thread_time_ns()
        wall_ns.append(ended - began)
        cpu_ns.append(cpu_ended - cpu)
        allowed = bool((int(library.row[token >> 5]) >> (token & 31)) & 1)
        if not allowed or not state.take(token):
            taken = False
            break
    return {"taken": taken, "wall_ns": wall_ns, "cpu_ns": cpu_ns}


def case(library: Library, kind: str, source: Any, texts: list[list[int]]) -> dict[str, Any]:
    """Compile it and walk each text."""
    began_ns, cpu_ns = time.perf_counter_ns(), time.process_time_ns()
    try:
        compiled = library.compile(kind, source)
    except Exception as refused:
        return {"refused": f"{type(refused).__name__}: {refused}"[:300], "keyword": ""}
    ended_ns, cpu_ended_ns = time.perf_counter_ns(), time.process_time_ns()
    return {
        "declare_ns": 0,
        "compile_ns": ended_ns - began_ns,
        "compile_cpu_ns": cpu_ended_ns - cpu_ns,
        "walks": [walk(library, library.start(compiled), ids) for ids in texts],
    }


def rows(
    library: XGrammar, kind: str, source: Any, texts: list[list[int]], count: int, rounds: int
) -> dict[str, Any]:
    """The same rows as ours."""
    places = [ids[:length] for ids in texts for length in range(len(ids) + 1)]
    prefixes = [places[at % len(places)] for at in range(count)]
    wall_ns = library.rows(library.compile(kind, source), prefixes, rounds)
    return {"wall_ns": {"pool": wall_ns}, "places": len(places)}


def opened(settings: dict[str, Any]) -> XGrammar | Outlines:
    """The library over the vocabulary of a file."""
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
    with open(settings["vocabulary"], encoding="utf-8") as file:
        told = json.load(file)
    return XGrammar(told) if settings["library"] == "xgrammar" else Outlines(told)


def main() -> None:
    """Answer until standard input ends."""
    library: XGrammar | Outlines | None = None

    def answer(question: Json) -> Json:
        nonlocal library
        match question.pop("do"):
            case "open":
                settings = question["settings"]
                library = opened(settings)
                name = "outlines-core" if settings["library"] != "xgrammar" else "xgrammar"
                return {"library": f"{name} {version(name)}"}
            case "case":
                assert library is not None
                return case(library, **question)
            case _:
                assert isinstance(library, XGrammar)
                return rows(library, **question)

    answer_lines(answer)


if __name__ == "__main__":
    main()

"""xgrammar or outlines-core as a peer: compile a constraint, walk texts through its masks.

Runs in the peers' environment and answers `open`, `case` and `rows` as `structured_arm.py` of our
own does. Each library is used as its documents say; a constraint that it cannot express it refuses,
and an invalid text that it accepts counts against it.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from answering import Json, answer_lines
from numpy.typing import NDArray

_MOST_BYTES = 8 << 30


@dataclass(frozen=True)
class PeerMatcher:
    """The matcher of one sequence.

    Attributes:
        fill: Writes the mask of the next token to the library's `row`.
        take: Advances by a token; False if it is not allowed.
    """

    fill: Callable[[], None]
    take: Callable[[int], bool]


class XGrammar:
    """xgrammar with its defaults, compact JSON and as many threads as our arm has."""

    def __init__(self, vocabulary: Json) -> None:
        import xgrammar

        self._xgrammar = xgrammar
        info = xgrammar.TokenizerInfo(
            [bytes.fromhex(token) for token in vocabulary["tokens"]],
            xgrammar.VocabType.RAW,
            vocab_size=vocabulary["logits_size"],
            stop_token_ids=vocabulary["eos_ids"],
        )
        self._compiler = xgrammar.GrammarCompiler(info, max_threads=2, cache_enabled=False)
        self._words = (vocabulary["logits_size"] + 31) // 32
        self._mask = np.zeros((1, self._words), dtype=np.int32)
        self.row: NDArray[np.int32] = self._mask[0]
        self.end_id = int(vocabulary["eos_ids"][0])

    def compile(self, kind: str, source: Any) -> Any:
        """Compile a constraint; raises what the library raises."""
        if kind == "regex":
            return self._compiler.compile_regex(source)
        if kind == "grammar":
            return self._compiler.compile_lark(source)
        return self._compiler.compile_json_schema(
            json.dumps(source), any_whitespace=False, separators=(",", ":")
        )

    def start(self, compiled: Any) -> PeerMatcher:
        """Matcher of a new sequence."""
        matcher = self._xgrammar.GrammarMatcher(compiled)

        def fill() -> None:
            if not matcher.fill_next_token_bitmask(self._mask, 0):
                self._mask[:] = -1

        return PeerMatcher(fill, matcher.accept_token)

    def rows(self, compiled: Any, prefixes: list[list[int]], rounds: int) -> list[int]:
        """Times of the masks of many rows in one call."""
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


class Outlines:
    """outlines-core alone: a schema becomes a regex, a regex a table over the vocabulary."""

    def __init__(self, vocabulary: Json) -> None:
        import outlines_core

        self._outlines = outlines_core
        self.end_id = int(vocabulary["eos_ids"][0])
        ids: dict[bytes, list[int]] = {}
        for token, text in enumerate(vocabulary["tokens"]):
            if text:
                ids.setdefault(bytes.fromhex(text), []).append(token)
        self._vocabulary = outlines_core.Vocabulary(self.end_id, ids)
        self.row: NDArray[np.int32] = np.zeros(
            (vocabulary["logits_size"] + 31) // 32, dtype=np.int32
        )

    def compile(self, kind: str, source: Any) -> Any:
        """Compile a constraint; raises what the library raises."""
        if kind == "grammar":
            raise ValueError("it has no grammars")
        pattern = source
        if kind != "regex":
            write = self._outlines.json_schema.build_regex_from_schema
            pattern = write(json.dumps(source), "")
        return self._outlines.Index(pattern, self._vocabulary)

    def start(self, compiled: Any) -> PeerMatcher:
        """Matcher of a new sequence."""
        guide, row = self._outlines.Guide(compiled), self.row

        def fill() -> None:
            guide.write_mask_into(row.ctypes.data, row.size, row.itemsize)

        def take(token: int) -> bool:
            if token == self.end_id:
                return bool(guide.is_finished())
            guide.advance(token, False)
            return True

        return PeerMatcher(fill, take)


Library = XGrammar | Outlines


class StructuredPeer:
    """A library over the vocabulary of a file."""

    def open(self, settings: Json) -> Json:
        """Load the library, within a limit of memory."""
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
        with open(settings["vocabulary"], encoding="utf-8") as file:
            vocabulary = json.load(file)
        name = settings["library"]
        self._library: Library = _LIBRARIES[name](vocabulary)
        return {"library": f"{name} {version(name)}"}

    def case(self, kind: str, source: Any, texts: list[list[int]]) -> Json:
        """Compile a constraint and walk each text."""
        began_ns, cpu_ns = time.perf_counter_ns(), time.process_time_ns()
        try:
            compiled = self._library.compile(kind, source)
        except Exception as refused:
            return {"refused": f"{type(refused).__name__}: {refused}"[:300], "keyword": ""}
        ended_ns, cpu_ended_ns = time.perf_counter_ns(), time.process_time_ns()
        return {
            "declare_ns": 0,
            "compile_ns": ended_ns - began_ns,
            "compile_cpu_ns": cpu_ended_ns - cpu_ns,
            "walks": [walk(self._library, self._library.start(compiled), ids) for ids in texts],
        }

    def rows(self, kind: str, source: Any, texts: list[list[int]], count: int, rounds: int) -> Json:
        """Time the same rows as our own arm does."""
        assert isinstance(self._library, XGrammar)
        prefixes = [ids[:length] for ids in texts for length in range(len(ids) + 1)]
        chosen = [prefixes[at % len(prefixes)] for at in range(count)]
        wall_ns = self._library.rows(self._library.compile(kind, source), chosen, rounds)
        return {"wall_ns": {"pool": wall_ns}, "places": len(prefixes)}


def walk(library: Library, state: PeerMatcher, ids: list[int]) -> Json:
    """Whether the masks let a text through to its end token, and the time of each mask."""
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


_LIBRARIES: dict[str, Callable[[Json], Library]] = {"xgrammar": XGrammar, "outlines-core": Outlines}

if __name__ == "__main__":
    answer_lines(StructuredPeer())

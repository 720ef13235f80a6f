"""Cache of compiled constraints: each is compiled once; refusals are cached too."""

from __future__ import annotations

import hashlib
import importlib.metadata
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass

from agentrt.base import canonical_json
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import AgentrtError
from agentrt.base.segments import CallFrame
from agentrt.base.vocabulary import Vocab
from agentrt.structured.json_schema.compile_cost import may_take_long
from agentrt.structured.matcher import CompiledConstraint
from agentrt.structured.sandbox.service import CompileService
from agentrt.structured.vocabulary import alphabet_of

Compile = Callable[[ConstraintSpec, Vocab, CallFrame], CompiledConstraint]
Outcome = CompiledConstraint | AgentrtError

_Asked = tuple[ConstraintSpec, Vocab, CallFrame]

_FEW_TOOLS = 8
"""Number of tools that are looked up in a few tenths of a millisecond."""

_MAX_ASKED = 32
"""Specs of many tools that are known by themselves."""

REFUSAL_S = 60.0
"""Lifetime of a refusal: a constraint too costly on a busy machine may be tried again."""

_VERSIONS = tuple(importlib.metadata.version(name) for name in ("llguidance", "outlines-core"))


@dataclass(frozen=True, slots=True)
class CacheCounts:
    """Counters of the cache.

    Attributes:
        hits: Lookups that found a result, or one being compiled.
        compiled: Compilations started, refusals included.
        entries: Entries now.
        size_bytes: Approximate memory of the entries.
    """

    hits: int
    compiled: int
    entries: int
    size_bytes: int


class CompileCache:
    """Compiles each constraint once for a vocabulary and keeps the few hundred used last (LRU).

    Two concurrent lookups of the same constraint wait for one compilation. Thread-safe.
    """

    def __init__(
        self,
        *,
        max_entries: int = 512,
        max_bytes: int = 256 * 1024 * 1024,
        compile_one: Compile | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._service = CompileService()
        self._compile = compile_one or self._service.compile
        self._now_s = now_s
        self._lock = threading.Lock()
        self._futures: OrderedDict[str, Future[CompiledConstraint]] = OrderedDict()
        self._bytes: dict[str, int] = {}
        self._asked: OrderedDict[int, tuple[_Asked, Future[CompiledConstraint]]] = OrderedDict()
        self._hits = 0
        self._compiled = 0
        self._refused_until_s: dict[str, float] = {}  # end of each refusal
        # Costly compilations have a thread of their own, so that others go on.
        self._plain_worker, self._costly_worker = (
            ThreadPoolExecutor(1, thread_name_prefix="agentrt-compile") for _ in range(2)
        )

    @property
    def counts(self) -> CacheCounts:
        with self._lock:
            return CacheCounts(
                self._hits, self._compiled, len(self._futures), sum(self._bytes.values())
            )

    def get(self, spec: ConstraintSpec, vocab: Vocab, frame: CallFrame) -> CompiledConstraint:
        """The compiled constraint, compiled in this thread unless it is cached or in progress.

        Raises:
            ConstraintError: The constraint does not compile; the same error each time.
        """
        future, mine = self._claim(spec, vocab, frame)
        if mine:
            self._run(future, spec, vocab, frame)
        return future.result()

    def start_compile(
        self, spec: ConstraintSpec, vocab: Vocab, frame: CallFrame
    ) -> Future[CompiledConstraint]:
        """The same, compiled in another thread; done at once if it is cached.

        A set of many tools takes long to be looked up: so that is done in a thread too, but once
        for each spec.
        """
        if len(spec.tools) <= _FEW_TOOLS:
            return self._start(spec, vocab, frame)
        with self._lock:
            asked, found = self._asked.get(id(spec), (None, None))
            if found is not None and asked == (spec, vocab, frame) and not _has_failed(found):
                self._hits += 1
                return found
            found = Future()
            self._asked[id(spec)] = ((spec, vocab, frame), found)
            while len(self._asked) > _MAX_ASKED:
                self._asked.popitem(last=False)
        self._plain_worker.submit(self._start_many, found, spec, vocab, frame)
        return found

    def _start_many(
        self,
        found: Future[CompiledConstraint],
        spec: ConstraintSpec,
        vocab: Vocab,
        frame: CallFrame,
    ) -> None:
        try:
            self._start(spec, vocab, frame).add_done_callback(lambda done: _copy(done, found))
        except BaseException as wrong:
            found.set_exception(wrong)

    def _start(
        self, spec: ConstraintSpec, vocab: Vocab, frame: CallFrame
    ) -> Future[CompiledConstraint]:
        future, mine = self._claim(spec, vocab, frame)
        if mine:
            is_costly = len(spec.tools) > _FEW_TOOLS or may_take_long(spec)
            worker = self._costly_worker if is_costly else self._plain_worker
            worker.submit(self._run, future, spec, vocab, frame)
        return future

    def prepare(self, vocab: Vocab) -> None:
        """Build the tables of a vocabulary that every compilation needs, in another thread."""
        self._plain_worker.submit(alphabet_of, vocab)

    def close(self) -> None:
        """End the threads; compilations in progress are finished."""
        self._plain_worker.shutdown()
        self._costly_worker.shutdown()
        self._service.close()

    def _claim(
        self, spec: ConstraintSpec, vocab: Vocab, frame: CallFrame
    ) -> tuple[Future[CompiledConstraint], bool]:
        key = cache_key(spec, vocab, frame)
        with self._lock:
            future = self._futures.get(key)
            if key in self._refused_until_s and self._refused_until_s[key] < self._now_s():
                self._forget(key)
                future = None
            if future is not None:
                self._hits += 1
                self._futures.move_to_end(key)
                return future, False
            self._compiled += 1
            future = Future()
            self._futures[key] = future
            future.add_done_callback(lambda done: self._account(key, done))
            return future, True

    def _run(
        self,
        future: Future[CompiledConstraint],
        spec: ConstraintSpec,
        vocab: Vocab,
        frame: CallFrame,
    ) -> None:
        try:
            compiled = self._compile(spec, vocab, frame)
        except BaseException as wrong:
            future.set_exception(wrong)
        else:
            future.set_result(compiled)

    def _account(self, key: str, done: Future[CompiledConstraint]) -> None:
        """Account for the memory of a result and evict the entries used least recently."""
        wrong = done.exception()
        with self._lock:
            if wrong is not None and not isinstance(wrong, AgentrtError):
                self._futures.pop(key, None)  # not a fault of the constraint: try again next time
                return
            self._bytes[key] = 0 if wrong is not None else done.result().size_bytes
            if wrong is not None:
                self._refused_until_s[key] = self._now_s() + REFUSAL_S
            total = sum(self._bytes.values())
            for old in list(self._futures):
                if len(self._futures) <= self._max_entries and total <= self._max_bytes:
                    break
                if old != key and old in self._bytes:
                    total -= self._bytes[old]
                    self._forget(old)

    def _forget(self, key: str) -> None:
        del self._futures[key]
        self._bytes.pop(key, None)
        self._refused_until_s.pop(key, None)


def _has_failed(found: Future[CompiledConstraint]) -> bool:
    return found.done() and found.exception() is not None


def _copy(done: Future[CompiledConstraint], to: Future[CompiledConstraint]) -> None:
    wrong = done.exception()
    if wrong is None:
        to.set_result(done.result())
    else:
        to.set_exception(wrong)


def cache_key(spec: ConstraintSpec, vocab: Vocab, frame: CallFrame) -> str:
    """Hash of all that a compiled constraint depends on."""
    content = canonical_json.dumps(
        [
            _VERSIONS,
            vocab.fingerprint,
            vocab.logits_size,
            [spec.kind, spec.source, spec.options, spec.min_calls, spec.max_calls, spec.text],
            [[tool.name, tool.parameters] for tool in spec.tools],
            asdict(frame) if spec.kind == "calls" else None,
        ]
    )
    return hashlib.sha256(content.encode(errors="surrogatepass")).hexdigest()

"""Cache of compiled constraints: each is compiled once; refusals are cached too."""

from __future__ import annotations

import hashlib
import importlib.metadata
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields

from agentrt.base import canonical_json
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import AgentrtError
from agentrt.base.segments import CallFrame
from agentrt.base.vocabulary import Vocab
from agentrt.structured.calls import parameter_digests
from agentrt.structured.json_schema.compile_cost import PLAIN_BYTES, may_take_long
from agentrt.structured.matcher import CompiledConstraint
from agentrt.structured.sandbox.service import CompileService
from agentrt.structured.vocabulary import alphabet_of

Compile = Callable[[ConstraintSpec, Vocab, CallFrame], CompiledConstraint]
Outcome = CompiledConstraint | AgentrtError

_Asked = tuple[ConstraintSpec, Vocab, CallFrame]

_FEW_TOOLS = 8
"""Number of tools that are looked up in a few tenths of a millisecond."""

_FEW_OPTIONS = 1_000
"""Number of options for which the same holds."""

_MAX_ASKED = 32
"""Specs of many tools or options that are known by themselves."""

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
        self,
        spec: ConstraintSpec,
        vocab: Vocab,
        frame: CallFrame,
        *,
        within_tokens: int | None = None,
    ) -> Future[CompiledConstraint]:
        """The same, compiled in another thread; done at once if it is cached.

        A set of many tools, or a constraint with many options, takes long to be looked up. So that
        is done in a thread as well, and the spec itself is known after that.

        Args:
            spec: The constraint.
            vocab: The model's vocabulary.
            frame: Frame of the model's tool calls.
            within_tokens: Room for the output: if the shortest known has more tokens, the one
                with the fewest is searched, in the same thread.
        """
        if not _is_long(spec):
            return self._start(spec, vocab, frame, within_tokens)
        asked = (spec, vocab, frame)
        with self._lock:
            known, found = self._asked.get(id(spec), (None, None))
            if found is not None and known == asked and _fits(found, within_tokens):
                self._hits += 1
                return found
        later: Future[CompiledConstraint] = Future()
        self._plain_worker.submit(self._start_later, later, asked, within_tokens)
        return later

    def _start_later(
        self, later: Future[CompiledConstraint], asked: _Asked, within_tokens: int | None
    ) -> None:
        def end(done: Future[CompiledConstraint]) -> None:
            wrong = done.exception()
            if wrong is not None:
                later.set_exception(wrong)
                return
            with self._lock:
                self._asked[id(asked[0])] = (asked, later)
                while len(self._asked) > _MAX_ASKED:
                    self._asked.popitem(last=False)
            later.set_result(done.result())

        try:
            self._start(*asked, within_tokens).add_done_callback(end)
        except BaseException as wrong:
            later.set_exception(wrong)

    def _start(
        self, spec: ConstraintSpec, vocab: Vocab, frame: CallFrame, within_tokens: int | None
    ) -> Future[CompiledConstraint]:
        future, mine = self._claim(spec, vocab, frame)
        is_costly = len(spec.tools) > _FEW_TOOLS or may_take_long(spec)
        worker = self._costly_worker if is_costly else self._plain_worker
        if mine:
            worker.submit(self._run, future, spec, vocab, frame)
        if within_tokens is None or (future.done() and _fits(future, within_tokens)):
            return future
        return worker.submit(self._fitted, future, spec, vocab, frame, within_tokens)

    def _fitted(
        self,
        future: Future[CompiledConstraint],
        spec: ConstraintSpec,
        vocab: Vocab,
        frame: CallFrame,
        within_tokens: int,
    ) -> CompiledConstraint:
        compiled = future.result()
        self._service.fit(compiled, spec, vocab, frame, within_tokens)
        return compiled

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


def _is_long(spec: ConstraintSpec) -> bool:
    """Whether to hash it takes more than some tenths of a millisecond."""
    options = [
        len(one.get("enum", ()))
        for tool in spec.tools
        for one in tool.parameters.get("$defs", {}).values()
        if isinstance(one, dict)
    ]
    return (
        len(spec.tools) > _FEW_TOOLS
        or len(spec.source) > PLAIN_BYTES
        or sum(options) + len(spec.options) > _FEW_OPTIONS
    )


def _fits(done: Future[CompiledConstraint], within_tokens: int | None) -> bool:
    """Whether a known output fits, or there is no constraint."""
    if within_tokens is None or done.exception() is not None:
        return True
    return (done.result().min_tokens or 0) <= within_tokens


def cache_key(spec: ConstraintSpec, vocab: Vocab, frame: CallFrame) -> str:
    """Hash of all that a compiled constraint depends on; tools count by their digests."""
    content = canonical_json.dumps(
        [
            _VERSIONS,
            vocab.fingerprint,
            vocab.logits_size,
            [getattr(spec, one.name) for one in fields(spec) if one.name != "tools"],
            [tool.name for tool in spec.tools],
            asdict(frame) if spec.kind == "calls" else None,
        ]
    )
    digests = b"".join(parameter_digests(spec.tools))
    return hashlib.sha256(content.encode(errors="surrogatepass") + digests).hexdigest()

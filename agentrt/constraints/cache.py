"""Compiled constraints, kept: each is compiled once, refusals are remembered too."""

from __future__ import annotations

import hashlib
import importlib.metadata
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass

from agentrt import canonical_json
from agentrt.constraint_spec import ConstraintSpec
from agentrt.constraints.compiled import compile_constraint
from agentrt.constraints.matcher import CompiledConstraint
from agentrt.constraints.vocabulary import alphabet_of
from agentrt.errors import AgentrtError
from agentrt.segments import CallFrame
from agentrt.vocab import Vocab

Compile = Callable[[ConstraintSpec, Vocab, CallFrame], CompiledConstraint]
Outcome = CompiledConstraint | AgentrtError

_VERSIONS = tuple(importlib.metadata.version(name) for name in ("llguidance", "outlines-core"))


@dataclass(frozen=True, slots=True)
class CacheCounts:
    """What the cache did and holds.

    Attributes:
        hits: Answers that were there, or under way.
        compiled: Compilations that were run, refusals among them.
        entries: Kept now.
        size_bytes: About what they hold.
    """

    hits: int
    compiled: int
    entries: int
    size_bytes: int


class CompileCache:
    """Compiles each constraint once for a vocabulary and keeps the few hundred last used.

    Two that ask for the same at once wait for one compilation. Thread-safe.
    """

    def __init__(
        self,
        *,
        max_entries: int = 512,
        max_bytes: int = 256 * 1024 * 1024,
        compile_one: Compile = compile_constraint,
    ) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._compile = compile_one
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Future[CompiledConstraint]] = OrderedDict()
        self._bytes: dict[str, int] = {}
        self._hits = 0
        self._compiled = 0
        self._worker: ThreadPoolExecutor | None = None

    @property
    def counts(self) -> CacheCounts:
        with self._lock:
            return CacheCounts(
                self._hits, self._compiled, len(self._kept), sum(self._bytes.values())
            )

    def get(self, spec: ConstraintSpec, vocab: Vocab, frame: CallFrame) -> CompiledConstraint:
        """The compiled constraint, compiled here and now unless it is there or under way.

        Raises:
            ConstraintError: It does not compile; the same answer each time.
        """
        future, mine = self._claim(spec, vocab, frame)
        if mine:
            self._run(future, spec, vocab, frame)
        return future.result()

    def begin(
        self, spec: ConstraintSpec, vocab: Vocab, frame: CallFrame
    ) -> Future[CompiledConstraint]:
        """The same, compiled on a thread: done at once when it is there."""
        future, mine = self._claim(spec, vocab, frame)
        if mine:
            self._thread().submit(self._run, future, spec, vocab, frame)
        return future

    def prepare(self, vocab: Vocab) -> None:
        """Get what every compilation needs of a vocabulary ready, on a thread."""
        self._thread().submit(alphabet_of, vocab)

    def close(self) -> None:
        """End the thread; what is under way is finished."""
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.shutdown(wait=True)

    def _claim(
        self, spec: ConstraintSpec, vocab: Vocab, frame: CallFrame
    ) -> tuple[Future[CompiledConstraint], bool]:
        key = cache_key(spec, vocab, frame)
        with self._lock:
            future = self._kept.get(key)
            if future is not None:
                self._hits += 1
                self._kept.move_to_end(key)
                return future, False
            self._compiled += 1
            future = Future()
            self._kept[key] = future
            future.add_done_callback(lambda done: self._weigh(key, done))
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
            return
        future.set_result(compiled)

    def _weigh(self, key: str, done: Future[CompiledConstraint]) -> None:
        """Account for what has arrived and let go what was not used for longest."""
        wrong = done.exception()
        with self._lock:
            if wrong is not None and not isinstance(wrong, AgentrtError):
                self._kept.pop(key, None)  # not about the constraint: try again next time
                return
            self._bytes[key] = 0 if wrong is not None else done.result().size_bytes
            total = sum(self._bytes.values())
            for old in list(self._kept):
                if len(self._kept) <= self._max_entries and total <= self._max_bytes:
                    break
                if old != key and old in self._bytes:
                    total -= self._bytes.pop(old)
                    del self._kept[old]

    def _thread(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._worker is None:
                self._worker = ThreadPoolExecutor(1, thread_name_prefix="agentrt-compile")
            return self._worker


def cache_key(spec: ConstraintSpec, vocab: Vocab, frame: CallFrame) -> str:
    """What a compiled constraint depends on, hashed."""
    told = canonical_json.dumps(
        [
            _VERSIONS,
            vocab.fingerprint,
            vocab.logits_size,
            asdict(spec),
            asdict(frame) if spec.kind == "calls" else None,
        ]
    )
    return hashlib.sha256(told.encode(errors="surrogatepass")).hexdigest()

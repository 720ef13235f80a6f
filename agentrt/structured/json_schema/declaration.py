"""Declaration of constraints: worked out here if they are plain by proof, else in a process.

Neither our own rewriting of a schema nor the native parser can be interrupted, and a parser that
recurses too deeply ends its process. So this process only writes the text, and reads the answer.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError, InternalError
from agentrt.base.json_style import JsonStyle
from agentrt.base.record import record
from agentrt.protocol.child_process import ChildProcess
from agentrt.structured.json_schema import declaration_wire as wire
from agentrt.structured.json_schema.declaring import answer_to, is_plain_order
from agentrt.structured.json_schema.limits import check_size

T = TypeVar("T", bound=wire.Answer)

_CHILD = Path(__file__).with_name("declaration_child.py")
_WALL_S = 30.0
"""CPU time decides, which the child limits: this is for machines that are very busy."""
_MAX_KNOWN_BYTES = 8 << 20
_MAX_PROCESSES = 2
_TOO_COSTLY = wire.ConstraintRefused(
    "takes too long or too much memory to check",
    hint="Make it smaller: fewer references, rules or repetitions",
)


@record
class RelaxedForm:
    """The enforceable part of a schema.

    Attributes:
        spec: Constraint of the part.
        schema: The part.
        judged: The original, as far as Python's validator can check it.
    """

    spec: ConstraintSpec
    schema: Any
    judged: Any


def normal_form(schema: Any, what: str = "schema", *, narrow: bool = False) -> Any:
    """A schema without annotations and without keywords that have no effect.

    Args:
        schema: The schema.
        what: Name of it for people.
        narrow: Whether to narrow it to what a model should write.

    Raises:
        ConstraintError: The value is no schema, or too large; names the location and the limit.
    """
    order = wire.Normalize(_source(schema, what), narrow)
    return json.loads(_expected(DECLARATIONS.answer(order), wire.NormalForm).source)


def json_spec(
    schema: Any, *, is_part: bool = False, style: JsonStyle = "compact"
) -> ConstraintSpec:
    """The spec of JSON that fits a schema in normal form.

    Args:
        schema: The schema.
        is_part: Whether it is part of a larger grammar.
        style: Style of its texts.

    Raises:
        ConstraintError: The schema cannot be enforced; names JSON pointer and keyword.
    """
    order = wire.Specify(_source(schema, "schema"), is_part, style)
    return _expected(DECLARATIONS.answer(order), wire.Specified).spec


def relaxed_form(schema: Any, original: Any, *, is_part: bool = False) -> RelaxedForm:
    """The enforceable part of a schema in normal form.

    Args:
        schema: The schema.
        original: The schema that values are checked against.
        is_part: Whether it is part of a larger grammar.

    Raises:
        ConstraintError: A part of it can neither be enforced nor checked.
    """
    order = wire.Relax(_source(schema, "schema"), _source(original, "schema"), is_part)
    found = _expected(DECLARATIONS.answer(order), wire.RelaxedSpec)
    return RelaxedForm(found.spec, json.loads(found.source), json.loads(found.judged))


def complaint_about(spec: ConstraintSpec) -> str:
    """The compiler's error for a regex or a grammar; "" if there is none.

    Raises:
        ConstraintError: The text is too large, or takes too much time or memory to parse.
    """
    check_size(spec.source, spec.kind)
    return _expected(DECLARATIONS.answer(wire.Validate(spec)), wire.Complaint).text


def texts_of(spec: ConstraintSpec) -> tuple[str, ...]:
    """Different texts of a constraint, a short one first, the same ones each time.

    Raises:
        ConstraintError: The constraint takes too much time or memory to parse.
    """
    return _expected(DECLARATIONS.answer(wire.DrawTexts(spec)), wire.Texts).texts


def _process() -> ChildProcess:
    return ChildProcess(str(_CHILD))


class Declarations:
    """Answers orders and keeps the answers of the last few. Thread-safe.

    Args:
        answer_plain: Answers orders that are proved plain.
        start_process: Starts a process for all others.

    Attributes:
        starts: Number of processes started so far.
    """

    def __init__(
        self,
        answer_plain: Callable[[wire.Order], wire.Answer] = answer_to,
        start_process: Callable[[], ChildProcess] = _process,
    ) -> None:
        self._answer_plain = answer_plain
        self._start_process = start_process
        self._known: OrderedDict[bytes, tuple[wire.Answer, int]] = OrderedDict()
        self._known_bytes = 0
        self._lock = threading.Lock()
        self._free = threading.Semaphore(_MAX_PROCESSES)
        self._idle: list[ChildProcess] = []
        self.starts = 0

    def answer(self, order: wire.Order) -> wire.Answer:
        """The answer to an order, from a process unless the order is plain.

        A type that a program makes anew in each run has the same schema each time.

        Raises:
            InternalError: The process met a fault of its own.
        """
        frame = wire.ORDERS.frame(order)
        key = hashlib.sha256(frame).digest()
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key][0]
        if is_plain_order(order):
            answer, is_final = self._answer_plain(order), True
        else:
            with self._free:
                answer, is_final = self._answer_of_child(frame)
        if isinstance(answer, wire.DeclarationBroke):
            raise InternalError(f"a declaration broke: {answer.what}")
        if is_final:
            self._keep(key, answer)
        return answer

    def close(self) -> None:
        """End the processes; later orders start others."""
        with self._lock:
            idle, self._idle = self._idle, []
        for child in idle:
            child.end()

    def _answer_of_child(self, frame: bytes) -> tuple[wire.Answer, bool]:
        """An answer, and whether it is the same on a machine that is less busy."""
        child = self._child()
        ends_s = time.monotonic() + _WALL_S
        child.send(frame, ends_s)
        payload = child.receive(ends_s)
        if payload is None:
            code = child.end()
            if code == 0:  # it was idle for long and ended as the order was sent
                return self._answer_of_child(frame)
            return _TOO_COSTLY, code is not None
        with self._lock:
            self._idle.append(child)
        return wire.ANSWERS.value(payload), True

    def _child(self) -> ChildProcess:
        while True:
            with self._lock:
                if not self._idle:
                    self.starts += 1
                    break
                child = self._idle.pop()
            if child.is_alive:
                return child
            child.end()
        return self._start_process()

    def _keep(self, key: bytes, answer: wire.Answer) -> None:
        size_bytes = len(key) + len(wire.ANSWERS.frame(answer))
        with self._lock:
            if key in self._known or size_bytes > _MAX_KNOWN_BYTES:
                return
            self._known[key] = answer, size_bytes
            self._known_bytes += size_bytes
            while self._known_bytes > _MAX_KNOWN_BYTES:
                self._known_bytes -= self._known.popitem(last=False)[1][1]


def _source(schema: Any, what: str) -> str:
    """A schema as text."""
    try:
        source = json.dumps(schema, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as wrong:
        raise ConstraintError(
            f"{what} is no JSON value: {wrong}", hint="Give a JSON Schema as a dict"
        ) from None
    if not isinstance(schema, dict | bool):
        raise ConstraintError(f"{what} is no JSON Schema", hint="Give an object, true or false")
    check_size(source, "schema")
    return source


def _expected(answer: wire.Answer, kind: type[T]) -> T:
    if isinstance(answer, wire.ConstraintRefused):
        raise answer.error()
    if not isinstance(answer, kind):
        raise InternalError(f"another answer than asked for: {type(answer).__name__}")
    return answer


DECLARATIONS = Declarations()
"""The declarations of this process."""

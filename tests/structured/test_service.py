"""What looks hostile is tried in a process that can be killed; all others pass by it."""

from __future__ import annotations

import json
import random
import threading
import time
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError, InternalError
from agentrt.structured import CompileCache, json_schema_shape, shape_of
from agentrt.structured.json_schema.compile_cost import may_be_hostile, may_take_long
from agentrt.structured.sandbox.probe import CompileProbe, CompileTooCostly, ProbeProcess
from agentrt.structured.sandbox.probe_wire import Learn, Try, TryLimits
from agentrt.structured.sandbox.service import LIMITS, CompileService

DATA = Path(__file__).parent / "data"
EXPLODES = ConstraintSpec("regex", source="(a|b|ab){1,5000}")
LONG = ConstraintSpec("json", source='{"type":"string","minLength":1200,"maxLength":1300}')
AMBIGUOUS = ConstraintSpec("grammar", source="start: x{999}\nx: y{999}\ny: /[ab]{300}/{999}")


@pytest.fixture(scope="module")
def service():
    service = CompileService()
    yield service
    service.close()


def depth(levels):
    schema: dict[str, object] = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return json.dumps(schema)


MALFORMED = [
    ConstraintSpec("json", source="{"),
    ConstraintSpec("json", source="[" * 100_000),
    ConstraintSpec("json", source=depth(300)),
    ConstraintSpec(
        "json", source=json.dumps({"enum": ["x" * 100 + str(i) for i in range(90_000)]})
    ),
    ConstraintSpec("json", source='{"type":"string","maxLength":1000000}'),
    ConstraintSpec("json", source='{"type":"string","const":"\\u0000"}\x00'),
    ConstraintSpec("regex", source="(a{1000}){1000}"),
    ConstraintSpec("regex", source="a{1000000}"),
    ConstraintSpec("regex", source="a\x00"),
    ConstraintSpec("regex", source="(" * 9_000),
    ConstraintSpec("grammar", source='start: "a\x00"'),
    ConstraintSpec("grammar", source="start: " + '"a" ' * 90_000),
    ConstraintSpec("choice", options=()),
    ConstraintSpec("choice", options=("a\x00",)),
    ConstraintSpec("json", source='{"$ref":"#"}'),
    ConstraintSpec("json", source='{"$defs":{"a":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}'),
]


@pytest.mark.parametrize("spec", MALFORMED, ids=range(len(MALFORMED)))
def test_what_cannot_be_compiled_is_a_typed_error(service, vocab, frame, spec):
    """None of these went through a declaration: they came straight to the engine."""
    with pytest.raises(ConstraintError):
        service.compile(spec, vocab, frame)


def test_what_is_plain_starts_no_process(vocab, frame):
    service = CompileService()
    for line in (DATA / "own_cases.jsonl").read_text(encoding="utf-8").splitlines()[:40]:
        try:
            spec = json_schema_shape(json.loads(line)["schema"]).spec
        except ConstraintError:
            continue
        assert spec is not None
        service.compile(spec, vocab, frame)
    assert service.probe.starts == 0


@pytest.mark.parametrize(
    "form",
    [
        Annotated[str, Field(max_length=400)],
        Annotated[str, Field(min_length=100, max_length=400, pattern="^[a-z ]+$")],
        Annotated[list[Annotated[str, Field(max_length=400)]], Field(max_length=8)],
        Literal["yes", "no"],
        dict[str, float],
    ],
)
def test_what_programs_ask_for_is_plain(form):
    spec = shape_of(form).spec
    assert spec is not None
    assert not may_be_hostile(spec)


@pytest.mark.parametrize(
    ("pattern", "suspect"),
    [
        (r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", False),
        (r"(\d{1,3}\.){3}\d{1,3}", False),
        ("[A-Z]{1,5}", False),
        ("[ab]{0,30}a[ab]{7}", True),
        ("(a|b|ab){1,5000}", True),
    ],
)
def test_a_regex_is_suspected_for_what_its_table_may_grow_to(pattern, suspect):
    assert may_be_hostile(ConstraintSpec("regex", source=pattern)) == suspect


def test_a_regex_whose_table_explodes_is_parsed_instead(service, vocab, frame):
    """The table is given up when its process is killed; the parser takes it, or it is refused."""
    assert may_be_hostile(EXPLODES)
    constraint = service.compile(EXPLODES, vocab, frame)
    assert constraint.backend == "llguidance"


def test_what_takes_too_long_both_ways_is_refused(service, vocab, frame):
    spec = ConstraintSpec("json", source='{"type":"integer","multipleOf":2999949}')
    with pytest.raises(ConstraintError, match="too long or too much memory"):
        service.compile(spec, vocab, frame)


def test_what_was_found_over_there_is_used_here(service, vocab, frame):
    assert may_be_hostile(LONG)
    constraint = service.compile(LONG, vocab, frame)
    assert constraint.shortest is not None
    state = constraint.start()
    assert state.advance(constraint.shortest) == len(constraint.shortest)
    assert state.can_stop()


def test_what_takes_too_long_is_killed_and_the_next_goes_on(vocab, frame):
    probe = CompileProbe()
    with pytest.raises(CompileTooCostly):
        probe.find_shortest(
            Try(EXPLODES, frame, "table", TryLimits(cpu_s=0.05, wall_s=20.0)), vocab
        )
    with pytest.raises(CompileTooCostly):
        probe.find_shortest(
            Try(EXPLODES, frame, "table", TryLimits(cpu_s=20.0, wall_s=0.05)), vocab
        )
    assert probe.find_shortest(Try(LONG, frame, "parser", TryLimits(20.0, 20.0)), vocab) is not None
    assert probe.starts == 3
    probe.close()


def test_what_takes_too_much_memory_is_killed(vocab, frame):
    probe = CompileProbe(more_bytes=1 << 20)
    with pytest.raises((CompileTooCostly, ConstraintError)) as caught:
        probe.find_shortest(
            Try(EXPLODES, frame, "table", TryLimits(cpu_s=30.0, wall_s=30.0)), vocab
        )
    assert caught.type is CompileTooCostly or "memory" in str(caught.value)
    probe.close()


@pytest.mark.parametrize(("computed_s", "starts"), [((1.0, 2.0, 2.5), 1), ((1.0, 1.0, 2.5), 0)])
def test_a_slow_start_is_waited_for_while_it_gets_on(vocab, frame, computed_s, starts):
    """As where others have the cores: three looks find it not ready yet."""
    looks, late = iter(computed_s), iter(computed_s)

    class Slow(ProbeProcess):
        def receive(self, ends_s):
            return None if next(late, None) else super().receive(ends_s)

        def computed_s(self):
            return next(looks)

    probe = CompileProbe(start_process=Slow)
    if starts:
        assert (
            probe.find_shortest(Try(LONG, frame, "parser", TryLimits(20.0, 20.0)), vocab)
            is not None
        )
    else:
        with pytest.raises(InternalError, match="does not start"):
            probe.find_shortest(Try(LONG, frame, "parser", TryLimits(20.0, 20.0)), vocab)
    probe.close()


def test_how_long_a_process_has_computed_is_known(vocab):
    child = ProbeProcess(vocab.fingerprint)
    child.order(Learn(vocab, 1 << 30), time.monotonic() + 60)
    assert child.wait_ready()
    assert child.computed_s() > 0.05  # it has imported and learnt
    child.end()


def test_an_answer_takes_less_than_three_seconds_of_computing():
    assert sum(limits.cpu_s for limits in LIMITS.values()) < 3.0


def test_plain_ones_do_not_queue_behind_a_suspect(vocab, frame):
    """The suspect is only let go when the plain one is through."""
    passed = threading.Event()

    def compile_one(spec, vocab, frame):
        if may_be_hostile(spec):
            assert passed.wait(30)
        return CompileService().compile(ConstraintSpec("choice", options=("a",)), vocab, frame)

    cache = CompileCache(compile_one=compile_one)
    slow = cache.start_compile(LONG, vocab, frame)
    cache.start_compile(ConstraintSpec("choice", options=("b",)), vocab, frame).result(30)
    passed.set()
    slow.result(30)
    cache.close()


def test_refusals_live_shortly(vocab, frame):
    now_s = [0.0]
    tried = []

    def refuse(spec, vocab, frame):
        tried.append(spec)
        raise ConstraintError("no")

    cache = CompileCache(compile_one=refuse, now_s=lambda: now_s[0])
    for instant_s in (0.0, 59.0, 61.0, 62.0):
        now_s[0] = instant_s
        with pytest.raises(ConstraintError):
            cache.get(LONG, vocab, frame)
    assert len(tried) == 2


PIECES = ["a", "b", "[a-z]", ".", r"\w", r"\d", r"\p{L}", "(?:", ")", "|", "*", "+", "?", "{3}"]
PIECES += ["{1,300}", "{99}", "{20,}", "^", "$", "(", "[^x]", "(?i)", r"\b", "&", "é", "\x00"]


def test_random_regexes_never_hurt(service, vocab, frame):
    """Seeded; each gives a constraint or a typed error, and the service still answers."""
    dice = random.Random(20)
    outcomes = {"compiled": 0, "refused": 0}
    for _ in range(60):
        pattern = "".join(dice.choices(PIECES, k=dice.randint(1, 9)))
        try:
            service.compile(ConstraintSpec("regex", source=pattern), vocab, frame)
            outcomes["compiled"] += 1
        except ConstraintError:
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 5


RULES = ['"a"', '"b"', "/[ab]+/", "/.*/", "/a.{18}/", "s", "t", "s s", "(s | t)", "s?", "t*", "s+"]
RULES += ["s{2,9}", "t{999}", "/(a|b){0,300}/", "~/.*a/", '%json {"type":"object"}', "u", "|"]


@pytest.mark.parametrize(("count", "least"), [(20, 2), pytest.param(60, 6, marks=pytest.mark.slow)])
def test_random_grammars_never_hurt(service, vocab, frame, count, least):
    """They recurse, are ambiguous, match nothing or too much; some of them compile."""
    dice = random.Random(21)
    outcomes = {"compiled": 0, "refused": 0}
    for _ in range(count):
        rules = [" ".join(dice.choices(RULES, k=dice.randint(1, 4))) for _ in range(3)]
        source = "\n".join(f"{name}: {rule}" for name, rule in zip("ust", rules, strict=True))
        source = "start: s t\n" + source
        try:
            constraint = service.compile(ConstraintSpec("grammar", source=source), vocab, frame)
        except ConstraintError:
            outcomes["refused"] += 1
            continue
        outcomes["compiled"] += 1
        if constraint.shortest is not None:
            assert constraint.start().reaches_end(constraint.shortest)
    assert min(outcomes.values()) >= least


ONE_LEXEME = "start: TEXT\nTEXT: /[a-z]+/ & /(?s:.){0,9}/\n"


@pytest.mark.parametrize(
    ("lark", "long"),
    [
        (ONE_LEXEME, False),
        ("start: /a+/ /a+/ /a+/ /a+/", True),
        ('start: s\ns: s s | "a"', True),
        (ONE_LEXEME + "%ignore / /", True),
    ],
)
def test_lexemes_that_may_follow_each_other_are_tried_first(lark, long):
    """Their readings multiply, whatever the text of the grammar looks like."""
    assert may_take_long(ConstraintSpec("grammar", source=lark)) is long


def test_lexemes_in_a_row_are_taken(service, vocab, frame):
    """Their masks do not follow forced text, which once took ever longer."""
    spec = ConstraintSpec("grammar", source="start: /a+/ /a+/ /a+/ /a+/")
    assert service.compile(spec, vocab, frame).size_bytes > 0


def test_a_grammar_of_an_expression_is_taken(service, vocab, frame):
    lark = 'start: sum\nsum: sum "+" term | term\nterm: "(" sum ")" | /[0-9]+/\n'
    assert service.compile(ConstraintSpec("grammar", source=lark), vocab, frame).min_tokens == 1

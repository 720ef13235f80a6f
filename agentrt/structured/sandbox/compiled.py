"""Compilation of a spec: choice of the library, and its limits."""

from __future__ import annotations

import json

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.base.segments import CallFrame
from agentrt.base.vocabulary import Vocab
from agentrt.structured.backends.automaton import AutomatonConstraint
from agentrt.structured.backends.llguidance_backend import (
    LlguidanceConstraint,
)
from agentrt.structured.call_state import CallsConstraint
from agentrt.structured.closing.forced_text import (
    MAX_FORCED_BYTES,
    is_forced_text_short,
    most_forced_bytes,
)
from agentrt.structured.distinct_state import DistinctConstraint
from agentrt.structured.json_schema.compile_cost import (
    MAX_WIDE_AFTER_CHOICE,
    forces_short_text,
    may_take_long,
)
from agentrt.structured.json_schema.distinct import DistinctPlaces, check_distinct, holds_distinct
from agentrt.structured.json_schema.json_grammar import json_grammar
from agentrt.structured.json_schema.native import lark_grammar, regex_grammar
from agentrt.structured.json_schema.regex_text import (
    START_MARKER,
    cost_of,
    escape_regex,
    whole_match,
)
from agentrt.structured.json_schema.schema_source import parsed
from agentrt.structured.matcher import CompiledConstraint
from agentrt.structured.sandbox.probe_wire import Closes, MatchMethod
from agentrt.structured.sandbox.shortest_output import find_shortest
from agentrt.structured.vocabulary import Alphabet, alphabet_of

MAX_TABLE_CELLS = 250_000
"""Maximum size of a table built ahead, states times tokens; beyond 30 ms the parser is better."""

_MAX_CHOICE_CHARS = 4_000


def compile_constraint(
    spec: ConstraintSpec,
    vocab: Vocab,
    frame: CallFrame,
    *,
    method: MatchMethod | None = None,
    searches: bool = True,
    closes: Closes | None = None,
) -> CompiledConstraint:
    """Compile a constraint and its first mask. Any thread; may take long.

    Args:
        spec: The constraint.
        vocab: The model's vocabulary.
        frame: Frame of the model's tool calls; matters to `calls` only.
        method: Method of matching; None takes the first of `methods_for`.
        searches: Whether to search for the shortest text.
        closes: Result of an earlier search; its tokens are checked, never trusted.

    Raises:
        ConstraintError: The constraint does not compile within the limits.
        ModelInvalid: The tokenizer cannot be used.
    """
    alphabet = alphabet_of(vocab)
    pattern = _pattern(spec)
    if pattern is not None and (method or methods_for(spec, vocab)[0]) == "table":
        return AutomatonConstraint(pattern, alphabet)
    constraint = _searched(spec, alphabet, frame)
    if searches:
        find_shortest(constraint, spec, vocab, frame)
    elif closes is not None:
        constraint.least_tokens, constraint.why_open = closes.least_tokens, closes.why_open
        if closes.tokens is not None:
            constraint.set_shortest(closes.tokens)
    return constraint


def _searched(
    spec: ConstraintSpec, alphabet: Alphabet, frame: CallFrame
) -> CallsConstraint | DistinctConstraint | LlguidanceConstraint:
    if spec.kind == "calls":
        return CallsConstraint(spec, frame, alphabet)
    constraint = _parsed(spec, alphabet)
    schema = parsed(spec.source) if spec.kind == "json" else True
    if holds_distinct(schema):
        check_distinct(schema)  # its options may have come late
        return DistinctConstraint(constraint, DistinctPlaces(schema, spec.style), alphabet)
    return constraint


def _parsed(spec: ConstraintSpec, alphabet: Alphabet) -> LlguidanceConstraint:
    forces = not may_take_long(spec) or _forces_short_text(spec, alphabet)
    try:
        grammar = native_grammar(spec, forces=forces)
        return LlguidanceConstraint(grammar, alphabet, forces=forces)
    except ConstraintError:
        if spec.kind != "json":
            raise
        # A part that nothing fits ends a grammar of rules, not that of a schema.
        return LlguidanceConstraint(native_grammar(spec, exact=False), alphabet, forces=forces)


def _forces_short_text(spec: ConstraintSpec, alphabet: Alphabet) -> bool:
    match spec.kind:
        case "grammar":
            return is_forced_text_short(spec.source, alphabet.vocab.special_ids)
        case "regex":
            return most_forced_bytes(whole_match(spec.source)) <= MAX_FORCED_BYTES
        case "json":
            return forces_short_text(spec.source)
    return False


def methods_for(spec: ConstraintSpec, vocab: Vocab) -> tuple[MatchMethod, ...]:
    """Possible methods of matching, the best first."""
    match spec.kind:
        case "regex":
            fits = fits_table(whole_match(spec.source), vocab)
        case "choice":
            text = "".join(spec.options)
            fits = len(text) * vocab.size <= MAX_TABLE_CELLS and len(text) <= _MAX_CHOICE_CHARS
            fits = fits and max(text, default="") < START_MARKER
        case _:
            fits = False
    return ("table", "parser") if fits else ("parser",)


def fits_table(pattern: str, vocab: Vocab) -> bool:
    """Whether the automaton of a regex is certainly small enough to be built ahead.

    A native compile can be neither interrupted nor caught when memory runs out; hence a bound, not
    a try.
    """
    cost = cost_of(pattern)
    small = cost.states * vocab.size <= MAX_TABLE_CELLS
    return small and not cost.broad and cost.wide_after_choice <= MAX_WIDE_AFTER_CHOICE


def _pattern(spec: ConstraintSpec) -> str | None:
    match spec.kind:
        case "regex":
            return whole_match(spec.source)
        case "choice":
            return "|".join(escape_regex(option) for option in spec.options)
        case _:
            return None


def native_grammar(spec: ConstraintSpec, *, exact: bool = True, forces: bool = False) -> str:
    """The compiler's own form of a constraint that is no set of tools.

    Args:
        spec: The constraint.
        exact: Whether numbers of JSON are written as rules.
        forces: Whether masks of a grammar follow forced text.
    """
    match spec.kind:
        case "json":
            return json_grammar(parsed(spec.source), exact=exact, style=spec.style)
        case "regex":
            return regex_grammar(whole_match(spec.source))
        case "choice":
            options = (json.dumps(option, ensure_ascii=False) for option in spec.options)
            lark = f"start: TEXT\nTEXT: {' | '.join(options)}"  # rules have limits
            return lark_grammar(lark, forces=True)
        case "grammar":
            return lark_grammar(spec.source, forces=forces)
    raise ConstraintError(f"unknown kind of constraint: {spec.kind!r}")

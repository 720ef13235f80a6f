"""The shortest output of a constraint: a guess, a search in its model, or a walk of its matcher.

Whatever is found counts only once the matcher accepts it.
"""

from __future__ import annotations

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.base.segments import CallFrame
from agentrt.base.vocabulary import Vocab
from agentrt.structured.backends.llguidance_backend import SearchedConstraint
from agentrt.structured.call_grammars import FrameText
from agentrt.structured.call_state import CallsConstraint
from agentrt.structured.closing.derivation import SearchGaveUp
from agentrt.structured.closing.example_text import shortest_instance
from agentrt.structured.closing.fewest_tokens import FewestTokens
from agentrt.structured.closing.model import grammar_of
from agentrt.structured.closing.shortest import shortest_match
from agentrt.structured.closing.symbols import NotModeled
from agentrt.structured.closing.token_trie import trie_of
from agentrt.structured.json_schema.regex_text import whole_match
from agentrt.structured.json_schema.schema_source import parsed
from agentrt.structured.vocabulary import Alphabet, alphabet_of


def find_shortest(
    constraint: SearchedConstraint, spec: ConstraintSpec, vocab: Vocab, frame: CallFrame
) -> None:
    """Find a short complete output, not always the one with the fewest tokens."""
    guess = _guess_of(spec, constraint, alphabet_of(vocab))
    if guess is not None and constraint.set_shortest(guess):
        return
    find_fewest(constraint, spec, vocab, frame)
    if constraint.shortest is None:
        constraint.walk_to_end()
    if constraint.shortest is not None:
        constraint.why_open = ""


def find_fewest(
    constraint: SearchedConstraint, spec: ConstraintSpec, vocab: Vocab, frame: CallFrame
) -> None:
    """Find the output with the fewest tokens, or a number of tokens that none falls below."""
    try:
        lark = FrameText(frame, vocab).whole(spec) if spec.kind == "calls" else spec.source
        grammar = grammar_of(spec, lark, vocab.special_ids)
        search = FewestTokens(grammar, trie_of(vocab))
    except (NotModeled, SearchGaveUp, RecursionError, ConstraintError) as wrong:
        constraint.why_open = f"no model of {str(wrong) or 'so large a grammar'}"
        return
    found: list[int] | None = None
    try:
        found = search.find()
        constraint.why_open = "no text fits it"
    except (SearchGaveUp, RecursionError):
        constraint.why_open = "the search for one takes too long"
    if found is not None and not constraint.set_shortest(found):
        constraint.why_open = "its terminals take the text of those that follow"
    if grammar.covers:
        constraint.least_tokens = max(constraint.least_tokens, search.bound)


def _guess_of(
    spec: ConstraintSpec, constraint: SearchedConstraint, alphabet: Alphabet
) -> list[int] | None:
    """A short output found by the constraint's text alone; None for most grammars."""
    if isinstance(constraint, CallsConstraint):
        return constraint.guess()
    match spec.kind:
        case "json":
            text = shortest_instance(parsed(spec.source), spec.style)
            return None if text is None else alphabet.tokenize(text.encode())
        case "regex":
            match = shortest_match(whole_match(spec.source))
            return None if match is None else alphabet.tokenize(match.encode())
        case "grammar" if spec.options:
            return alphabet.tokenize(spec.options[0].encode())
        case "choice":
            return alphabet.tokenize(min(spec.options, key=len).encode())
    return None

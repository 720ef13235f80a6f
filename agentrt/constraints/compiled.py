"""From a spec to a compiled constraint: which library, under which limits."""

from __future__ import annotations

import json

from agentrt.constraint_spec import ConstraintSpec
from agentrt.constraints.calls import calls_lark
from agentrt.constraints.earley import EarleyConstraint
from agentrt.constraints.matcher import CompiledConstraint
from agentrt.constraints.native import json_grammar, lark_grammar, regex_grammar
from agentrt.constraints.vocabulary import alphabet_of
from agentrt.segments import CallFrame
from agentrt.vocab import Vocab


def compile_constraint(spec: ConstraintSpec, vocab: Vocab, frame: CallFrame) -> CompiledConstraint:
    """Compile a constraint and its first mask. Any thread; may take long.

    Args:
        spec: What the output must look like.
        vocab: The model's vocabulary.
        frame: How the model writes tool calls; matters to `calls` only.

    Raises:
        ConstraintError: It does not compile within the limits.
        ModelInvalid: The tokenizer cannot be used.
    """
    return EarleyConstraint(_grammar(spec, vocab, frame), alphabet_of(vocab))


def _grammar(spec: ConstraintSpec, vocab: Vocab, frame: CallFrame) -> str:
    match spec.kind:
        case "json":
            return json_grammar(json.loads(spec.source))
        case "regex":
            return regex_grammar(spec.source)
        case "choice":
            return lark_grammar("start: " + " | ".join(json.dumps(o) for o in spec.options))
        case "grammar":
            return lark_grammar(spec.source)
        case "calls":
            return lark_grammar(calls_lark(spec, frame, vocab.special_ids))

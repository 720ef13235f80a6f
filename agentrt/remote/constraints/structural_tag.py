"""Tool calls in a model's own frame as a structural tag, which vLLM and SGLang take.

https://xgrammar.mlc.ai/docs/structural_tag/structural_tag_documentation.html
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.segments import CallFrame

Json = dict[str, Any]


def calls_tag(
    spec: ConstraintSpec, frame: CallFrame, special_ids: Mapping[str, int]
) -> Json | None:
    """The format of calls, or of a final answer in place of them; None if it cannot be said.

    Arguments that are written one by one, and text beside the calls, have no words in it.

    Args:
        spec: A constraint of the kind `calls`.
        frame: Frame of the model's calls.
        special_ids: Id of each special token, by its text.
    """
    from agentrt.structured import held_tools  # native libraries come along

    if frame.argument is not None or spec.text:
        return None
    special = {text: special_ids[text] for text in frame.special if text in special_ids}
    calls = [
        [
            *_literal(frame.before + _in_json(tool.schema.name) + frame.middle, special),
            {"type": "json_schema", "json_schema": tool.schema.parameters},
            *_literal(frame.after, special),
        ]
        for tool in held_tools(spec)
    ]
    starts: list[Json] = []
    if calls:
        call = _either([_sequence(one) for one in calls])
        fewest = max(spec.min_calls, 1)
        again: Json = {
            "type": "repeat",
            "min": fewest - 1,
            "max": spec.max_calls - 1,
            "content": _sequence([*_literal(frame.between, special), call]),
        }
        first, last = _literal(frame.first, special), _literal(frame.last, special)
        more = [again] if spec.max_calls > 1 else []
        starts.append(_sequence([*first, call, *more, *last]))
    if calls and spec.min_calls == 0:
        nothing = _literal(frame.first + frame.last, special)
        starts.append(_sequence(nothing) if nothing else {"type": "const_string", "value": ""})
    if spec.source:
        starts.append({"type": "json_schema", "json_schema": json.loads(spec.source)})
    return _either(starts)


def _literal(text: str, special: dict[str, int]) -> list[Json]:
    """A text: special tokens by their ids, the rest as it is."""
    from agentrt.structured.json_schema.lark_text import pieces

    return [
        {"type": "token", "token": one}
        if isinstance(one, int)
        else {"type": "const_string", "value": one}
        for one in pieces(text, special)
    ]


def _sequence(elements: Sequence[Json]) -> Json:
    return elements[0] if len(elements) == 1 else {"type": "sequence", "elements": list(elements)}


def _either(formats: Iterable[Json]) -> Json:
    found = list(formats)
    return found[0] if len(found) == 1 else {"type": "or", "elements": found}


def _in_json(name: str) -> str:
    """A name as written inside a JSON string."""
    return json.dumps(name, ensure_ascii=False)[1:-1]

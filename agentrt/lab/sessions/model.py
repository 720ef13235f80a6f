"""Models that sessions are played on: random weights of a shape, with a window for long prompts.

Made-up words would spell a recorded text in three times its tokens, so the tokenizer of a shape is
trained on the recorded texts: prompts then have about as many tokens as they were recorded with.
The template writes the schemas of tools and their calls, as those of models for agents do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path

from agentrt import embedded
from agentrt.analysis.model_shape import ModelShape, shape_in
from agentrt.base.canonical_json import dumps
from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.lab.checkpoints.byte_tokenizer import trained_tokenizer
from agentrt.lab.checkpoints.checkpoint import CheckpointText, checkpoint
from agentrt.lab.checkpoints.shapes import shape_named
from agentrt.lab.workloads.agent_session import AgentSession, wire_tool

EMBEDDED = "embedded"
WINDOW_TOKENS = 65_536
_NAMES = ("begin", "end", "system", "user", "assistant", "tool", "call", "/call", "pad")
_SPECIAL = tuple(f"<|{name}|>" for name in _NAMES)
_TEMPLATE = (
    # Engines differ in the blanks that `tojson` writes in objects and lists.
    "{%- macro json(value) -%}"
    "{%- if value is mapping -%}"
    "{{- '{' -}}{%- for key in value -%}"
    "{{- key | tojson -}}{{- ':' -}}{{- json(value[key]) -}}"
    "{%- if not loop.last -%}{{- ',' -}}{%- endif -%}"
    "{%- endfor -%}{{- '}' -}}"
    "{%- elif value is iterable and value is not string -%}"
    "{{- '[' -}}{%- for item in value -%}{{- json(item) -}}"
    "{%- if not loop.last -%}{{- ',' -}}{%- endif -%}"
    "{%- endfor -%}{{- ']' -}}"
    "{%- else -%}{{- value | tojson -}}{%- endif -%}"
    "{%- endmacro -%}"
    "{%- set system = messages and messages[0]['role'] == 'system' -%}"
    "{{- '<|begin|>' -}}"
    "{%- if system or tools -%}"
    "{{- '<|system|>' -}}"
    "{%- if system -%}{{- messages[0]['content'] -}}{%- endif -%}"
    "{%- for tool in tools or [] -%}{{- '\n' + json(tool) -}}{%- endfor -%}"
    "{{- '<|end|>' -}}"
    "{%- endif -%}"
    "{%- for message in (messages[1:] if system else messages) -%}"
    "{{- '<|' + message['role'] + '|>' -}}"
    "{%- if message['content'] -%}{{- message['content'] -}}{%- endif -%}"
    "{%- for call in message['tool_calls'] or [] -%}"
    "{%- set made = call['function'] -%}"
    "{{- '<|call|>{\"name\":' + (made['name'] | tojson) + ',\"arguments\":' -}}"
    "{%- if made['arguments'] is string -%}{{- made['arguments'] -}}"
    "{%- else -%}{{- json(made['arguments']) -}}{%- endif -%}"
    "{{- '}<|/call|>' -}}"
    "{%- endfor -%}"
    "{{- '<|end|>' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}"
)


@record
class SessionModel:
    """A model for sessions.

    Attributes:
        path: Checkpoint directory.
        shape: Shape, with the window in which requests have to fit.
    """

    path: Path
    shape: ModelShape


def session_model(
    name: str,
    sessions: Sequence[AgentSession],
    window_tokens: int = 0,
    folder: Path | None = None,
) -> SessionModel:
    """The embedded model, or random weights of a named shape.

    Args:
        name: `embedded`, or the name of a shape.
        sessions: Recorded sessions whose texts the tokenizer is trained on; () keeps words of a few
            letters, for sessions that are drawn.
        window_tokens: Longest context; 0 takes `WINDOW_TOKENS`, or that of the embedded model.
        folder: Folder of checkpoints; None takes the cache.

    Raises:
        UsageError: There is no such shape, or the embedded model is to have another window.
    """
    if name == EMBEDDED:
        shape = shape_in(Path(embedded.path()))
        if window_tokens not in (0, shape.window_tokens):
            raise UsageError(
                f"the window of the embedded model is {shape.window_tokens} tokens",
                hint="Leave --window out, or give a --shape",
            )
        return SessionModel(Path(embedded.path()), shape)
    named = shape_named(name)
    window = window_tokens or WINDOW_TOKENS
    shape = replace(named, name=f"{named.name}-{window}", window_tokens=window)
    text = _trained_on(tuple(_texts(sessions))) if sessions else None
    return SessionModel(checkpoint(shape, folder=folder, text=text), shape)


def _trained_on(texts: Sequence[str]) -> CheckpointText:
    digest = sha256("\0".join((_TEMPLATE, *texts)).encode()).hexdigest()[:12]
    return CheckpointText(digest, partial(trained_tokenizer, _SPECIAL, texts), _TEMPLATE)


def _texts(sessions: Sequence[AgentSession]) -> Iterator[str]:
    """Each text of the prompts once, in their order."""
    seen: set[str] = set()
    for turn in (turn for session in sessions for turn in session.all_turns()):
        for message in turn.messages:
            for text in (message.text, *(call.arguments_json for call in message.calls)):
                if text not in seen:
                    seen.add(text)
                    yield text
        for tool in turn.tools:
            if (text := dumps(wire_tool(tool))) not in seen:
                seen.add(text)
                yield text

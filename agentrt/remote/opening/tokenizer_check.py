"""Check that a server has the tokenizer whose ids it is about to get. The requests are free."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from agentrt.base.engines.kind_tokens import KindTokens
from agentrt.base.errors import AgentrtError, UsageError
from agentrt.remote.http import Http

if TYPE_CHECKING:
    from agentrt.prompt import Codec

PROBE = (
    "The 1,234 foxes' dens weren't  full:\n\n\tx = [3.14159, -2]; // done!!! "
    "Naïve café, 東京 2024年 \U0001f600  HTTPServer2x end"
)
MAX_MARKERS = 32


async def compare_tokenizer(http: Http, model: str, tokens: KindTokens, codec: Codec) -> bool:
    """Whether the server has shown that it has the tokenizer of a codec; False if it shows none.

    Args:
        http: The server.
        model: Name of the model there.
        tokens: The door of its kind for token ids.
        codec: The codec.

    Raises:
        UsageError: The tokenizers differ.
    """
    if not tokens.tokenize_path:
        return False
    markers = list(codec.parts.markers.values())[:MAX_MARKERS]
    for text, wanted in (
        (PROBE, codec.text_ids(PROBE, special=False)),
        ("".join(one.text for one in markers), tuple(one.token_id for one in markers)),
    ):
        if not text:
            continue
        found = await _ids_of(http, model, tokens.tokenize_path, text)
        if found is None:
            return False
        if found != wanted:
            raise UsageError(
                f"{http.url} has another tokenizer than {codec.path}: of {text[:40]!r} it makes "
                f"{_shown(found)}, and the directory {_shown(wanted)}",
                hint="Give the directory of the model that it serves as tokenizer, or leave it out",
            )
    return True


async def _ids_of(http: Http, model: str, path: str, text: str) -> tuple[int, ...] | None:
    """The ids of a text at the server; None if it does not give them."""
    asked = {"model": model, "prompt": text, "add_special_tokens": False}
    try:
        answer: Any = json.loads(await http.look(path, asked))
    except (AgentrtError, ValueError, RecursionError):
        return None
    found = answer.get("tokens") if isinstance(answer, dict) else None
    return tuple(found) if isinstance(found, list) else None


def _shown(token_ids: tuple[int, ...]) -> str:
    more = "..." if len(token_ids) > 6 else ""
    return f"{len(token_ids)} ids ({', '.join(map(str, token_ids[:6]))}{more})"

"""Scores of a text under several configurations of the embedded engine.

The first configuration stays loaded, and each other one is loaded beside it, one after the other:
memory holds two models, and of the logits a piece of one chunk of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from agentrt.base.config import EngineConfig
from agentrt.base.engine_extra import require_packages
from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.lab.evaluation.engine_choice import EvaluationConfig
from agentrt.lab.evaluation.text_chunks import ChunkTokenizer, same_tokens
from agentrt.lab.progress import WorkPace

if TYPE_CHECKING:
    from agentrt.engine.runner.logit_divergence import ChunkScore
    from agentrt.engine.runner.text_logits import TextRunner

LEAST_CHUNKS = 2
"""Chunks from which an interval can be told: they are what chance draws."""


@record
class TextScores:
    """Scores of a text under a configuration, chunk by chunk.

    Attributes:
        config: Name of the configuration.
        chunks: Scores of each chunk, by the first configuration and by this one if it is another.
    """

    config: str
    chunks: Sequence[ChunkScore]


def score_text(
    text: Path,
    configs: Sequence[EvaluationConfig],
    chunk_tokens: int,
    *,
    limit: int = 0,
) -> list[TextScores]:
    """Score a text under each configuration.

    The second half of each chunk is scored, so that each scored token has a context.

    Args:
        text: The file, in UTF-8.
        configs: The configurations, the reference first.
        chunk_tokens: Tokens of a chunk, at least 4.
        limit: Only the first chunks; 0 is all.

    Raises:
        UsageError: A configuration is of a remote engine or cuts the text into other tokens, or the
            text is too short.
        ModelInvalid: A model cannot be loaded.
    """
    require_packages("agentrt eval --logits")
    from agentrt.engine.runner.logit_divergence import score_chunk
    from agentrt.engine.runner.text_logits import TextRunner

    engines = [_embedded(one) for one in configs]
    tokenizers = _tokenizers(configs, engines)
    count = _checked_count(text, tokenizers, configs, chunk_tokens, limit)
    vocabulary = min(one.codec.vocab.size for one in tokenizers)
    pace = WorkPace("chunks", count * max(1, len(configs) - 1))
    first = TextRunner(engines[0], chunk_tokens)

    def scores(config: EvaluationConfig, other: TextRunner | None) -> TextScores:
        found: list[ChunkScore] = []
        for ids in islice(tokenizers[0].chunks(text, chunk_tokens), count):
            begin = len(ids) // 2 + 1
            found.append(score_chunk(first, other, ids, first=begin, vocabulary=vocabulary))
            pace.done()
        return TextScores(config.name, found)

    if len(configs) == 1:
        return [scores(configs[0], None)]
    compared = [
        scores(config, TextRunner(engine, chunk_tokens))
        for config, engine in zip(configs[1:], engines[1:], strict=True)
    ]
    return [TextScores(configs[0].name, compared[0].chunks), *compared]


def _embedded(config: EvaluationConfig) -> EngineConfig:
    if not isinstance(config.settings, EngineConfig):
        raise UsageError(
            f"--logits: {config.name} is a remote engine, which gives no logits of a whole text",
            hint="name checkpoints, GGUF files, or .toml files of the embedded engine",
        )
    return config.settings


def _tokenizers(
    configs: Sequence[EvaluationConfig], engines: Sequence[EngineConfig]
) -> list[ChunkTokenizer]:
    """The tokenizer of each configuration; configurations of one model share it."""
    known: dict[Path, ChunkTokenizer] = {}
    for engine in engines:
        if engine.model_path not in known:
            known[engine.model_path] = ChunkTokenizer(engine.model_path)
    found = [known[engine.model_path] for engine in engines]
    for config, one in zip(configs, found, strict=True):
        if not same_tokens(found[0], one):
            raise _other_tokens(configs[0], config)
    return found


def _checked_count(
    text: Path,
    tokenizers: Sequence[ChunkTokenizer],
    configs: Sequence[EvaluationConfig],
    chunk_tokens: int,
    limit: int,
) -> int:
    """Chunks of a text that is long enough and cut into equal tokens; no model is loaded yet."""
    first, most = tokenizers[0], limit or None
    count = sum(1 for _ in islice(first.chunks(text, chunk_tokens), most))
    for config, one in zip(configs, tokenizers, strict=True):
        if one is first:
            continue
        both = zip_longest(first.chunks(text, chunk_tokens), one.chunks(text, chunk_tokens))
        if any(known != found for known, found in islice(both, most)):
            raise _other_tokens(configs[0], config)
    if count < LEAST_CHUNKS:
        raise UsageError(
            f"{text} has {count} chunks of {chunk_tokens} tokens; an interval needs {LEAST_CHUNKS}",
            hint="name a longer text, or give a smaller --chunk-tokens, or leave --limit",
        )
    return count


def _other_tokens(first: EvaluationConfig, config: EvaluationConfig) -> UsageError:
    return UsageError(
        f"{config.name} has another tokenizer than {first.name}: their logits are of other tokens",
        hint="compare configurations of one model, such as its quantised files",
    )

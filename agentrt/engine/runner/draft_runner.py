"""The runner of a draft model beside that of its target: KV pages and block tables of their own.

Both have as many pages and slots, and the same numbers in their block tables. The engine allocates
pages once, and their KV takes its memory together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agentrt.base.config import EngineConfig
from agentrt.base.eagle3 import is_eagle3
from agentrt.base.engine_selection import check_draft_model
from agentrt.base.errors import ModelInvalid
from agentrt.base.ids import PageId
from agentrt.base.vocabulary import Vocab
from agentrt.engine.kv.block_tables import BlockTables
from agentrt.engine.models.eagle3.head_loader import load_head
from agentrt.engine.models.eagle3.head_network import HeadNetwork
from agentrt.engine.models.loader import LoadedModel, load_model
from agentrt.engine.models.native.stream_capture import StreamCapture
from agentrt.engine.runner.layer_states import LayerStates
from agentrt.engine.runner.model_runner import ModelRunner
from agentrt.prompt import Codec


class PairedTables:
    """Block tables of target and draft model, written together.

    Args:
        target: Tables of the target.
        draft: Tables of the draft model, as large.
    """

    def __init__(self, target: BlockTables, draft: BlockTables) -> None:
        self._both = (target, draft)

    def write(self, slot: int, first_page: int, pages: Sequence[PageId]) -> None:
        """Set the pages of `slot` from index `first_page` on."""
        for tables in self._both:
            tables.write(slot, first_page, pages)


@dataclass(frozen=True, slots=True)
class HeadRunner:
    """The runner of an EAGLE-3 head.

    Attributes:
        runner: Computes the head.
        network: Network of the head.
        states: States of the target that it takes.
    """

    runner: ModelRunner
    network: HeadNetwork
    states: LayerStates


def open_runners(
    config: EngineConfig, vocab: Vocab, tile_tokens: int
) -> tuple[ModelRunner, ModelRunner | HeadRunner | None]:
    """Load the model, and the draft model or the head if there is one.

    Args:
        config: Config of the engine.
        vocab: Vocabulary of the model.
        tile_tokens: Most tokens of KV that attention reads at once.

    Raises:
        ModelInvalid: A model cannot be loaded, or the draft model has another vocabulary.
        UsageError: Drafts are off.
    """
    if config.draft_model is None:
        return ModelRunner(config, tile_tokens), None
    check_draft_model(config)
    if is_eagle3(config.draft_model):
        return _open_head(config, config.draft_model, tile_tokens)
    check_same_vocabulary(vocab, Codec.load(config.draft_model).vocab, config)
    draft_config = replace(
        config,
        model_path=config.draft_model,
        draft_model=None,
        adapters=(),
        expert_routing="trained",
        expert_load=False,
        expert_memory="",
    )
    draft = load_model(draft_config)
    if draft.logits_size < vocab.size:
        raise ModelInvalid(
            f"{config.draft_model} computes {draft.logits_size} logits, its vocabulary has "
            f"{vocab.size} tokens",
            hint="Give --draft-model a checkpoint whose config fits its tokenizer",
        )
    target = ModelRunner(config, tile_tokens, draft=draft)
    return target, _runner_beside(target, draft_config, draft, tile_tokens)


def check_same_vocabulary(target: Vocab, draft: Vocab, config: EngineConfig) -> None:
    """Check that each token means the same to both models.

    Raises:
        ModelInvalid: One does not.
    """
    wrong = [
        at
        for at in range(max(target.size, draft.size))
        if target.token_bytes[at : at + 1] != draft.token_bytes[at : at + 1]
    ]
    if not wrong and target.special_ids == draft.special_ids:
        return
    where = f"token {wrong[0]} differs" if wrong else "special tokens differ"
    raise ModelInvalid(
        f"the draft model {config.draft_model} has another vocabulary than {config.model_path}: "
        f"{where}",
        hint="Give --draft-model a smaller model of the same family",
    )


def window_of(draft: LoadedModel) -> int:
    """Longest text that a draft model can continue with the angles that it begins with; 0 if any.

    Its KV is computed once: past a threshold of angles it would be another model.
    """
    limits = [tokens for tokens in (draft.window_tokens, draft.rope_threshold) if tokens]
    return min(limits, default=0)


def _open_head(
    config: EngineConfig, path: Path, tile_tokens: int
) -> tuple[ModelRunner, HeadRunner]:
    """Load the model, and the head that takes its states."""
    model = load_model(config)
    head = load_head(config, path, model)
    target = ModelRunner(config, tile_tokens, model=model, draft=head.model)
    hidden = head.target.layer_sizes[1]
    capture = StreamCapture(head.capture_layers, config.step_tokens, hidden)
    target.layer_states = states = LayerStates(
        capture,
        head.fuse,
        pages=target.kv.pages,
        page_tokens=config.page_tokens,
        width=head.hidden,
        dtype=model.layout.dtype,
    )
    head.target.capture = capture
    own = replace(config, model_path=path, draft_model=None, adapters=())
    runner = _runner_beside(target, own, head.model, tile_tokens)
    return target, HeadRunner(runner, head.network, states)


def _runner_beside(
    target: ModelRunner, config: EngineConfig, draft: LoadedModel, tile_tokens: int
) -> ModelRunner:
    threads = target.threads.threads
    config = replace(config, kv_pages=target.kv.pages, threads=threads, expert_load=False)
    pages = target.tables.host_table.shape[1]
    return ModelRunner(config, tile_tokens, model=draft, table_pages=pages)

"""The model runner: model, KV cache and attention; a packed batch in, logits out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from agentrt.base.config import EngineConfig
from agentrt.base.errors import ModelInvalid
from agentrt.engine.batch.batch import BatchPacker, ForwardBatch, KvArrival
from agentrt.engine.batch.input_packing import SequenceSlice, logit_rows
from agentrt.engine.batch.shared_prefix import SharedPrefixes, split_rows
from agentrt.engine.kv.block_tables import BlockTables
from agentrt.engine.kv.cache import KvCache, pages_for
from agentrt.engine.kv.transfer import to_device
from agentrt.engine.models.loader import LoadedModel, load_model
from agentrt.engine.models.native.expert_load import ExpertLoad
from agentrt.engine.models.native.torch_network import TorchNetwork
from agentrt.engine.ops.attention import PagedAttention, attending_with
from agentrt.engine.ops.cpu_threads import ThreadChoice, Wait, choose_threads, measured_with
from agentrt.engine.ops.kernel_set import use_threads, wait_policies
from agentrt.engine.runner.cuda_graphs import CudaGraphRecorder, CudaGraphs, GraphRecorder
from agentrt.engine.runner.layer_states import LayerStates
from agentrt.engine.runner.scoring import MAX_LOGITS

_SEQUENCES_PER_SLOT = 2
"""Sequences of a batch per running sequence; split rows count as sequences."""


def _step_bytes(model: LoadedModel, config: EngineConfig) -> int:
    """Memory of the largest step beside the KV cache, estimated: activations, and logits twice."""
    logits = max(config.max_running, MAX_LOGITS) * model.logits_size
    activations = config.step_tokens * model.activation_values * model.layout.dtype.itemsize
    return activations + 2 * logits * torch.float32.itemsize


class ModelRunner:
    """Runs forwards on the device.

    Args:
        config: Config of the engine.
        tile_tokens: Most tokens of KV that attention reads at once.
        model: The model; None loads the one that `config` names.
        draft: Draft model beside it, with KV pages and steps of its own, or None.
        table_pages: Pages of a block table; 0 takes those of the model's window.

    Attributes:
        model: The loaded model.
        kv: KV cache of the model.
        tables: Block tables of the running sequences.
        threads: Number of compute threads, and why.
        kv_arrival: KV being copied from the offload tier, or None.
        graphs: Captured decode steps, or None.
        attention: Attention over the pages.
        shared_prefixes: Finds the prefix that the sequences of a batch share.
        expert_load: Counts the tokens that experts take, or None.
        expert_offload: Bounded memory for experts, or None.
        layer_states: Keeps the states that a head takes, or None.
    """

    def __init__(
        self,
        config: EngineConfig,
        tile_tokens: int,
        *,
        model: LoadedModel | None = None,
        draft: LoadedModel | None = None,
        table_pages: int = 0,
    ) -> None:
        self.model: LoadedModel = model or load_model(config)
        use_threads(self.model.kernels, config.threads or 1)
        layout = self.model.layout
        window = self.model.window_tokens or 1 << 20
        pages = pages_for(
            layout,
            kv_pages=config.kv_pages,
            kv_bytes=config.kv_bytes,
            max_tokens=window * config.max_running,
            step_bytes=sum(_step_bytes(one, config) for one in (self.model, draft) if one),
            draft_page_bytes=draft.page_bytes if draft else 0,
        )
        self.kv = KvCache(layout, pages)
        self.model.network.bind(self.kv, config.step_tokens)
        longest = table_pages or min(pages, -(-window // config.page_tokens) + 1)
        self.tables = BlockTables(config.max_running, longest, self.kv)
        self._last_tokens = torch.zeros(
            config.max_running, dtype=torch.int64, device=self.model.layout.device
        )
        self._packer = BatchPacker(
            self.kv,
            self.tables,
            self._last_tokens,
            max_tokens=config.step_tokens,
            max_sequences=_SEQUENCES_PER_SLOT * config.max_running,
        )
        self.shared_prefixes = SharedPrefixes(self.tables, config.page_tokens)
        self.attention = PagedAttention(
            self.kv,
            self.tables,
            heads=self.model.heads,
            tile_tokens=tile_tokens,
            kernels=None if self.model.kernels.name == "torch" else self.model.kernels,
        )
        network = self.model.network
        self.expert_offload = network.expert_offload if isinstance(network, TorchNetwork) else None
        self.expert_load = self._count_experts(config) if config.expert_load else None
        self.kv_arrival: KvArrival | None = None
        self.layer_states: LayerStates | None = None
        self.graphs: CudaGraphs | None = None
        self._check_forward(config)
        self.threads = self._choose_threads(config)
        captures = self.model.report.path == "fast" and self.model.kernels.name == "triton"
        counts = self.expert_load is not None  # by groups of rows that no graph knows
        moves = self.expert_offload is not None  # experts, after a look at those needed
        eager = counts or moves
        if config.device == "cuda" and config.graphs == "auto" and captures and not eager:
            self.capture_graphs(CudaGraphRecorder(), config.max_running)

    def forward(self, slices: Sequence[SequenceSlice]) -> Tensor:
        """Logits `[logits, vocabulary]` fp32 of the slices that need them, and of draft tokens."""
        most = self._packer.max_sequences
        rows = split_rows(slices, most)
        if self.graphs is not None and self.graphs.find_tier(rows) is None:
            if self.graphs.find_tier(slices):
                rows = slices
            elif any(part.draft_tokens for part in slices):  # a graph has a row of logits a slice
                rows = split_rows(slices, most, 0)
        return self._forward(rows)

    def _forward(self, slices: Sequence[SequenceSlice]) -> Tensor:
        prefix = self.shared_prefixes.find(slices)
        use_graph = self.graphs is not None and self.graphs.find_tier(slices) is not None
        if self.kv_arrival is not None and (use_graph or self.model.report.path == "slow"):
            self.kv_arrival.wait_layer(self.model.layout.layers - 1)  # they do not wait one by one
        if self.graphs is not None and use_graph:
            return self.graphs.forward(slices, prefix)
        batch = self._packer.pack(slices, prefix)
        if any(part.draft_tokens for part in slices):
            batch.logit_rows = to_device(logit_rows(slices), torch.int64, self._last_tokens.device)
        batch.kv_arrival = self.kv_arrival
        batch.load_groups = self._load_groups(slices)
        return self._logits(batch)

    def _load_groups(self, slices: Sequence[SequenceSlice]) -> Tensor | None:
        if self.expert_load is None:
            return None
        groups = [part.load_group for part in slices for _ in part.token_ids]
        return to_device(groups, torch.int64, self._last_tokens.device)

    def logits_at(self, slices: Sequence[SequenceSlice], rows: Sequence[int]) -> Tensor:
        """Logits `[rows, vocabulary]` fp32 behind these rows of the packed `slices`."""
        if self.kv_arrival is not None:
            self.kv_arrival.wait_layer(self.model.layout.layers - 1)
        slices = split_rows(slices, self._packer.max_sequences)
        batch = self._packer.pack(slices, self.shared_prefixes.find(slices))
        batch.logit_rows = to_device(rows, torch.int64, self._last_tokens.device)
        return self._logits(batch)

    def _logits(self, batch: ForwardBatch) -> Tensor:
        """Logits in fp32. A single native call needs none of the set-up around a torch network."""
        if self.model.network.is_single_call:
            logits = self.model.network(batch)
        else:
            logits = self._computed(batch).float()
        if self.layer_states is not None:
            self.layer_states.keep(batch.fields.slot_mapping)
        return logits

    def _computed(self, batch: ForwardBatch) -> Tensor:
        """Output of a network that attends through `PagedAttention`."""
        self.attention.begin_batch(batch)
        with torch.inference_mode(), attending_with(self.attention):
            return self.model.network(batch)

    def capture_graphs(self, recorder: GraphRecorder, max_sequences: int) -> None:
        """Capture decode steps as CUDA graphs; from now on they are replayed."""
        self.graphs = CudaGraphs(
            self._computed, self.kv, self.tables, self._packer, recorder, max_sequences
        )

    def remember_tokens(self, slots: Sequence[int], token_ids: Tensor) -> None:
        """Store the tokens `[slots]` int64 sampled in these slots; a later batch refers to them."""
        where = to_device(slots, torch.int64, self._last_tokens.device)
        self._last_tokens.index_copy_(0, where, token_ids)

    def _count_experts(self, config: EngineConfig) -> ExpertLoad:
        network, shape = self.model.network, self.model.shape
        assert isinstance(network, TorchNetwork), "the plan refuses other networks"
        assert shape is not None
        # The first group is that of rows which nobody asked for.
        load = ExpertLoad(shape, 1 + config.max_running, self.model.layout.device)
        network.expert_load = load
        return load

    def _choose_threads(self, config: EngineConfig) -> ThreadChoice:
        """By steps of the model itself, where nothing is known yet.

        A token, and a page of a prompt: where weights are read as fast as memory allows a second
        thread gains nothing in the one and much in the other.
        """
        model, kernels, compiled = self.model, self.model.kernels, self.model.compiled
        computed_by, known = model.report.computed_by, None
        if compiled is not None and compiled.threads_of == measured_with(computed_by):
            known = compiled.threads
        token = SequenceSlice(slot=0, token_ids=[0], first_position=0, wants_logits=True)
        page = replace(token, token_ids=[0] * config.page_tokens)

        def use(threads: int, wait: Wait) -> None:
            use_threads(kernels, threads, wait)

        return choose_threads(
            config,
            computed_by,
            model.parameters,
            wait_policies(kernels),
            use,
            lambda: (self.forward([token]), self.forward([page])),
            known=known,
        )

    def _check_forward(self, config: EngineConfig) -> None:
        """Run one forward, to reject an architecture that does not attend through the engine."""
        part = SequenceSlice(slot=0, token_ids=[0], first_position=0, wants_logits=True)
        try:
            logits = self.forward([part])
        except Exception as error:
            raise ModelInvalid(
                f"{config.model_path} cannot run here: {type(error).__name__}: {error}",
                hint="Serve this model elsewhere and pass --engine URL",
            ) from error
        slow = self.model.report.path == "slow"
        if slow and self.attention.attended_layers != self.model.layout.layers:
            raise ModelInvalid(
                f"{config.model_path} attends in {self.attention.attended_layers} of "
                f"{self.model.layout.layers} layers through the engine",
                hint="Serve this model elsewhere and pass --engine URL",
            )
        if not bool(torch.isfinite(logits).all()):
            raise ModelInvalid(
                f"{config.model_path} computes logits that are not finite in "
                f"{self.model.layout.dtype}",
                hint="Set dtype to float32, or check the weights",
            )

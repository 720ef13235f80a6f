"""Dense decoders on a CPU with a compiler: all layers in one native call.

In models of few parameters the calls between Python and torch cost more than the products; here one
call computes a whole forward. It also releases the interpreter lock while it computes.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from agentrt.engine.batch.batch import ForwardBatch
from agentrt.engine.kv.cache import KvCache
from agentrt.engine.models.native.layer import embedding_scale
from agentrt.engine.models.native.rope import angle_tables
from agentrt.engine.models.native.shape import DecoderShape
from agentrt.engine.models.native.stack_weights import StackWeights
from agentrt.engine.models.native.stream_capture import StreamCapture
from agentrt.engine.models.packed_embedding import PackedEmbedding
from agentrt_kernels.cpu.kernel_set import CpuKernels
from agentrt_kernels.cpu.stack import StackShape
from agentrt_kernels.lora import LayerLowRank


class StackNetwork:
    """A dense decoder in native code.

    Args:
        shape: Shape of the decoder; `fits_stack` holds for it.
        weights: Weights of the decoder; the layers are drawn one after the other.
        kernels: The native kernel set.

    Attributes:
        parameters: Number of parameters.
        quantised_bytes: Bytes of the matrices that stay quantised.
        layer_sizes: Layers, and the width of their outputs.
        layer_outputs: See `Network`.
        embedding: `[vocabulary, hidden]`, plain or packed.
    """

    is_single_call = True

    def __init__(self, shape: DecoderShape, weights: StackWeights, kernels: CpuKernels) -> None:
        self._shape = shape
        self.layer_sizes = (shape.layers, shape.hidden)
        self.layer_outputs: Tensor | None = None
        self._capture: StreamCapture | None = None
        self.parameters = weights.parameters
        self.embedding = embedding = weights.embedding
        self._stack = kernels.stack(
            StackShape(
                layers=shape.layers,
                hidden=shape.hidden,
                heads=shape.heads,
                inner=shape.inner,
                epsilon=shape.epsilon,
                embedding_scale=embedding_scale(shape, embedding.dtype),
                residual_scale=shape.residual_scale,
                logits_scale=shape.logits_scale,
                logits_softcap=shape.logits_softcap,
                activation=shape.activation,
                centered=shape.centered,
                parallel=shape.parallel,
            ),
            embedding,
            weights.layers,
            weights.norm,
            weights.head,
        )
        self.quantised_bytes = self._stack.quantised_bytes
        if isinstance(embedding, PackedEmbedding):
            self.quantised_bytes += embedding.resident_bytes

    def attach(self, adapters: Sequence[Sequence[LayerLowRank]]) -> None:
        """Add adapters, each by layer; rows name them by numbers from 1 on."""
        self._stack.attach(adapters)

    def bind(self, kv: KvCache, max_rows: int) -> None:
        """Prepare for this KV cache; the workspace grows with the forwards."""
        shape = self._shape
        positions = min(shape.positions, kv.pages * kv.layout.page_tokens)
        tables = angle_tables(shape.ropes, shape.head_dim, positions, kv.memory.device)
        self._stack.bind(kv.memory, tables, kv.scales)

    @property
    def capture(self) -> StreamCapture | None:
        """Where the stream before some layers is kept in each forward, or None."""
        return self._capture

    @capture.setter
    def capture(self, capture: StreamCapture | None) -> None:
        self._capture = capture
        self._stack.capture(() if capture is None else capture.layers)

    def __call__(self, batch: ForwardBatch) -> Tensor:
        """Logits `[rows, vocabulary]` of the batch's `logit_rows`."""
        batch.wait_layer(self._shape.layers - 1)  # its layers do not wait one by one
        rows = batch.fields
        return self._stack(
            rows.token_ids,
            rows.positions,
            rows.slot_mapping,
            batch.paged,
            batch.logit_rows,
            batch.adapters,
            self.layer_outputs,
            None if self._capture is None else self._capture.rows,
        )

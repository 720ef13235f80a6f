"""Operations of a set of kernels, and the layout of their operands in memory.

Three sets keep this contract: `reference` (plain torch, written to be read), `triton` (for CUDA
and, in tests, under the interpreter) and `cpu` (C++, compiled on the machine that runs it). An
engine chooses one at load and calls nothing else.

Letters of the shapes: T rows of a packed batch, B sequences in it, W hidden width, H query heads,
K heads of keys and values, G = H / K, D head width, P tokens of a page, I inner width of a gated
layer, V vocabulary, E experts. Floating tensors share one dtype (fp32, fp16 or bf16) unless a line
says otherwise; sums are taken in fp32. The last dimension of every operand has stride 1. No
operation allocates in proportion to a history (the reference does, for it is written to be read).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor

from agentrt_kernels.quantised_weight import QuantisedWeight
from agentrt_kernels.routes import ExpertOrder, RouteRule, TrainedRoutes


class KernelsUnavailable(RuntimeError):
    """This machine cannot run a set; the message says why."""


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """Pages that several sequences of a batch begin with, each a sequence with one row.

    Attributes:
        member_start: `[groups + 1]` int32; group `g` has
            `members[member_start[g]:member_start[g + 1]]`.
        members: `[members]` int32, indices of sequences; a sequence is in one group at most.
        tokens: `[groups]` int32, tokens that all members share, a multiple of P.
        block_table: `[groups, pages]` int32, page numbers of those tokens.
        most_members: Bound of the members of one group, for the grid.
    """

    member_start: Tensor
    members: Tensor
    tokens: Tensor
    block_table: Tensor
    most_members: int


@dataclass(frozen=True, slots=True)
class PagedRows:
    """A packed batch as attention sees it.

    Tensors are read on the device; a captured graph may refill them, so that nothing that varies
    between two replays is a host number here.

    Attributes:
        query_start: `[B + 1]` int32, sequence `b` has rows `query_start[b]:query_start[b + 1]`,
            maybe none.
        kv_tokens: `[B]` int32, context of each after this forward; its last row stands at
            `kv_tokens - 1`.
        block_table: `[B, pages]` int32, page numbers; past `kv_tokens` any valid page.
        most_query_tokens: Bound of the rows of one sequence.
        most_kv_tokens: Bound of `kv_tokens`.
        prefix: Pages that sequences share, or None; the own pages hold the shared ones too.
    """

    query_start: Tensor
    kv_tokens: Tensor
    block_table: Tensor
    most_query_tokens: int
    most_kv_tokens: int
    prefix: SharedPrefix | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """How one layer scores.

    Attributes:
        scaling: Factor of query times key.
        softcap: Bound of a score, by `softcap * tanh(score / softcap)`, or None.
        window: A row sees this many tokens, itself among them; None sees all.
        sinks: `[H]` logits of a place that holds nothing, or None.
        unseen: First tokens of each context that no row sees, but each of them itself.
    """

    scaling: float
    softcap: float | None = None
    window: int | None = None
    sinks: Tensor | None = None
    unseen: int = 0


@dataclass(frozen=True, slots=True)
class HeadNorms:
    """RMS norms of each head's query and key.

    Attributes:
        query: `[D]` for all heads, or `[H, D]`; of the dtype of the heads or fp32.
        key: `[D]`, or `[K, D]` if `query` has two dimensions; likewise.
        epsilon: Added to the mean square.
        centered: Whether the mean of a head is subtracted first, as in a layer norm.
    """

    query: Tensor
    key: Tensor
    epsilon: float
    centered: bool = False


@dataclass(frozen=True, slots=True)
class Activation:
    """How a gate opens: `gate * sigmoid(slope * gate + cubic * gate^3) * (up + shift)`.

    Attributes:
        slope: Factor of the gate inside the sigmoid.
        cubic: Factor of its third power there.
        shift: Added to what the gate opens for.
        limit: Largest gate, and largest size of what it opens for; infinite for none.
    """

    slope: float = 1.0
    cubic: float = 0.0
    shift: float = 0.0
    limit: float = math.inf


SILU = Activation()
_GELU_SLOPE = 2 * math.sqrt(2 / math.pi)
GELU_TANH = Activation(_GELU_SLOPE, _GELU_SLOPE * 0.044715)
"""GELU by its tanh approximation: `(1 + tanh(x)) / 2` is `sigmoid(2 * x)`."""


class CodeLinear(Protocol):
    """A quantised matrix, laid out as a set reads it."""

    @property
    def resident_bytes(self) -> int:
        """Bytes of the weight as it is kept."""
        ...

    def apply(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """`x @ weight.T + bias` for `x` `[T, W]`: `[T, N]`, which may be written to `out`."""
        ...


class CodeExperts(Protocol):
    """A quantised matrix of each expert, laid out as a set reads them."""

    @property
    def resident_bytes(self) -> int:
        """Bytes of the weights as they are kept."""
        ...

    def apply(self, x: Tensor, expert_start: Tensor, out: Tensor) -> Tensor:
        """`x` `[T, W]`, sorted by expert, to `out` `[T, N]`; see `Kernels.grouped_linear`.

        Rows past the last of `expert_start` are left alone.
        """
        ...


@runtime_checkable
class MovableLinear(Protocol):
    """A matrix of each expert, in tensors that may be copied elsewhere one expert at a time."""

    @property
    def parts(self) -> Sequence[Tensor]:
        """All that differs between experts, `[E, ...]` each."""
        ...

    def over(self, parts: Sequence[Tensor]) -> MovableLinear:
        """The same kind of matrices in other tensors: on any device, of any number of experts.

        Args:
            parts: As many as of this one, of their dtypes and, behind E, of their shapes.
        """
        ...

    def apply(self, x: Tensor, expert_start: Tensor, out: Tensor) -> Tensor:
        """See `CodeExperts.apply`."""
        ...


class Kernels(Protocol):
    """One set. Operations fill what they are given (`out`, pages); a linear of codes is made."""

    name: str

    def rms_norm(
        self,
        x: Tensor,
        weight: Tensor,
        epsilon: float,
        out: Tensor,
        *,
        centered: bool = False,
    ) -> None:
        """`out = x / rms(x) * weight`, for `x` and `out` `[T, W]`; `out` may be `x`.

        Args:
            x: `[T, W]`.
            weight: `[W]`, of the dtype of `x` or fp32.
            epsilon: Added to the mean square.
            out: `[T, W]`.
            centered: Whether the mean of a row is subtracted first, as in a layer norm.
        """

    def add_rms_norm(
        self,
        delta: Tensor,
        residual: Tensor,
        weight: Tensor,
        epsilon: float,
        out: Tensor,
        *,
        centered: bool = False,
    ) -> None:
        """`residual += delta`, then `out` is its norm; all `[T, W]`; `out` may be `delta`."""

    def gate_mul(self, gate_up: Tensor, out: Tensor, activation: Activation = SILU) -> None:
        """Open gates, for `gate_up` `[T, 2 * I]`, gate first, and `out` `[T, I]`."""

    def rope_store(
        self,
        qkv: Tensor,
        positions: Tensor,
        angles: Tensor,
        rows: Tensor,
        norms: HeadNorms | None,
        layer_pages: Tensor,
        query: Tensor,
        scales: Tensor | None = None,
    ) -> None:
        """Norm heads, rotate queries and keys, store keys and values.

        Args:
            qkv: `[T, H + 2 * K, D]`, queries, keys, values; read only.
            positions: `[T]` int64.
            angles: `[positions, D]` fp32, cosines of a position in its first half, sines in its
                second.
            rows: `[T]` int64 token slots, `page * P + offset`; a negative slot stores nothing.
            norms: Norms of the heads, before the rotation; None leaves the heads as they are.
            layer_pages: `[pages, 2, P, K, D]`, keys then values of one layer, any page stride;
                codes, int8 or float8_e4m3fn, if there are scales, see `kv_codes`.
            query: `[T, H, D]`, filled with the rotated queries.
            scales: `[pages, 2, K, P]` bf16 of the codes, any strides but the last; None stores the
                values themselves.
        """

    def attend(
        self,
        query: Tensor,
        layer_pages: Tensor,
        rows: PagedRows,
        score: Score,
        out: Tensor,
        scales: Tensor | None = None,
    ) -> None:
        """Causal attention of each row over the pages of its sequence.

        Args:
            query: `[T, H, D]`.
            layer_pages: `[pages, 2, P, K, D]`; the batch's own keys and values are stored already.
            rows: Which row sees which pages.
            score: Scaling, bound, window and sinks.
            out: `[T, H, D]`, filled.
            scales: As in `rope_store`. Codes are never unpacked but in the operation: a key's scale
                multiplies its score, a value's its weight.
        """

    def sample(
        self,
        logits: Tensor,
        mask: Tensor | None,
        temperature: Tensor,
        top_k: Tensor,
        top_p: Tensor,
        min_p: Tensor,
        uniform: Tensor,
        out: Tensor,
    ) -> None:
        """A token for each row: mask, temperature, top-k, top-p, min-p, then a draw.

        Args:
            logits: `[B, V]` fp32; may be overwritten.
            mask: `[B, ceil(V / 32)]` int32 bits of the tokens that may come, or None.
            temperature: `[B]` fp32; 0 takes the largest, the first of equals.
            top_k: `[B]` int32; 0 keeps all.
            top_p: `[B]` fp32; 1 keeps all; at least one token is kept.
            min_p: `[B]` fp32, share of the largest probability below which a token is dropped.
            uniform: `[B]` fp64 in [0, 1), the point at which the distribution function is inverted.
            out: `[B]` int64, filled with token ids. Equal logits keep the order of their ids. A row
                in which something that may come is no number gives -1.
        """

    def copy_pages(self, source: Tensor, target: Tensor, pairs: Tensor) -> None:
        """Copy whole pages: `target[pairs[i, 1]] = source[pairs[i, 0]]`.

        Args:
            source: `[pages, page_values]`, on this device or in pinned memory.
            target: The same width and dtype.
            pairs: `[n, 2]` int64, on the device that copies.
        """

    def grouped_linear(self, x: Tensor, weight: Tensor, expert_start: Tensor, out: Tensor) -> None:
        """Rows sorted by expert times that expert's matrix.

        Args:
            x: `[T, W]`.
            weight: `[E, N, W]`.
            expert_start: `[E + 1]` int32; rows `expert_start[e]:expert_start[e + 1]` belong to `e`.
            out: `[T, N]`, filled.
        """

    def pack_codes(self, weight: QuantisedWeight, bias: Tensor | None = None) -> CodeLinear:
        """Lay out a quantised matrix on its device; it stays in codes.

        The reference of its product is `quantised_weight.quantised_linear`.

        Args:
            weight: `[N, W]`, rows are outputs.
            bias: `[N]`, or None.

        Raises:
            ValueError: The set does not take this form.
        """
        ...

    def pack_expert_codes(
        self, weights: Sequence[QuantisedWeight], biases: Tensor | None = None
    ) -> CodeExperts:
        """Lay out one quantised matrix of each expert on their device; they stay in codes.

        Args:
            weights: `[N, W]` each, rows are outputs.
            biases: `[E, N]`, or None.

        Raises:
            ValueError: The set does not take this form, or not several of them together.
        """
        ...

    def route(self, scores: Tensor, rule: RouteRule) -> TrainedRoutes:
        """The experts with the largest scores, their weights, and the order of the choices.

        Args:
            scores: `[T, E]`, logits of the router. Experts of equal scores come in any order.
            rule: How many a token takes, and what their weights are.
        """
        ...

    def sort_choices(self, chosen: Tensor, experts: int) -> ExpertOrder:
        """The order of choices by expert.

        Args:
            chosen: `[T, A]` int64, dense; `experts` stands for none.
            experts: E.
        """
        ...

    def sum_choices(self, made: Tensor, order: ExpertOrder, shares: Tensor, out: Tensor) -> None:
        """Weighted sum of the results of each token's experts.

        Args:
            made: Results `[T * A, W]`, in the order of the experts.
            order: Order of the choices.
            shares: `[T, A]` floating, dense.
            out: `[T, W]`, filled.
        """

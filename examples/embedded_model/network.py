"""The network, as small as training needs it: a Llama decoder with the parameter names of `LlamaForCausalLM`.

It differs from the library's in one thing: a prompt prefix that all sequences of a batch share is computed once.
Legend: P prefix tokens, B sequences, L their tokens, N = P + B*L, D hidden size, H heads, K key/value heads, C head size.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a model."""

    vocabulary: int = 1536
    hidden: int = 128
    layers: int = 6
    heads: int = 4
    kv_heads: int = 2
    head: int = 32
    inner: int = 384
    rope_theta: float = 10000.0
    epsilon: float = 1e-5


MAIN = Shape()
DRAFT = Shape(hidden=96, layers=3, heads=3, kv_heads=1, inner=256)


@dataclass(frozen=True, slots=True)
class Layout:
    """How the N tokens of a batch are laid out, and what may see what."""

    prefix: int
    rows: int
    length: int
    cos: Tensor  # [N, C]
    sin: Tensor  # [N, C]
    hidden: Tensor  # [L, P + L], very negative where a token may not look


def layout(shape: Shape, prefix: int, rows: int, length: int, device: torch.device) -> Layout:
    """Positions and mask: every row continues the prefix."""
    places = torch.cat([torch.arange(prefix), torch.arange(prefix, prefix + length).repeat(rows)])
    rates = shape.rope_theta ** (-torch.arange(0, shape.head, 2) / shape.head)
    angles = (places[:, None] * rates).repeat(1, 2)  # [N, C]
    hidden = torch.full((length, prefix + length), -1e4).triu(prefix + 1)
    return Layout(
        prefix, rows, length, angles.cos().to(device), angles.sin().to(device), hidden.to(device)
    )


class Norm(nn.Module):
    """Root mean square norm."""

    def __init__(self, size: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, D]."""
        return F.rms_norm(x, (x.shape[-1],), self.weight, self.epsilon)


class Attention(nn.Module):
    """Causal attention of each row over the prefix and itself."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.q_proj = nn.Linear(shape.hidden, shape.heads * shape.head, bias=False)
        self.k_proj = nn.Linear(shape.hidden, shape.kv_heads * shape.head, bias=False)
        self.v_proj = nn.Linear(shape.hidden, shape.kv_heads * shape.head, bias=False)
        self.o_proj = nn.Linear(shape.heads * shape.head, shape.hidden, bias=False)

    def forward(self, x: Tensor, at: Layout) -> Tensor:
        """x: [N, D]."""
        s, p = self.shape, at.prefix
        weight = torch.cat([self.q_proj.weight, self.k_proj.weight, self.v_proj.weight])
        widths = [s.heads * s.head, s.kv_heads * s.head, s.kv_heads * s.head]
        query, key, value = torch.split(F.linear(x, weight), widths, -1)
        query = rotate(query.view(-1, s.heads, s.head), at)  # [N, H, C]
        key = rotate(key.view(-1, s.kv_heads, s.head), at).repeat_interleave(
            s.heads // s.kv_heads, 1
        )
        value = value.view(-1, s.kv_heads, s.head).repeat_interleave(s.heads // s.kv_heads, 1)
        rows = [
            t[p:].view(at.rows, at.length, s.heads, s.head).transpose(1, 2)
            for t in (query, key, value)
        ]
        first = [t[:p].transpose(0, 1)[None] for t in (query, key, value)]  # [1, H, P, C]
        keys = torch.cat([first[1].expand(at.rows, -1, -1, -1), rows[1]], 2)
        values = torch.cat([first[2].expand(at.rows, -1, -1, -1), rows[2]], 2)
        out = (
            attend(rows[0], keys, values, at.hidden)
            .transpose(1, 2)
            .reshape(at.rows * at.length, -1)
        )
        if p:
            head = F.scaled_dot_product_attention(first[0], first[1], first[2], is_causal=True)
            out = torch.cat([head[0].transpose(0, 1).reshape(p, -1), out])
        return F.linear(out, self.o_proj.weight)


def attend(query: Tensor, key: Tensor, value: Tensor, hidden: Tensor) -> Tensor:
    """Attention by plain matrix products: on a CPU in bf16 this beats the library's fused kernel at these sizes."""
    rows, heads, length, size = query.shape
    flat = [t.reshape(rows * heads, -1, size) for t in (query, key, value)]
    bias = hidden.to(flat[0].dtype).expand(rows * heads, -1, -1)
    scores = torch.baddbmm(
        bias, flat[0], flat[1].transpose(1, 2), alpha=size**-0.5
    )  # [B*H, L, P + L]
    return torch.bmm(scores.softmax(-1).to(flat[2].dtype), flat[2]).view(rows, heads, length, size)


def rotate(x: Tensor, at: Layout) -> Tensor:
    """Rotary positions. x: [N, heads, C]."""
    left, right = x.chunk(2, -1)
    cos, sin = at.cos[:, None].to(x.dtype), at.sin[:, None].to(x.dtype)
    return x * cos + torch.cat([-right, left], -1) * sin


class Mlp(nn.Module):
    """Gated feed-forward layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.inner, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.inner, bias=False)
        self.down_proj = nn.Linear(shape.inner, shape.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, D]."""
        inner = F.silu(self.gate_proj(x)) * self.up_proj(x)
        return F.linear(inner, self.down_proj.weight)


class Layer(nn.Module):
    """Attention and feed-forward, each on the normed residual stream."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = Norm(shape.hidden, shape.epsilon)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = Norm(shape.hidden, shape.epsilon)
        self.mlp = Mlp(shape)

    def forward(self, x: Tensor, at: Layout) -> Tensor:
        """x: [N, D]."""
        x = x + self.self_attn(self.input_layernorm(x), at)
        x = x + self.mlp(self.post_attention_layernorm(x))
        return x


class Decoder(nn.Module):
    """Everything but the output head, which is tied to the embedding."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.hidden, shape.epsilon)


class Network(nn.Module):
    """The whole model."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.model = Decoder(shape)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                spread = (
                    0.02 / (2 * shape.layers) ** 0.5
                    if name.endswith(("o_proj.weight", "down_proj.weight"))
                    else 0.02
                )
                nn.init.normal_(parameter, std=spread)

    def forward(self, prefix: Tensor, rows: Tensor) -> Tensor:
        """The logits of the rows: `[B, L, vocabulary]` for prefix ids `[P]` and row ids `[B, L]`."""
        return self.head(self.states(prefix, rows)).view(*rows.shape, -1)

    def head(self, states: Tensor) -> Tensor:
        """The logits `[M, vocabulary]` of states `[M, D]`."""
        return F.linear(states, self.model.embed_tokens.weight)

    def states(self, prefix: Tensor, rows: Tensor) -> Tensor:
        """The last states of the rows, `[B * L, D]`."""
        at = layout(self.shape, prefix.numel(), rows.shape[0], rows.shape[1], rows.device)
        x = self.model.embed_tokens(torch.cat([prefix, rows.flatten()]))  # [N, D]
        for layer in self.model.layers:
            x = layer(x, at)
        states: Tensor = self.model.norm(x[at.prefix :])
        return states

"""The network of an EAGLE-3 head, as training needs it, with the parameter names of published heads.

A row of the head takes a token and the states that three layers of the target have behind the token before it, and tells
the token behind. In training it also takes its own states in their place, some steps deep, as it will when it drafts:
step `s` moves every row on by one token, and a row sees the first step of the rows before it and the steps of its own.
Legend: B sequences, R rows, D hidden size, H heads, K key/value heads, C head size.
"""

import torch
import torch.nn.functional as F
from network import Norm, Shape
from torch import Tensor, nn


class HeadAttention(nn.Module):
    """Attention whose queries, keys and values are made of a token and of a state."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.q_proj = nn.Linear(2 * shape.hidden, shape.heads * shape.head, bias=False)
        self.k_proj = nn.Linear(2 * shape.hidden, shape.kv_heads * shape.head, bias=False)
        self.v_proj = nn.Linear(2 * shape.hidden, shape.kv_heads * shape.head, bias=False)
        self.o_proj = nn.Linear(shape.heads * shape.head, shape.hidden, bias=False)

    def forward(self, x: Tensor, positions: Tensor, seen: list[tuple[Tensor, Tensor]]) -> Tensor:
        """x: [B, R, 2 * D]; `seen` gets the keys and values of this step behind those of earlier ones."""
        s = self.shape
        query, key, value = (
            part(x).view(*x.shape[:2], -1, s.head).transpose(1, 2)
            for part in (self.q_proj, self.k_proj, self.v_proj)
        )
        query, key = turned(query, positions, s), turned(key, positions, s)
        shared = s.heads // s.kv_heads
        seen.append((key.repeat_interleave(shared, 1), value.repeat_interleave(shared, 1)))
        keys, values = seen[0]
        rows = x.shape[1]
        hidden = torch.full((rows, rows), -1e4, device=x.device).triu(1)
        scores = [query @ keys.transpose(-1, -2) + hidden.to(query.dtype)]  # [B, H, R, R]
        scores += [(query * one).sum(-1, keepdim=True) for one, _ in seen[1:]]
        shares = (torch.cat(scores, -1).float() * s.head**-0.5).softmax(-1).to(values.dtype)
        mixed = shares[..., :rows] @ values
        for at, (_, own) in enumerate(seen[1:]):
            mixed = mixed + shares[..., rows + at, None] * own
        result: Tensor = self.o_proj(mixed.transpose(1, 2).reshape(*x.shape[:2], -1))
        return result


class HeadMlp(nn.Module):
    """Gated feed-forward layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.inner, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.inner, bias=False)
        self.down_proj = nn.Linear(shape.inner, shape.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x: [B, R, D]."""
        result: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return result


class MidLayer(nn.Module):
    """The one layer of the head."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = Norm(shape.hidden, shape.epsilon)
        self.hidden_norm = Norm(shape.hidden, shape.epsilon)
        self.self_attn = HeadAttention(shape)
        self.post_attention_layernorm = Norm(shape.hidden, shape.epsilon)
        self.mlp = HeadMlp(shape)

    def forward(
        self,
        embedded: Tensor,
        states: Tensor,
        positions: Tensor,
        seen: list[tuple[Tensor, Tensor]],
    ) -> Tensor:
        """Embedded and states: [B, R, D]."""
        x = torch.cat([self.input_layernorm(embedded), self.hidden_norm(states)], -1)
        states = states + self.self_attn(x, positions, seen)
        result: Tensor = states + self.mlp(self.post_attention_layernorm(states))
        return result


class Head(nn.Module):
    """The head; embeddings are those of the target.

    Args:
        shape: Sizes; the layer is one of the target's, with twice the inputs.
        kept: `[draft vocabulary]`, the tokens that it can draft, ascending.
    """

    def __init__(self, shape: Shape, kept: Tensor) -> None:
        super().__init__()
        self.shape = shape
        self.fc = nn.Linear(3 * shape.hidden, shape.hidden, bias=False)
        self.midlayer = MidLayer(shape)
        self.norm = Norm(shape.hidden, shape.epsilon)
        self.lm_head = nn.Linear(shape.hidden, kept.shape[0], bias=False)
        self.register_buffer("d2t", kept - torch.arange(kept.shape[0]))
        known = torch.zeros(shape.vocabulary, dtype=torch.bool)
        known[kept] = True
        self.register_buffer("t2d", known)

    @property
    def kept(self) -> Tensor:
        """`[draft vocabulary]`, the tokens that it can draft."""
        added = self.get_buffer("d2t")
        return torch.arange(added.shape[0]) + added

    def is_drafted(self, token_ids: Tensor) -> Tensor:
        """Whether it can draft each token."""
        return self.get_buffer("t2d")[token_ids]

    def steps(self, embedded: Tensor, layers: Tensor, first: Tensor, depth: int) -> list[Tensor]:
        """Normed states `[B, R, D]` of each step, which `lm_head` takes.

        Args:
            embedded: `[B, R + depth - 1, D]`, the tokens behind those of `layers`.
            layers: `[B, R, 3 * D]`, states of the target.
            first: `[B]`, position of the first row.
            depth: Steps.
        """
        rows = layers.shape[1]
        states = self.fc(layers)
        seen: list[tuple[Tensor, Tensor]] = []
        found: list[Tensor] = []
        for step in range(depth):
            positions = first[:, None] + torch.arange(step, rows + step, device=first.device)
            states = self.midlayer(embedded[:, step : step + rows], states, positions, seen)
            found.append(self.norm(states))
        return found


def turned(x: Tensor, positions: Tensor, shape: Shape) -> Tensor:
    """Rotary positions. x: [B, heads, R, C], positions: [B, R]."""
    rates = shape.rope_theta ** (-torch.arange(0, shape.head, 2, device=x.device) / shape.head)
    angles = (positions[:, None, :, None] * rates).repeat(1, 1, 1, 2)
    left, right = x.chunk(2, -1)
    return x * angles.cos().to(x.dtype) + torch.cat([-right, left], -1) * angles.sin().to(x.dtype)

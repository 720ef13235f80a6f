"""Train an EAGLE-3 head for the embedded model, on what that model itself says.

    python examples/embedded_model/train_head.py --minutes 12
    python examples/embedded_model/train_head.py --minutes 12 --kept 768 --depth 4
    agentrt run programs/finance.py --speculate-tokens auto --draft-model ~/.cache/agentrt/training/head/model

The engine answers prompts of the corpus, and the head learns to foresee the answers from the states of three layers. It
is written as a published head is, beside its answers; at the end, and every few minutes, its acceptance length on the
answers to held-out prompts is told: tokens a step of the target, the one that it draws itself among them.
"""

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from batches import marker
from corpus.example import EMBEDDED
from eagle_head import Head
from export import WINDOW_TOKENS
from network import MAIN, Network, Shape, layout
from safetensors.torch import load_file, save_file
from spoken import LONGEST, Spoken, prompts, speak
from torch import Tensor

TRAIN_SEED, DEV_SEED = 7, 1
DEV_TRANSCRIPTS = 120
LAYERS = (1, 3, 5)
"""Layers of the target before which its stream is taken: low, in the middle, high."""

BEFORE = 96
"""Most rows of a prompt that stand before an answer; positions are those of the whole."""

DECAY = 0.8
"""Weight of each step of the head by that before it."""

REPORT_EVERY_S = 120


@dataclass(frozen=True, slots=True)
class Lesson:
    """Answers as rows of the head; steps move them on.

    Attributes:
        tokens: `[B, R + depth + 1]`, from the token of the first row's states on.
        layers: `[B, R, 3 * D]`, states of the target behind the first R of them.
        states: `[B, R + depth, D]`, the last of the target behind `tokens`.
        first: `[B]`, position of the first of them.
        wanted: `[B, R + depth + 1]`, whether a token was said.
    """

    tokens: Tensor
    layers: Tensor
    states: Tensor
    first: Tensor
    wanted: Tensor


class Target:
    """The embedded model with the states of its layers."""

    def __init__(self, directory: Path) -> None:
        self.network = Network(MAIN).requires_grad_(False)
        self.network.load_state_dict(load_file(directory / "model.safetensors"))
        self.network.float()

    @torch.no_grad()
    def lesson(self, answers: Sequence[Spoken], depth: int) -> Lesson:
        """The rows of some answers, of the longest of them each."""
        texts = [(*one.prompt, *one.said, marker("<|end|>")) for one in answers]
        starts = [max(0, len(one.prompt) - 1 - BEFORE) for one in answers]
        rows = max(len(text) - at for text, at in zip(texts, starts, strict=True))
        width = max(at + rows for at in starts) + depth + 1
        ids = torch.full((len(texts), width), marker("<|pad|>"))
        wanted = torch.zeros((len(texts), width), dtype=torch.bool)
        for at, text in enumerate(texts):
            ids[at, : len(text)] = torch.tensor(text)
            wanted[at, len(answers[at].prompt) : len(text)] = True
        shape, model = self.network.shape, self.network.model
        where = layout(shape, 0, ids.shape[0], ids.shape[1], ids.device)
        x = model.embed_tokens(ids.flatten())
        states = []
        for number, layer in enumerate(model.layers):
            if number in LAYERS:
                states.append(x)
            x = layer(x, where)
        last = model.norm(x).view(*ids.shape, -1)
        layers = torch.cat(states, -1).view(*ids.shape, -1)
        first = torch.tensor(starts)

        def cut(values: Tensor, count: int) -> Tensor:
            return torch.stack(
                [one[at : at + count] for one, at in zip(values, starts, strict=True)]
            )

        every = rows + depth
        return Lesson(
            cut(ids, every + 1), cut(layers, rows), cut(last, every), first, cut(wanted, every + 1)
        )

    def embedded(self, token_ids: Tensor) -> Tensor:
        """Embeddings `[..., D]`."""
        found: Tensor = self.network.model.embed_tokens(token_ids)
        return found


def loss_of(head: Head, target: Target, lesson: Lesson, depth: int) -> Tensor:
    """Cross entropy with the target's own distribution, of all steps."""
    rows, kept = lesson.layers.shape[1], head.kept
    embedded = target.embedded(lesson.tokens[:, 1 : rows + depth])
    total = torch.zeros(())
    steps = head.steps(embedded, lesson.layers, lesson.first, depth)
    for step, states in enumerate(steps):
        here = lesson.wanted[:, step + 2 : step + 2 + rows]
        aim = target.network.head(lesson.states[:, step + 1 : step + 1 + rows][here]).float()
        known = head.is_drafted(aim.argmax(-1)).float()
        shares = aim[:, kept].softmax(-1)
        told = head.lm_head(states[here]).float().log_softmax(-1)
        each = -(shares * told).sum(-1) * known
        total = total + DECAY**step * each.sum() / known.sum()
    return total


@torch.no_grad()
def acceptance(
    head: Head, target: Target, answers: Sequence[Spoken], depth: int
) -> tuple[float, list[float]]:
    """Tokens a step of the target with drafts of `depth`, and the accepted share by place in a draft."""
    kept = head.kept
    said = rounds = 0
    tried, right = [0] * depth, [0] * depth
    for one in answers:
        lesson = target.lesson([one], depth)
        rows = lesson.layers.shape[1]
        embedded = target.embedded(lesson.tokens[:, 1 : rows + depth])
        steps = head.steps(embedded, lesson.layers, lesson.first, depth)
        hits = [
            (
                kept[head.lm_head(states[0]).argmax(-1)]
                == lesson.tokens[0, step + 2 : step + 2 + rows]
            ).tolist()
            for step, states in enumerate(steps)
        ]
        at = int(lesson.wanted[0].nonzero()[0]) - 1  # the row that takes the first said token
        end = int(lesson.wanted[0].nonzero()[-1]) - 1
        while at < end:  # what stands behind the last one is no token
            accepted = 0
            for step in range(min(depth, end - at)):
                tried[step] += 1
                if not hits[step][at]:
                    break
                right[step] += 1
                accepted += 1
            said += min(accepted + 1, end - at)
            rounds += 1
            at += accepted + 1
    return said / max(1, rounds), [a / max(1, b) for a, b in zip(right, tried, strict=True)]


def write(head: Head, directory: Path) -> None:
    """The head as published ones are: a config and safetensors."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config_of(head.shape, head), indent=2) + "\n")
    tensors = {
        name: (value if name in ("d2t", "t2d") else value.to(torch.bfloat16)).contiguous()
        for name, value in head.state_dict().items()
    }
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


def config_of(shape: Shape, head: Head) -> dict[str, object]:
    """The `config.json` of a head."""
    return {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "vocab_size": shape.vocabulary,
        "draft_vocab_size": head.lm_head.weight.shape[0],
        "hidden_size": shape.hidden,
        "intermediate_size": shape.inner,
        "num_hidden_layers": 1,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head,
        "hidden_act": "silu",
        "max_position_embeddings": WINDOW_TOKENS,
        "rms_norm_eps": shape.epsilon,
        "rope_theta": shape.rope_theta,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "mlp_bias": False,
        "torch_dtype": "bfloat16",
        "eagle_config": {
            "use_aux_hidden_state": True,
            "eagle_aux_hidden_state_layer_ids": [number - 1 for number in LAYERS],
        },
    }


def batches(answers: list[Spoken], rng: random.Random, tokens: int) -> list[list[Spoken]]:
    """Answers in batches of like length, in random order."""
    order = sorted(answers, key=lambda one: (len(one.prompt) + len(one.said), rng.random()))
    found: list[list[Spoken]] = []
    for one in order:
        width = len(one.prompt) + len(one.said)
        if not found or (len(found[-1]) + 1) * width > tokens:
            found.append([])
        found[-1].append(one)
    rng.shuffle(found)
    return found


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=12.0, help="of training, answers apart")
    parser.add_argument("--transcripts", type=int, default=3000, help="whose prompts are answered")
    parser.add_argument("--kept", type=int, default=768, help="tokens that the head can draft")
    parser.add_argument("--depth", type=int, default=4, help="steps that the head learns")
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--checkpoints", type=Path, default=Path.home() / ".cache" / "agentrt" / "training" / "head"
    )
    return parser.parse_args()


def answers_of(directory: Path, seed: int, transcripts: int, threads: int) -> list[Spoken]:
    """The model's answers to the prompts of so many transcripts, kept for the next training."""
    file = directory / f"answers_{seed}_{transcripts}.json"
    if file.is_file():
        return [Spoken(tuple(a), tuple(b)) for a, b in json.loads(file.read_text())]
    found = speak(list(prompts(seed, 0, transcripts)), threads=threads)
    file.write_text(json.dumps([(one.prompt, one.said) for one in found]))
    return found


def main() -> None:
    """Train until the time is over."""
    args = arguments()
    directory: Path = args.checkpoints
    directory.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    rng = random.Random(0)
    dev = [
        one
        for one in answers_of(directory, DEV_SEED, DEV_TRANSCRIPTS, args.threads)
        if len(one.said) < LONGEST
    ]
    answers = answers_of(directory, TRAIN_SEED, args.transcripts, args.threads)
    counts = Counter(token for one in answers for token in (*one.said, marker("<|end|>")))
    kept = sorted(token for token, _ in counts.most_common(args.kept))
    rest = [token for token in range(MAIN.vocabulary) if token not in set(kept)]
    kept = sorted([*kept, *rest[: args.kept - len(kept)]])
    target, head = Target(EMBEDDED), Head(MAIN, torch.tensor(kept))
    head.lm_head.weight.data.copy_(target.network.model.embed_tokens.weight[kept])
    head.norm.weight.data.copy_(target.network.model.norm.weight)
    size = sum(one.numel() for one in head.parameters())
    print(
        f"{size:,} parameters, {len(answers):,} answers of {sum(counts.values()):,} tokens",
        flush=True,
    )
    optimizer = torch.optim.AdamW(
        head.parameters(), lr=args.rate, betas=(0.9, 0.95), weight_decay=0.01
    )
    step, losses, began, told = 0, [0.0, 0], time.monotonic(), time.monotonic()
    todo: list[list[Spoken]] = []
    while (spent := (time.monotonic() - began) / 60 / args.minutes) < 1:
        todo = todo or batches(answers, rng, args.batch_tokens)
        for group in optimizer.param_groups:
            group["lr"] = (
                args.rate * min(1.0, spent / 0.02 + 0.05) * min(1.0, (1 - spent) / 0.5 + 0.01)
            )
        with torch.autocast("cpu", torch.bfloat16):
            lesson = target.lesson(todo.pop(), args.depth)
            loss = loss_of(head, target, lesson, args.depth)
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0)
        optimizer.step()
        step, losses = step + 1, [losses[0] + float(loss.detach()), losses[1] + 1]
        if step % 50 == 0:
            print(
                f"step {step} {spent * args.minutes:.1f} min loss {losses[0] / losses[1]:.4f}",
                flush=True,
            )
            losses = [0.0, 0]
        if time.monotonic() - told > REPORT_EVERY_S:
            tell(head, target, dev[:40], args.depth)
            write(head, directory / "model")
            told = time.monotonic()
    tell(head, target, dev, args.depth)
    write(head, directory / "model")


def tell(head: Head, target: Target, answers: Sequence[Spoken], depth: int) -> None:
    """Print the acceptance length on some answers."""
    length, shares = acceptance(head, target, answers, depth)
    told = " ".join(f"{share:.3f}" for share in shares)
    print(f"acceptance length {length:.3f} of {depth + 1}, by place {told}", flush=True)


if __name__ == "__main__":
    main()

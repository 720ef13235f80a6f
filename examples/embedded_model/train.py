"""Train the embedded model, or a draft model for it, on the corpus.

    python examples/embedded_model/train.py --model main --minutes 90
    python examples/embedded_model/train.py --model draft --minutes 12
    python examples/embedded_model/train.py --model main --weights agentrt/embedded --rate 2.5e-3   # a wider corpus
    python examples/embedded_model/train.py --model main --export          # weights of the last checkpoint into the package

Checkpoints stay outside the repository, and so does the draft model: `--model draft --export` writes it beside its
checkpoint. It shares the tokenizer. `--resume` goes on from the last checkpoint. The learning rate falls over the last
third of the time, counted from the first start, so that a run may be stopped and resumed.
"""

import argparse
import math
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from batches import Batch, group, row, step_rows
from corpus.example import EMBEDDED
from corpus.mix import draw
from export import export
from network import DRAFT, MAIN, Network
from safetensors.torch import load_file
from torch import Tensor

SHAPES = {"main": MAIN, "draft": DRAFT}
DEV_SEED = 1
DEV_TRANSCRIPTS = 96
SAVE_EVERY_S = 300
COPY_STEPS = 400
LITTLE_SHARE = 0.3
AVERAGE = 0.995


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=[*SHAPES], default="main")
    parser.add_argument("--minutes", type=float, default=90.0)
    parser.add_argument(
        "--tables",
        type=int,
        default=8,
        help="tables a step, with their plans; twice as many lookups, thrice as many transcripts",
    )
    parser.add_argument("--rate", type=float, default=4e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument(
        "--weights", type=Path, help="a model directory to begin from, in place of random weights"
    )
    parser.add_argument(
        "--export", action="store_true", help="write the last checkpoint as a model and stop"
    )
    parser.add_argument(
        "--checkpoints", type=Path, default=Path.home() / ".cache" / "agentrt" / "training"
    )
    return parser.parse_args()


def loss_of(network: Network, batch: Batch) -> Tensor:
    """The weighted sum of the cross entropies; of the targets that weigh little, a share stands for all."""
    weights, targets = batch.weights.flatten(), batch.rows[:, 1:].flatten()
    drawn = torch.rand(weights.shape, device=weights.device) < LITTLE_SHARE
    kept = ((weights == 1) | (drawn & (weights > 0))).nonzero().squeeze(1)
    weights = torch.where(weights == 1, weights, weights / LITTLE_SHARE)[kept]
    logits = network.head(network.states(batch.prefix, batch.rows[:, :-1])[kept])
    each = F.cross_entropy(logits.float(), targets[kept], reduction="none")
    return (each * weights).sum()


@dataclass(frozen=True, slots=True)
class Share:
    """What one batch adds to a step."""

    loss: float
    tokens: int
    gradients: tuple[Tensor, ...]


def gradients(network: Network, device: str, weight: float, batch: Batch) -> Share:
    """The gradients of one batch, `weight` being that of the whole step.

    Batches are shared out over threads, each computing on one core: on a machine that others use too, this is several
    times faster than one batch on all cores, whose every operation would wait for the busiest of them.
    """
    with torch.autocast(device, torch.bfloat16):
        loss = loss_of(network, batch) / weight
    found = torch.autograd.grad(loss, [*network.parameters()])
    return Share(float(loss.detach()), batch.rows.numel() + batch.prefix.numel(), found)


@torch.no_grad()
def exact(network: Network, batches: list[Batch], device: str) -> dict[str, float]:
    """The fraction of transcripts whose every learned token is the most likely one, by kind.

    Greedy decoding would say exactly these tokens, so this is its exact-match score, at the price of one forward.
    """
    right: dict[str, list[bool]] = defaultdict(list)
    for batch in batches:
        with torch.autocast(device, torch.bfloat16):
            best = network(batch.prefix, batch.rows[:, :-1]).argmax(-1)
        hit = ((best == batch.rows[:, 1:]) | (batch.weights < 1)).all(-1)
        for kind, one in zip(batch.kinds, hit.tolist(), strict=True):
            right[kind].append(one)
    return {kind: sum(hits) / len(hits) for kind, hits in sorted(right.items())}


def rate_at(done: float) -> float:
    """The learning rate's factor when the fraction `done` of the time is over."""
    return min(1.0, done / 0.01 + 0.02) * min(1.0, max(0.0, (1 - done) / 0.35)) + 0.01


def main() -> None:
    """Train until the time is over."""
    args = arguments()
    directory: Path = args.checkpoints / args.model
    directory.mkdir(parents=True, exist_ok=True)
    last = directory / "last.pt"
    if args.export:
        weights = torch.load(last, weights_only=True)["average"]
        target = EMBEDDED if args.model == "main" else directory / "model"
        export(SHAPES[args.model], weights, target)
        return
    torch.set_num_threads(1)
    workers = ThreadPoolExecutor(args.threads, initializer=torch.set_num_threads, initargs=(1,))
    torch.manual_seed(args.seed)
    device = torch.device(args.device)
    network = Network(SHAPES[args.model]).to(device)
    if args.weights:
        network.load_state_dict(load_file(args.weights / "model.safetensors"))
        network.float()
    matrices = [p for n, p in network.named_parameters() if p.dim() == 2 and "embed" not in n]
    others = [p for n, p in network.named_parameters() if p.dim() != 2 or "embed" in n]
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.Muon(
            matrices, lr=args.rate, weight_decay=0.02, momentum=0.95, adjust_lr_fn="match_rms_adamw"
        ),
        torch.optim.AdamW(others, lr=args.rate, betas=(0.9, 0.95), weight_decay=0.0),
    ]
    average = {name: value.clone() for name, value in network.state_dict().items()}
    step, spent_s = 0, 0.0
    if args.resume:
        state: dict[str, Any] = torch.load(last, weights_only=True)
        network.load_state_dict(state["network"])
        average, step, spent_s = state["average"], state["step"], state["spent_s"]
        for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
    print(f"{sum(p.numel() for p in network.parameters()):,} parameters, step {step}", flush=True)
    dev = group([row(draw(DEV_SEED, index)) for index in range(DEV_TRANSCRIPTS)], device)
    judge = Network(SHAPES[args.model]).to(device)
    tokens, sums, started, saved_at = 0, [0.0, 0.0], time.monotonic(), time.monotonic()
    while spent_s < args.minutes * 60:
        begun = time.monotonic()
        factor = rate_at(spent_s / (args.minutes * 60))
        for optimizer in optimizers:
            for settings in optimizer.param_groups:
                settings["lr"] = args.rate * factor
        early = step < COPY_STEPS and not args.weights
        copies = 4 * args.tables if early else 2
        batches = group(step_rows(args.seed + 100, step, args.tables, copies), device)
        weight = sum(float(batch.weights.sum()) for batch in batches)
        for share in workers.map(partial(gradients, network, args.device, weight), batches):
            sums[0] += share.loss
            tokens += share.tokens
            for parameter, gradient in zip(network.parameters(), share.gradients, strict=True):
                parameter.grad = (
                    gradient if parameter.grad is None else parameter.grad.add_(gradient)
                )
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        keep = min(AVERAGE, 1 - 12 / (step + 12))  # over the last twelfth of the steps, at most
        for name, value in network.state_dict().items():
            average[name].lerp_(value, 1 - keep)
        sums[1] += 1
        step += 1
        spent_s += time.monotonic() - begun
        if step % 25 == 0:
            rate = tokens / (time.monotonic() - started)
            print(
                f"step {step} {spent_s / 60:.1f} min loss {sums[0] / sums[1]:.4f} rate {factor:.2f} {rate:,.0f} tokens/s",
                flush=True,
            )
            tokens, sums, started = 0, [0.0, 0.0], time.monotonic()
        if math.isnan(sums[0]):
            raise SystemExit("the loss is not a number; lower --rate")
        if time.monotonic() - saved_at > SAVE_EVERY_S or spent_s >= args.minutes * 60:
            judge.load_state_dict(average)
            print(
                "exact match",
                {k: round(v, 3) for k, v in exact(judge, dev, args.device).items()},
                flush=True,
            )
            state = {
                "network": network.state_dict(),
                "average": average,
                "step": step,
                "spent_s": spent_s,
            }
            torch.save(
                state | {"optimizers": [o.state_dict() for o in optimizers]}, directory / "next.pt"
            )
            (directory / "next.pt").replace(last)
            saved_at = time.monotonic()


if __name__ == "__main__":
    main()

"""`agentrt quantize`: a checkpoint with rounded weights, in a format that other engines read."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from agentrt.base.engine_selection import named_model
from agentrt.base.errors import UsageError
from agentrt.base.output_file import check_output
from agentrt.base.pace import pace_text

if TYPE_CHECKING:
    from agentrt.engine.models.quantiser.checkpoint_quantiser import QuantiserResult
    from agentrt.engine.models.quantiser.settings import Method

METHODS = {"int8": 0, "int4": 32, "fp8": 0, "awq": 32, "gptq": 32}
"""Inputs that share a scale by default, of each method; 0 is a whole row."""
FEW_TOKENS = 512
"""Tokens of a file below which it says little of what a model reads."""
MOST = 1_000_000
"""Most sequences, tokens of one, and inputs of a group."""
_LINE_EVERY_S = 5.0


def quantize(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="A checkpoint directory; embedded: the shipped one."),
    ],
    method: Annotated[
        str,
        typer.Option(
            "--method",
            metavar="|".join(METHODS),
            help="int8, int4 and fp8 round to nearest; awq and gptq take 4 bits and a calibration "
            "file.",
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="A directory that does not exist.")
    ],
    calibrate: Annotated[
        Path | None,
        typer.Option(
            "--calibrate",
            metavar="FILE",
            help="Text as the model will see it: a text, or .jsonl of texts or chats.",
        ),
    ] = None,
    held_out: Annotated[
        Path | None,
        typer.Option(
            "--held-out", metavar="FILE", help="Text on which the KL divergence is measured."
        ),
    ] = None,
    group: Annotated[
        int | None,
        typer.Option(
            "--group",
            metavar="N",
            min=0,
            max=MOST,
            help="Inputs that share a scale; 0: a whole row. int8 and fp8 take 0, others 32.",
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep",
            metavar="PATTERN",
            help="Matrices to leave as they are, as 'layers.0.*'; may be repeated.",
        ),
    ] = None,
    eight_bits: Annotated[
        list[str] | None,
        typer.Option(
            "--eight-bits",
            metavar="PATTERN",
            help="Matrices to round to 8 bits, as '*.down_proj'; may be repeated.",
        ),
    ] = None,
    sequences: Annotated[
        int,
        typer.Option(
            "--sequences", metavar="N", min=1, max=MOST, help="Sequences of each file, at most."
        ),
    ] = 128,
    length: Annotated[
        int,
        typer.Option(
            "--length", metavar="TOKENS", min=2, max=MOST, help="Tokens of each, at most."
        ),
    ] = 512,
    damping: Annotated[
        float | None,
        typer.Option(
            "--damping",
            metavar="SHARE",
            help="gptq: damping of the Hessian, from 0 to 1; else 0.01.",
        ),
    ] = None,
    act_order: Annotated[
        bool | None,
        typer.Option(
            "--act-order/--no-act-order",
            help="gptq: whether the largest inputs are rounded first, as by default.",
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Show no progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> int:
    """Round a model's weights to 8 or 4 bits, in a directory that other engines read."""
    from agentrt.base.engine_extra import require_packages

    require_packages("agentrt quantize")
    _check_method(method, calibrate)
    if method != "gptq" and (damping is not None or act_order is not None):
        flag = "--act-order" if damping is None else "--damping"
        raise UsageError(
            f"{flag} is a setting of gptq, not of {method}", hint="Leave it, or give --method gptq"
        )
    if damping is not None and not 0 <= damping <= 1:  # nor is NaN
        raise UsageError(f"--damping {damping} is no share", hint="Give 0 to 1, such as 0.01")
    from agentrt.cli.calibration_file import read_sequences
    from agentrt.engine.models.quantiser.checkpoint_quantiser import quantise_checkpoint
    from agentrt.engine.models.quantiser.checkpoint_writer import refuse_existing
    from agentrt.engine.models.quantiser.gptq import DAMPING
    from agentrt.engine.models.quantiser.quantisable_model import open_model, schemes_of
    from agentrt.engine.models.quantiser.settings import QuantiserSettings
    from agentrt.prompt.codec import Codec

    settings = QuantiserSettings(
        method=cast("Method", method),
        group=METHODS[method] if group is None else group,
        kept=tuple(keep or ()),
        eight_bits=tuple(eight_bits or ()),
        damping=DAMPING if damping is None else damping,
        orders_inputs=act_order is not False,
    )
    refuse_existing(out)
    check_output(out, "--out", makes_folders=True)
    source = model_path(model)
    opened = open_model(source)
    schemes_of(opened, settings)
    texts: dict[str, list[tuple[int, ...]]] = {}
    if calibrate is not None or held_out is not None:
        codec = Codec.load(source)
        most = min(length, opened.max_sequence_tokens)
        for flag, file in (("--calibrate", calibrate), ("--held-out", held_out)):
            if file is not None:
                texts[flag] = read_sequences(file, codec, length=most, most=sequences, flag=flag)
                tokens = sum(map(len, texts[flag]))
                if tokens < FEW_TOKENS and not quiet:
                    note = f"{flag} {file} has {tokens} tokens, which tell little: give some pages"
                    sys.stderr.write(f"note: {note}\n")
    result = quantise_checkpoint(
        opened,
        out,
        settings,
        calibration=texts.get("--calibrate", ()),
        held_out=texts.get("--held-out", ()),
        on_progress=progress_lines("matrices", time.monotonic, quiet=quiet),
    )
    sys.stdout.write(_as_json(out, method, result) if as_json else _as_text(out, result))
    return 0


def model_path(model: str) -> Path:
    """The directory that a model's argument names."""
    from agentrt import embedded

    return named_model(model, embedded.path())


def progress_lines(
    unit: str, now_s: Callable[[], float], *, quiet: bool = False
) -> Callable[[int, int], None]:
    """A line of progress every few seconds, on standard error.

    Args:
        unit: Name of the units that are counted.
        now_s: Clock.
        quiet: Write nothing.
    """
    began_s = told_s = now_s()

    def tell(done: int, total: int) -> None:
        nonlocal told_s
        at_s = now_s()
        if at_s - told_s >= _LINE_EVERY_S and not quiet:
            told_s = at_s
            sys.stderr.write(f"{pace_text(done, total, at_s - began_s, unit)}\n")

    return tell


def _check_method(method: str, calibrate: Path | None) -> None:
    if method not in METHODS:
        known = ", ".join(METHODS)
        raise UsageError(f"--method {method} is none", hint=f"Give one of {known}")
    needs = method in ("awq", "gptq")
    if needs and calibrate is None:
        raise UsageError(
            f"--method {method} looks at activations", hint="Give --calibrate FILE with some text"
        )
    if calibrate is not None and not needs:
        raise UsageError(
            f"--method {method} looks at no activations",
            hint="Leave --calibrate, or take --method awq or gptq",
        )


def _as_text(out: Path, result: QuantiserResult) -> str:
    kept = f", {result.kept} kept" if result.kept else ""
    before, after = (_megabytes(one) for one in (result.source_bytes, result.written_bytes))
    lines = [f"{out}: {result.rounded} matrices rounded{kept}; {after} of {before}"]
    found = result.divergence
    if found is not None:
        lines.append(
            f"KL divergence {found.kl_nats:.5f} nats a token over {found.tokens} tokens; "
            f"the most likely token is the same for {found.same_top:.2%}"
        )
    return "\n".join(lines) + "\n"


def _as_json(out: Path, method: str, result: QuantiserResult) -> str:
    found = result.divergence
    told = {
        "out": str(out),
        "method": method,
        "rounded": result.rounded,
        "kept": result.kept,
        "source_bytes": result.source_bytes,
        "written_bytes": result.written_bytes,
        "kl_nats": None if found is None else found.kl_nats,
        "same_top": None if found is None else found.same_top,
        "held_out_tokens": 0 if found is None else found.tokens,
    }
    return json.dumps(told) + "\n"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"

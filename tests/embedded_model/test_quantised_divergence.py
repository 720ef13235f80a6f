"""Calibration pays on the model that ships: AWQ and GPTQ diverge less than rounding to nearest."""

from __future__ import annotations

from pathlib import Path

import pytest
from corpus.mix import draw
from transcripts import chat_line

from agentrt import embedded
from agentrt.cli.calibration_file import read_sequences
from agentrt.engine.models.quantiser.checkpoint_quantiser import quantise_checkpoint
from agentrt.engine.models.quantiser.quantisable_model import open_model
from agentrt.engine.models.quantiser.settings import Method, QuantiserSettings
from agentrt.prompt.codec import Codec

pytestmark = pytest.mark.model


def sequences(folder: Path, seed: int, count: int) -> list[tuple[int, ...]]:
    path = folder / f"{seed}.jsonl"
    path.write_text("".join(chat_line(draw(seed, index)) for index in range(count)))
    codec = Codec.load(embedded.path())
    return read_sequences(path, codec, length=512, most=count, flag="--calibrate")


@pytest.mark.parametrize("group", [32, 128])
def test_awq_and_gptq_diverge_less_than_rounding(tmp_path: Path, group: int) -> None:
    calibration, held_out = sequences(tmp_path, 7, 8), sequences(tmp_path, 8, 4)
    found: dict[Method, float] = {}
    methods: tuple[Method, ...] = ("int4", "awq", "gptq")
    for method in methods:
        settings = QuantiserSettings(method, group)
        given = calibration if settings.calibrates else ()
        result = quantise_checkpoint(
            open_model(embedded.path()),
            tmp_path / method,
            settings,
            calibration=given,
            held_out=held_out,
        )
        assert result.divergence is not None
        found[method] = result.divergence.kl_nats
    assert found["gptq"] < 0.5 * found["int4"]
    assert found["awq"] < 0.8 * found["int4"], found

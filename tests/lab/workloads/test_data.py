"""Public data replaces quantiles by samples, where somebody has it."""

import json
from pathlib import Path
from random import Random

import pytest

from agentrt.base.errors import UsageError
from agentrt.lab.workloads.data import sizes_from
from agentrt.lab.workloads.scale import Scale
from agentrt.lab.workloads.shapes import drawn
from agentrt.lab.workloads.sizes import SIZES


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [{"question": "x" * 40, "answer": "y" * 80}, {"question": "x" * 48, "answer": "y" * 160}]
    (tmp_path / "gsm8k_test.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    (tmp_path / "azure_conv_2023.csv").write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16,700,30\n2023-11-16,900,40\n"
    )
    return tmp_path


def test_what_a_file_tells_is_drawn_from_it(folder: Path) -> None:
    sizes = sizes_from(folder)
    random = Random(0)
    answers = {sizes["self-consistency.answer"](random) for _ in range(50)}
    assert answers == {20.0, 40.0}
    assert sizes["react.output"] == SIZES["react.output"]
    outputs = {
        call.output_tokens
        for seed in range(20)
        for call in drawn("chat", seed, Scale(), sizes).calls()
    }
    assert outputs == {30, 40}


def test_a_folder_without_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has none of"):
        sizes_from(tmp_path)
    with pytest.raises(UsageError, match="no folder"):
        sizes_from(tmp_path / "gone")


def test_a_file_of_another_form_is_named(folder: Path) -> None:
    (folder / "gsm8k_test.jsonl").write_text('{"text": 1}\n')
    with pytest.raises(UsageError, match=r"gsm8k_test.jsonl is not as expected: KeyError"):
        sizes_from(folder)

"""Tables of recorded outputs: what is found by a prompt and a seed, and what is refused."""

from pathlib import Path

import pytest

from agentrt.base.errors import UsageError
from agentrt.engine.sampling.record_table import (
    RecordedOutput,
    RecordTable,
    prompt_key,
    read_table,
    write_table,
)

ONE, TWO = prompt_key([1, 2, 3]), prompt_key([1, 2])


def test_an_output_is_found_by_its_prompt_and_a_sample_by_its_seed(tmp_path: Path) -> None:
    file = tmp_path / "outputs.jsonl"
    write_table(
        file,
        [
            RecordedOutput(ONE, None, (7, 8)),
            RecordedOutput(TWO, 0, (4,)),
            RecordedOutput(TWO, 5, (6,)),
        ],
    )
    table = read_table(file)
    assert table.find([1, 2, 3], seed=99) == (7, 8)
    assert [table.find([1, 2], seed) for seed in (0, 5, 1)] == [(4,), (6,), None]
    assert table.find([3, 2, 1], 0) is None


@pytest.mark.parametrize("seeds", [(None, None), (None, 1), (2, 2)], ids=str)
def test_outputs_of_a_prompt_that_nothing_tells_apart_are_refused(
    seeds: tuple[int | None, int | None],
) -> None:
    outputs = [RecordedOutput(ONE, seed, (at,)) for at, seed in enumerate(seeds)]
    with pytest.raises(UsageError, match="several recorded outputs"):
        RecordTable(outputs)


@pytest.mark.parametrize("content", ["{}", "[", '{"prompt": 1}', "[1]"])
def test_another_file_is_refused(content: str, tmp_path: Path) -> None:
    file = tmp_path / "outputs.jsonl"
    file.write_text(content, "utf-8")
    with pytest.raises(UsageError, match="holds no recorded outputs"):
        read_table(file)
    with pytest.raises(UsageError, match="cannot read"):
        read_table(tmp_path / "none.jsonl")

"""A nameless file: what was added is read back, from its mapping and by copies."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.errors import EngineUnavailable
from agentrt.engine.ops.spill_file import SpillFile

quick = settings(max_examples=40, deadline=None, derandomize=True, database=None)


@quick
@given(sizes=st.lists(st.integers(1, 20_000), min_size=1, max_size=9))
def test_every_part_is_read_back(tmp_path_factory, sizes):
    folder = tmp_path_factory.mktemp("spilled")
    file = SpillFile(folder, segment_bytes=8192)
    source = torch.Generator().manual_seed(sum(sizes))
    given_values = [
        torch.randint(0, 256, (size,), generator=source, dtype=torch.uint8) for size in sizes
    ]
    parts = [file.add(values) for values in given_values]
    del file
    for values, part in zip(given_values, parts, strict=True):
        part.want()
        assert torch.equal(part.values, values)
        assert part.values.data_ptr() % 4096 == 0
        out = torch.empty_like(values)
        part.read(out)
        assert torch.equal(out, values)
    assert not list(folder.iterdir())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32])
def test_a_tensor_keeps_its_dtype_and_shape(dtype: torch.dtype, tmp_path: Path):
    tensor = torch.arange(6).to(dtype).view(2, 3).T
    mapped = SpillFile(tmp_path).add_tensor(tensor)
    assert mapped.dtype == dtype
    assert torch.equal(mapped, tensor)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(EngineUnavailable, match="file/spilled fails") as caught:
        SpillFile(tmp_path / "file" / "spilled")
    assert "XDG_CACHE_HOME" in caught.value.hint


def test_it_lies_in_the_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    SpillFile().add(torch.ones(3, dtype=torch.uint8))
    assert (tmp_path / "agentrt" / "spilled").is_dir()

"""Tiles of a machine: for the GPU, compiler and kernels that they were measured with."""

from dataclasses import replace

import pytest
import torch

pytest.importorskip("triton", minversion="3.7", reason="the interpreter needs triton 3.7")

from agentrt_kernels.triton.blocks import Blocks, Case, Table, cached, default, shipped
from agentrt_kernels.triton.set import TritonKernels
from agentrt_kernels.triton.tile_file import TileOrigin, origin_here, read_tiles, write_tiles

HERE = TileOrigin("NVIDIA H200", "3.7.1", "ab12")
CASE = Case("grouped_gemm", 16, 16, 90)
FAST = Blocks(rows=16, columns=32, inner=32, warps=2, stages=2)


def test_tiles_are_found_again(tmp_path, caplog) -> None:
    path = tmp_path / "deep" / "blocks.json"
    write_tiles(path, Table({CASE: FAST}), HERE)
    table = read_tiles(path, HERE)
    assert table.find(CASE) == FAST != default(CASE)
    assert table.find(replace(CASE, width=64)) == default(replace(CASE, width=64))
    assert [one.name for one in path.parent.iterdir()] == ["blocks.json"]
    assert not read_tiles(tmp_path / "missing.json", HERE).entries()
    assert not caplog.records


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"device": "NVIDIA H100"}, "on NVIDIA H100, and this is NVIDIA H200"),
        ({"triton": "3.6.0"}, "Triton 3.6.0 compiled the kernels then, and 3.7.1 does now"),
        ({"kernels": "cd"}, "the kernels have changed"),
    ],
)
def test_tiles_that_were_measured_otherwise_are_refused(change, told, tmp_path, caplog) -> None:
    path = tmp_path / "blocks.json"
    write_tiles(path, Table({CASE: FAST}), replace(HERE, **change))
    assert read_tiles(path, HERE).find(CASE) == default(CASE)
    (record,) = caplog.records
    assert told in record.getMessage()
    assert "python -m agentrt_kernels.tune" in record.getMessage()


@pytest.mark.parametrize("text", ["", "[1", "[]", "{}", '{"origin": {}, "tiles": []}', "null"])
def test_a_file_that_is_no_table_is_refused(text, tmp_path, caplog) -> None:
    path = tmp_path / "blocks.json"
    path.write_text(text)
    assert not read_tiles(path, HERE).entries()
    assert "damaged" in caplog.text


def test_a_set_takes_the_tiles_of_its_machine(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    case, here = Case("dequantised_gemm", 16, 4, 0), origin_here()
    for origin, expected in ((here, FAST), (replace(here, device="another"), default(case))):
        write_tiles(cached(), Table({case: FAST}), origin)
        rows = torch.empty(1, 1, dtype=torch.bfloat16)
        assert TritonKernels().product_blocks("dequantised_gemm", rows, 4) == expected


def test_own_tiles_go_before_those_that_are_shipped() -> None:
    (entry, *_) = shipped().entries()
    case = Case(**entry["case"])
    table = shipped().with_more(Table({case: FAST}))
    assert table.find(case) == FAST != shipped().find(case)
    assert len(table.entries()) == len(shipped().entries())

"""The check and the tuning of tiles: what they say is true, where there is no GPU too."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from agentrt_kernels.check import run
from agentrt_kernels.check.expert_product import expert_product
from agentrt_kernels.check.product import plain_product, product
from agentrt_kernels.check.routing import routing_work, sum_work
from agentrt_kernels.check.run import speed_of
from agentrt_kernels.check.timing import ceilings, timed
from agentrt_kernels.check.work import (
    Heads,
    Work,
    decode,
    draw,
    experts,
    extend,
    gate,
    norm,
    page_copy,
    rope,
    siblings,
)
from agentrt_kernels.contract import SILU, PagedRows
from agentrt_kernels.reference import Reference

CPU = torch.device("cpu")
FP32 = torch.float32


class Wrong(Reference):
    """A set with one mistake: attention leaves out the scaling."""

    name = "wrong"

    def attend(self, query, layer_pages, rows, score, out, scales=None) -> None:
        super().attend(query, layer_pages, rows, replace(score, scaling=1.0), out, scales)


def test_the_check_finds_the_triton_set_right(interpreted) -> None:
    facts = run("cpu", interpreted)
    assert facts["wrong"] == 0, [check for check in facts["checks"] if not check["right"]]
    operations = {check["operation"] for check in facts["checks"]}
    assert len(operations) == 11
    assert "nothing was timed" in facts["note"]


def test_the_check_finds_a_mistake() -> None:
    facts = run("cpu", Wrong())
    wrong = {check["operation"] for check in facts["checks"] if not check["right"]}
    assert wrong == {"attend"}
    assert facts["wrong"] == 5


def test_a_kernel_that_fails_is_a_fact() -> None:
    class Failing(Reference):
        def gate_mul(self, gate_up, out, activation=SILU) -> None:
            raise RuntimeError("out of shared memory")

    facts = run("cpu", Failing())
    (failed,) = [check for check in facts["checks"] if not check["right"]]
    assert failed["error"] == "out of shared memory"


WORKS = {
    "decode": lambda: decode(2, 32, Heads(4, 2, 16), FP32, CPU),
    "decode of codes": lambda: decode(2, 32, Heads(4, 2, 16), FP32, CPU, codes="int8"),
    "decode of FP8": lambda: decode(2, 32, Heads(4, 2, 16), FP32, CPU, codes="fp8"),
    "extend": lambda: extend(2, 8, 16, Heads(4, 2, 16), FP32, CPU),
    "siblings": lambda: siblings(3, 32, 16, Heads(4, 2, 16), FP32, CPU),
    "apart": lambda: siblings(3, 32, 16, Heads(4, 2, 16), FP32, CPU, apart=True),
    "norm": lambda: norm(2, 16, FP32, CPU),
    "gate": lambda: gate(2, 16, FP32, CPU),
    "rope": lambda: rope(3, Heads(4, 2, 16), FP32, CPU),
    "draw": lambda: draw(2, 50, CPU, top_p=0.9),
    "experts": lambda: experts(4, 2, 8, 16, FP32, CPU),
    "experts in codes": lambda: expert_product("mxfp4", 4, 2, 8, 64, FP32, CPU),
    "routing": lambda: routing_work(3, 8, 2, CPU),
    "routing by torch": lambda: routing_work(3, 8, 2, CPU, by_torch=True),
    "weighted sum": lambda: sum_work(3, 2, 16, FP32, CPU),
    "product": lambda: product("int4 in groups", 3, 8, 64, FP32, CPU),
    "product in FP8": lambda: product("fp8 by fp8", 3, 8, 64, FP32, CPU),
    "plain product": lambda: plain_product(3, 8, 64, FP32, CPU),
    "page_copy": lambda: page_copy(2, 64, CPU, from_host=True),
}


@pytest.mark.parametrize("name", WORKS)
def test_work_can_be_done_and_is_counted(name: str) -> None:
    """Every piece of work runs, in its last round too, and is timed against ceilings."""
    one = WORKS[name]()
    one.call(Reference(), one.rounds - 1)
    assert one.bytes > 0
    few = Work(one.kernel, one.name, one.call, 1, one.bytes, one.flops)
    told = speed_of(few, Reference(), CPU, ceilings(CPU, values=1000, side=16))
    assert told["of_read_ceiling"] > 0
    assert len(told["samples_s"]) == 9


def test_a_product_reads_its_codes_once() -> None:
    rows, plain = 2 * (8 + 64) * 2, 8 * 64 * 2
    halves = torch.bfloat16
    assert plain_product(2, 8, 64, halves, CPU).bytes == plain + rows
    four = product("int4 in groups", 2, 8, 64, halves, CPU)
    assert four.bytes == 8 * 64 // 2 + 8 * 2 * 2 + rows
    assert product("fp8 by fp8", 2, 8, 64, halves, CPU).bytes == 8 * 64 + 8 * 4 + rows
    assert four.flops == 2 * 2 * 8 * 64


def test_experts_that_have_rows_are_read_once() -> None:
    halves = torch.bfloat16
    for rows, read in ((1, 1), (6, 4)):
        one = expert_product("int4 in groups", rows, 4, 8, 64, halves, CPU)
        assert one.bytes == read * (8 * 64 // 2 + 8 * 2 * 2) + rows * (8 + 64) * 2
        assert one.flops == 2 * rows * 8 * 64


def test_work_is_packed_for_the_set_that_does_it() -> None:
    """Another set is another layout, or other tiles."""
    seen = []

    class Watching(Reference):
        def pack_codes(self, weight, bias=None):
            seen.append(self)
            return super().pack_codes(weight, bias)

    one, first, second = product("int8", 1, 8, 64, FP32, CPU), Watching(), Watching()
    for kernels in (first, first, second):
        one.call(kernels, one.rounds - 1)
    assert seen == [first] * one.rounds + [second] * one.rounds


def test_the_sums_of_a_prompt_are_those_of_what_it_sees() -> None:
    one = extend(2, 8, 16, Heads(4, 2, 16), FP32, CPU)
    pairs = 2 * sum(16 + row + 1 for row in range(8))
    assert one.flops == 4 * pairs * 4 * 16


def test_siblings_read_what_they_share_once() -> None:
    seen: list[PagedRows] = []

    class Watching(Reference):
        def attend(self, query, layer_pages, rows, score, out, scales=None) -> None:
            seen.append(rows)

    for apart in (True, False):
        one = siblings(3, 32, 16, Heads(4, 2, 16), FP32, CPU, apart=apart)
        one.call(Watching(), 0)
        assert one.bytes == (32 + 3 * 16) * 2 * 2 * 16 * 4
    assert [rows.prefix is None for rows in seen] == [True, False]
    assert seen[1].block_table[:, :2].unique(dim=0).shape[0] == 1


def test_a_call_is_warmed_up_and_then_timed_as_often_as_asked() -> None:
    calls: list[None] = []
    assert len(timed(lambda: calls.append(None), CPU, 3)) == 3
    assert len(calls) == 4


@pytest.mark.usefixtures("interpreted")
def test_the_fastest_right_tile_is_chosen() -> None:
    from agentrt_kernels.triton.blocks import Blocks, Case, default
    from agentrt_kernels.tune import Trial, tune

    case = Case("paged_decode", 16, 32, 0)
    slow, fast, wrong, failing = (Blocks(16, 16 * at, 0, 4, 2) for at in (1, 2, 3, 4))

    def tile_of(kernels):
        return kernels._table.find(case)

    def difference(kernels) -> float:
        if tile_of(kernels) == failing:
            raise RuntimeError("out of shared memory")
        return 2.0 if tile_of(kernels) == wrong else 0.5

    def timer(one, kernels, device) -> list[float]:
        tiles.append(tile_of(kernels))
        at = tiles.count(tiles[-1]) - 1  # of both pieces of work; their product decides
        return {slow: ([1.0, 1.0, 3.0], [8.0]), fast: ([2.0, 2.0, 9.0], [2.0])}[tiles[-1]][at]

    def trials() -> Iterator[Trial]:
        yield Trial(case, (slow, fast, wrong, failing), (WORKS["decode"],) * 2, difference)
        yield Trial(case, (wrong, failing), (WORKS["decode"],), difference)

    tiles: list[Blocks] = []
    first, none = tune(trials(), CPU, timer)
    assert first.blocks == fast
    assert first.seconds == pytest.approx({slow: 8**0.5, fast: 2.0})
    assert none.blocks == default(case)


@pytest.mark.usefixtures("interpreted")
def test_every_trial_is_of_the_case_that_the_set_looks_up() -> None:
    """A table that was written would be read: the work asks for the tile of the trial's case."""
    from agentrt_kernels.triton.blocks import Blocks, Case, Table
    from agentrt_kernels.triton.set import TritonKernels
    from agentrt_kernels.tune import trials_of

    class Watching(Table):
        def find(self, case: Case) -> Blocks:
            asked.append(case)
            return super().find(case)

    seen = set()
    for trial in trials_of(CPU):
        asked: list[Case] = []
        kernels = TritonKernels(Watching())
        width, kind = trial.case.width, trial.case.kernel
        if kind == "grouped_gemm":
            rows = {16: 32, 64: 256, 128: 2048}[width]
            one = torch.empty(rows, 16, dtype=torch.bfloat16)
            none = torch.zeros(9, dtype=torch.int32)  # no rows of any expert: nothing is computed
            kernels.grouped_linear(one, torch.empty(8, 16, 16, dtype=one.dtype), none, one)
            assert asked == [trial.case]
        elif kind.startswith("grouped_"):
            rows = {16: 32, 64: 192, 128: 2048}[width]
            for count in (rows, rows + rows // 8):  # timed, and held to the reference
                asked.clear()
                some = torch.empty(count, 1, dtype=torch.bfloat16)
                of_one = kind.removeprefix("grouped_")
                assert kernels.product_blocks(of_one, some, trial.case.bits, 8)
                assert asked == [trial.case]
        elif kind in ("dequantised_gemm", "fp8_gemm"):
            rows = {16: 2, 64: 64, 128: 2048}[width]
            some = torch.empty(rows, 1, dtype=torch.bfloat16)
            assert kernels.product_blocks(kind, some, trial.case.bits)
            assert asked == [trial.case]
        elif kind == "dequantised_gemv":
            row = torch.empty(1, 1, dtype=torch.bfloat16)
            assert kernels.product_blocks(kind, row, trial.case.bits)
            assert asked == [trial.case]
        else:
            assert kernels._blocks(kind, torch.empty(1, 1, width, dtype=torch.bfloat16))
            assert asked == [trial.case]
        seen.add(kind)
    attention = {"paged_decode", "paged_extend", "shared_prefix"}
    products = {"dequantised_gemm", "fp8_gemm"}
    grouped = {"grouped_gemm"} | {f"grouped_{one}" for one in products}
    assert seen == attention | products | {"dequantised_gemv"} | grouped


@pytest.mark.usefixtures("interpreted")
def test_without_a_gpu_nothing_is_tuned(capsys, tmp_path) -> None:
    from agentrt_kernels.tune import main

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert main(["--out", str(tmp_path / "blocks.json")]) == 2
    assert "no CUDA device" in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


def test_from_the_shell_where_there_is_no_gpu() -> None:
    """In a process without the interpreter: it says what is missing, as JSON."""
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    clean = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "agentrt_kernels.check"]
    done = subprocess.run(command, env=clean, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["checks"] == []
    assert "triton" in facts["note"]

"""The engine on Triton kernels, under the interpreter, says what transformers says."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.engine.batch import shared_prefix
from agentrt.engine.runner import cuda_graphs
from tests.engine.transformers_said import EPSILON, said

pytest.importorskip("triton", minversion="3.7", reason="the interpreter needs triton 3.7")

STEM = [(37 * at) % 250 for at in range(13)]
PROMPTS = ([*STEM, 7, 9], [*STEM, 8, 200], [5])
NEW_TOKENS = 3


def generated(path, prompt):
    """Tokens of the reference; the gap of its two best logits at each is far above rounding."""
    tokens, gaps = said(path, prompt, NEW_TOKENS)
    assert min(gaps) > EPSILON
    return tokens


@pytest.fixture
def seen(monkeypatch):
    """Batches that the Triton set was asked to attend to."""
    from agentrt_kernels.triton.set import TritonKernels

    batches = []
    attend = TritonKernels.attend

    def watched(self, query, layer_pages, rows, *how):
        batches.append(rows)
        attend(self, query, layer_pages, rows, *how)

    monkeypatch.setattr(TritonKernels, "attend", watched)
    return batches


@pytest.mark.parametrize(
    ("kind", "chunk"),
    [
        ("mistral", 16),
        pytest.param("qwen3", 9, marks=pytest.mark.slow),
        pytest.param("mixtral", 16, marks=pytest.mark.slow),
        pytest.param("gemma2", 9, marks=pytest.mark.slow),
        pytest.param("cohere2", 16, marks=pytest.mark.slow),
    ],
)
def test_generation_is_the_references(
    build, model_dir, engine, seen, monkeypatch, kind, chunk
) -> None:
    """Prompts whole and in chunks, siblings over one prefix, windows, experts."""
    monkeypatch.setattr(shared_prefix, "MIN_TOKENS", 8)
    core = build(kind, kernels="triton", page_tokens=4, prefill_chunk_tokens=chunk)
    assert core.executor.runner.model.report.kernels == "triton"
    for number, prompt in enumerate(PROMPTS):
        core.submit(engine.request(number, prompt, max_tokens=NEW_TOKENS))
    served = engine.drain(core)
    for number, prompt in enumerate(PROMPTS):
        assert served.ids(number) == generated(model_dir(kind), prompt)
    assert any(rows.prefix is not None for rows in seen), "siblings decode over one prefix"
    assert any(rows.most_query_tokens > 1 for rows in seen)


@pytest.mark.slow
@pytest.mark.parametrize("experts", [1, 5])
def test_experts_that_are_copied_before_products_write_the_same(
    build, model_dir, engine, experts
) -> None:
    size = 3 * 32 * 48 * 4
    core = build("mixtral", kernels="triton", expert_memory=str(experts * size))
    for number, prompt in enumerate(PROMPTS):
        core.submit(engine.request(number, prompt, max_tokens=NEW_TOKENS))
    served = engine.drain(core)
    for number, prompt in enumerate(PROMPTS):
        assert served.ids(number) == generated(model_dir("mixtral"), prompt)
    assert core.executor.runner.expert_offload.misses > 0


class Again:
    """Stands where a CUDA graph does: runs again on the buffers it was recorded with."""

    def __init__(self, run):
        self.run, self.output = run, run().clone()

    def replay(self):
        self.output.copy_(self.run())


# A capture computes rows that nobody filled: whatever memory held, which may overflow.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_a_captured_step_of_several_rows_says_the_same(engine, tmp_path, monkeypatch) -> None:
    """Rows of nobody change nothing, nor what experts they are sent to; one layer shows it."""
    monkeypatch.setattr(cuda_graphs, "WIDE_ROWS", (4,))
    engine.save_model("mixtral", tmp_path, num_hidden_layers=1)
    spec = ConstraintSpec("regex", "[ab]xyz[cd]vw")
    told = []
    for captures in (False, True):
        core = engine.core(tmp_path, kernels="triton", page_tokens=4, kv_pages=16, max_running=2)
        if captures:
            core.executor.runner.capture_graphs(SimpleNamespace(record=Again), 2)
        core.prewarm((spec,), wait_s=60.0)
        for number in range(2):
            constraint = None if number else spec
            core.submit(engine.request(number, STEM[number:], max_tokens=5, constraint=constraint))
        served = engine.drain(core)
        told.append([served.ids(number) for number in range(2)])
        core.close()
    assert told[0] == told[1]
    assert core.executor.runner.graphs.replays == core.forwards - 1  # that with the prompts


def test_draws_are_those_of_the_reference_set(build, engine) -> None:
    """Temperature, top-k, top-p and min-p, drawn on the device, from the same seeds."""
    settings = ({"top_p": 0.9}, {"top_k": 20, "min_p": 0.01})
    drawn = []
    for kernels in ("triton", "reference"):
        core = build("llama", kernels=kernels, page_tokens=4)
        for number, how in enumerate(settings):
            core.submit(engine.request(number, STEM, max_tokens=2, temperature=0.9, seed=7, **how))
        served = engine.drain(core)
        drawn.append([served.ids(number) for number in range(len(settings))])
    assert drawn[0] == drawn[1]


def test_without_cuda_or_the_interpreter_the_set_says_so() -> None:
    """In a process of its own: this one runs the interpreter."""
    code = (
        "from agentrt_kernels import load\n"
        "from agentrt_kernels.contract import KernelsUnavailable\n"
        "import torch\n"
        "if torch.cuda.is_available():\n    print('needs a CUDA device'); raise SystemExit\n"
        "try:\n    load('triton')\nexcept KernelsUnavailable as error:\n    print(error)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "needs a CUDA device" in told.stdout

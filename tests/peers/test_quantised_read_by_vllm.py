"""Checkpoints of four bits that are written here, read by vLLM: greedy tokens up to a tie.

Its CPU build multiplies by no weights of eight bits without activations of eight bits.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from agentrt import embedded
from agentrt.base.clock import FakeClock
from agentrt.base.config import EngineConfig
from agentrt.lab.arms.peer_files import peer_files
from agentrt.lab.arms.vllm_server import vllm_env
from agentrt.prompt import Codec
from tests.engine.conftest import drain, request
from tests.oracles.clocked_core import ClockedCore

pytestmark = pytest.mark.peers

NEW_TOKENS = 24
TIE = 0.1
"""Lead of a token over the next one, in nats, that rounding to bfloat16 may turn over."""
LEAST_COMPARED = 60

GENERATE = """
import json, sys

from vllm import LLM, SamplingParams

if __name__ == "__main__":
    prompts = json.loads(sys.argv[2])
    model = LLM(sys.argv[1], dtype="bfloat16", enforce_eager=True, max_model_len=512,
                kv_cache_memory_bytes=64 << 20)
    asked = [{"prompt_token_ids": one} for one in prompts]
    sampling = SamplingParams(temperature=0, max_tokens=int(sys.argv[3]), logprobs=2)
    for one in model.generate(asked, sampling):
        best = [sorted((x.logprob for x in at.values()), reverse=True)
                for at in one.outputs[0].logprobs]
        leads = [first - second for first, second, *_ in best]
        print("TOKENS", json.dumps([list(one.outputs[0].token_ids), leads]))
"""
ASKED = (
    "Order 12 lamps for Ada, Rome.",
    "What is 47 + 38?",
    "Write three lines about a lamp.",
    "Is 17 a prime number?",
    "Extract the name: Mara Lindt, Oslo, 3 desk lamps.",
    "Say hello.",
)


@pytest.fixture(scope="module")
def prompts() -> list[list[int]]:
    tokenizer: Any = AutoTokenizer.from_pretrained(embedded.path())
    return [
        list(
            tokenizer.apply_chat_template(
                [{"role": "user", "content": one}], add_generation_prompt=True, return_dict=False
            )
        )
        for one in ASKED
    ]


def greedy(model: Path, prompts: list[list[int]]) -> list[list[int]]:
    core = ClockedCore(EngineConfig(model, dtype="bfloat16", kv_pages=64, threads=1), FakeClock())
    for number, prompt in enumerate(prompts):
        core.submit(request(number, prompt, max_tokens=NEW_TOKENS))
    done = drain(core)
    return [done.ids(number) for number in range(len(prompts))]


@pytest.mark.parametrize("method", ["int4", "awq", "gptq"])
def test_greedy_tokens_are_the_same_up_to_a_tie(
    method: str, prompts: list[list[int]], tmp_path: Path
) -> None:
    python = peer_files(embedded.path()).vllm_program.with_name("python")
    if not python.exists():
        pytest.skip("vLLM is not installed: make peers-vllm")
    text = tmp_path / "calibration.txt"
    text.write_text("\n\n".join(ASKED * 20), "utf-8")
    calibrate = () if method == "int4" else ("--calibrate", str(text))
    target = tmp_path / method
    words = ("quantize", "embedded", "--method", method, "--group", "128", "--out", str(target))
    subprocess.run([sys.executable, "-P", "-m", "agentrt", *words, *calibrate], check=True)
    script = tmp_path / "generate.py"
    script.write_text(GENERATE)
    done = subprocess.run(
        [python, str(script), str(target), json.dumps(prompts), str(NEW_TOKENS)],
        env={"PATH": f"{python.parent}:/usr/bin:/bin", "HOME": str(tmp_path), **vllm_env(2)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    ends = Codec.load(target).vocab.eos_ids
    ours, compared = greedy(target, prompts), 0
    lines = [one for one in done.stdout.splitlines() if one.startswith("TOKENS ")]
    for line, own in zip(lines, ours, strict=True):
        theirs, leads = json.loads(line.removeprefix("TOKENS "))
        sure = next((at for at, lead in enumerate(leads) if lead < TIE), len(leads))
        wanted = [token for token in theirs[:sure] if token not in ends]
        assert own[: len(wanted)] == wanted
        compared += len(wanted)
    assert compared >= LEAST_COMPARED

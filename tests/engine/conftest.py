"""Tiny random models, made on the spot, and an engine over each."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from agentrt.base.clock import FakeClock
from agentrt.base.config import EngineConfig
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.engine.models.native import self_check
from agentrt.engine.runner.model_executor import ModelExecutor
from agentrt.protocol.backend import GenerateRequest, TokenPrompt
from agentrt.protocol.step_output import Delta, End, StepDone
from agentrt_kernels import load
from agentrt_kernels.contract import KernelsUnavailable
from tests.engine.hash_machine import VOCABULARY, HashMachine, hash_core
from tests.engine.published_formats import WIDE
from tests.oracles.clocked_core import ClockedCore

SPECIAL = ("<|begin|>", "<|end|>", "<|user|>", "<|assistant|>", "<|call|>", "<|/call|>")
TEMPLATE = (
    "<|begin|>{% for m in messages %}{{ '<|user|>' if m.role != 'assistant' else '<|assistant|>' }}"
    "{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SHAPE = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 2304,
    "bos_token_id": 256,
    "eos_token_id": 257,
    "pad_token_id": None,
}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", {"tie_word_embeddings": True}),
    "qwen2": ("Qwen2Config", {}),
    "qwen3": ("Qwen3Config", {"head_dim": 8}),
    "mistral": ("MistralConfig", {"sliding_window": 7}),
    "mixtral": ("MixtralConfig", {"num_local_experts": 4}),
    "qwen3_moe": (
        "Qwen3MoeConfig",
        {"head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32},
    ),
    "gemma2": (
        "Gemma2Config",
        {
            "head_dim": 8,
            "sliding_window": 9,
            "query_pre_attn_scalar": 8,
            "attn_logit_softcapping": 5.0,
        },
    ),
}
ODD_KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "phi3": ("Phi3Config", {"pad_token_id": 0}),
    "granite": ("GraniteConfig", {"attention_multiplier": 0.3, "logits_scaling": 2.0}),
    "olmoe": ("OlmoeConfig", {"num_experts": 4, "num_experts_per_tok": 2}),
    "gemma3_text": (
        "Gemma3TextConfig",
        {"head_dim": 8, "sliding_window": 8, "query_pre_attn_scalar": 8},
    ),
    "smollm3": ("SmolLM3Config", {}),
    "qwen2_moe": ("Qwen2MoeConfig", {}),
    **{name.lower(): (f"{name}Config", {"head_dim": 8}) for name in ("Gemma", "Glm", "Glm4")},
    **{name.lower(): (f"{name}Config", {}) for name in ("Olmo2", "Olmo3", "Cohere", "Cohere2")},
    "gpt2": ("GPT2Config", {"num_key_value_heads": 4, "n_positions": 256}),
    "gpt_neox": ("GPTNeoXConfig", {"num_key_value_heads": 4}),
    "opt": ("OPTConfig", {"num_key_value_heads": 4, "word_embed_proj_dim": 32, "ffn_dim": 48}),
    "deepseek_v3": (
        "DeepseekV3Config",
        {
            "q_lora_rank": 16,
            "kv_lora_rank": 16,
            "qk_rope_head_dim": 8,
            "n_routed_experts": 4,
            "n_group": 1,
            "topk_group": 1,
            "num_experts_per_tok": 2,
        },
    ),
    **{name.lower(): (f"{name}Config", {}) for name in ("Mamba", "Bloom", "Gemma3")},
    "gpt_oss": (
        "GptOssConfig",
        {
            "head_dim": 8,
            "sliding_window": 8,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        },
    ),
}


Build = Callable[..., ClockedCore]


@pytest.fixture(scope="session", autouse=True)
def _quiet() -> None:
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()


@pytest.fixture(scope="session", autouse=True)
def _own_checks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Self-checks are kept for this session only."""
    home = tmp_path_factory.mktemp("checked")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(self_check, "cache_directory", lambda: home)
        yield


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The directory of a kind of model, made at its first use."""
    made: dict[str, Path] = {}

    def find(kind: str) -> Path:
        if kind not in made:
            made[kind] = tmp_path_factory.mktemp(kind)
            save_model(kind, made[kind])
        return made[kind]

    return find


def save_model(kind: str, path: Path, *, shard: str = "1GB", **more: object) -> None:
    """A random model with a byte-level tokenizer."""
    name, extra = {**KINDS, **ODD_KINDS}[kind]
    config = getattr(transformers, name)(**{**SHAPE, **extra, **more})
    torch.manual_seed(len(kind))
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():  # larger weights, or every token is as likely as any other
        for part, weight in model.named_parameters():
            if weight.dim() > 1 and not part.endswith(("norm.weight", "bias")):
                weight.mul_(5)
            elif kind in ODD_KINDS:  # norms that are all alike would hide one that is left out
                weight.add_(torch.randn_like(weight) * 0.1)
    model.save_pretrained(path, max_shard_size=shard)
    save_tokenizer(path)


def save_tokenizer(path: Path) -> None:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({char: at for at, char in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in SPECIAL])
    tokenizer.save(str(path / "tokenizer.json"))
    settings = {
        "bos_token": "<|begin|>",
        "eos_token": "<|end|>",
        "chat_template": TEMPLATE,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    (path / "tokenizer_config.json").write_text(json.dumps(settings))


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """The directory of a model that is not quantised, wide enough for groups of weights."""
    path = tmp_path / "plain"
    save_model("qwen2", path, **WIDE)
    return path


@pytest.fixture(scope="session")
def tokenizer_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a tokenizer and no weights."""
    path = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(path)
    (path / "config.json").write_text(json.dumps({**SHAPE, "model_type": "llama"}))
    return path


@pytest.fixture
def build(model_dir: Callable[[str], Path]) -> Iterator[Build]:
    """Engines over tiny models; closed at the end of the test."""
    opened: list[ClockedCore] = []

    def make(kind: str = "llama", *, clock: Any = None, **settings: Any) -> ClockedCore:
        settings.setdefault("kv_pages", 256)
        config = EngineConfig(model_dir(kind), threads=1, **settings)
        opened.append(ClockedCore(config, clock or FakeClock()))
        return opened[-1]

    yield make
    for core in opened:
        core.close()


def request(
    number: int,
    token_ids,
    *,
    complete: bool = True,
    constraint: ConstraintSpec | None = None,
    on_limit="raise",
    run: str = "run",
    demanded: bool = True,
    deadline_at_s: float | None = None,
    keep_special: bool = False,
    cache_salt: str = "",
    adapter: str = "",
    **sampling,
) -> GenerateRequest:
    return GenerateRequest(
        request_id=RequestId(number),
        run_id=RunId(run),
        node_id=NodeId(f"n{number}"),
        site="test",
        prompt=TokenPrompt(tuple(token_ids), complete),
        sampling=SamplingParams(**sampling),
        constraint=constraint,
        on_limit=on_limit,
        demanded=demanded,
        deadline_at_s=deadline_at_s,
        keep_special=keep_special,
        cache_salt=cache_salt,
        adapter=adapter,
    )


class Served:
    """Everything an engine told, by request."""

    def __init__(self) -> None:
        self.steps: list[StepDone] = []
        self.deltas: dict[int, list[Delta]] = {}
        self.ends: dict[int, End] = {}

    def see(self, done: StepDone) -> None:
        self.steps.append(done)
        for delta in done.deltas:
            assert delta.request_id not in self.ends
            self.deltas.setdefault(delta.request_id, []).append(delta)
        for end in done.ends:
            assert end.request_id not in self.ends
            self.ends[end.request_id] = end

    def ids(self, number: int) -> list[int]:
        return [token for delta in self.deltas.get(number, []) for token in delta.token_ids]

    def text(self, number: int) -> str:
        return "".join(delta.text for delta in self.deltas.get(number, []))

    def logprobs(self, number: int):
        return [one for delta in self.deltas.get(number, []) for one in delta.logprobs]


def drain(core: ClockedCore, served: Served | None = None, most_steps: int = 100_000) -> Served:
    """Step until there is nothing to do; time passes a millisecond a step."""
    served = served or Served()
    while core.has_work() and most_steps:
        most_steps -= 1
        done = core.step()
        core.clock.advance(0.001)
        if done is not None:
            served.see(done)
    return served


@pytest.fixture
def engine():
    """The helpers of this file, for tests that are imported without it."""
    return Helpers


class Helpers:
    hash_machine = HashMachine
    KINDS = tuple(KINDS)
    replace = staticmethod(dataclasses.replace)
    VOCABULARY = VOCABULARY
    Served = Served
    drain = staticmethod(drain)
    request = staticmethod(request)
    save_model = staticmethod(save_model)
    save_tokenizer = staticmethod(save_tokenizer)

    @staticmethod
    def compare_logits(
        kind: str,
        path: Path,
        *,
        page_tokens: int,
        tile_tokens: int,
        save: bool = True,
        **more: Any,
    ) -> None:
        """Log-probabilities of an engine and of the reference, over a prompt in chunks."""
        if save:
            save_model(kind, path, **more)
        config = EngineConfig(path, page_tokens=page_tokens, kv_pages=64, prefill_chunk_tokens=9)
        clock = FakeClock()
        core = ClockedCore(config, clock, ModelExecutor(config, clock, tile_tokens=tile_tokens))
        prompts = [[(11 * at) % 250 for at in range(first, 37)] for first in (0, 5, 9)]
        for number, prompt in enumerate(prompts):
            core.submit(request(number, prompt, max_tokens=6, logprobs=5))
        served = drain(core)
        core.close()
        model = transformers.AutoModelForCausalLM.from_pretrained(
            path, dtype=torch.float32, attn_implementation="eager"
        )
        for number, prompt in enumerate(prompts):
            with torch.inference_mode():
                logits = model(torch.tensor([prompt + served.ids(number)])).logits[0]
            assert len(served.logprobs(number)) > 1
            for at, told in enumerate(served.logprobs(number)):
                expected = logits[len(prompt) - 1 + at].log_softmax(-1)
                for token, value in told.top:
                    assert abs(value - float(expected[token])) < 1e-4

    @staticmethod
    def core(path: Path, **settings: Any) -> ClockedCore:
        settings.setdefault("kv_pages", 256)
        return ClockedCore(EngineConfig(path, threads=1, **settings), FakeClock())

    hash_core = staticmethod(hash_core)


@pytest.fixture
def native_kernels() -> None:
    """A skip where nothing can compile the cpu kernels."""
    try:
        load("cpu")
    except KernelsUnavailable as error:
        pytest.skip(str(error))

"""Model folders that lie: each is invalid at once, by one typed error with the exit code 3."""

import dataclasses
import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from agentrt.base import model_json
from agentrt.base.config import EngineConfig
from agentrt.base.errors import ModelInvalid
from agentrt.engine.models.loader import load_model
from agentrt.prompt import Codec
from agentrt.testing import tiny_engine

DEEP = "[" * 100_000
DEEP_OBJECT = '{"a":' * 100_000
Change = Callable[[Path], None]


def config(**fields: object) -> Change:
    """The config with other fields."""

    def change(path: Path) -> None:
        file = path / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | fields))

    return change


def tokenizer(**fields: object) -> Change:
    def change(path: Path) -> None:
        file = path / "tokenizer.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | fields))

    return change


def text(name: str, content: str | bytes) -> Change:
    def change(path: Path) -> None:
        raw = content if isinstance(content, bytes) else content.encode()
        (path / name).write_bytes(raw)

    return change


def shard(header: bytes, data: bytes = b"", length: int | None = None) -> Change:
    size = len(header) if length is None else length
    return text("model.safetensors", struct.pack("<Q", size) + header + data)


def index(value: object) -> Change:
    return text("model.safetensors.index.json", json.dumps(value))


def tensor(begin: int, end: int, shape: list[int]) -> dict[str, object]:
    return {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}


OVERLAPPING = json.dumps({"a": tensor(0, 8, [2]), "b": tensor(4, 12, [2])}).encode()
BEYOND = json.dumps({"a": tensor(0, 1 << 62, [1 << 60])}).encode()
SHORT = json.dumps({"a": tensor(0, 64, [16])}).encode()

CONFIGS = {
    "nested config": text("config.json", DEEP),
    "nested object": text("config.json", DEEP_OBJECT),
    "nested value": text("config.json", '{"model_type": ' + DEEP),
    "list": text("config.json", "[]"),
    "no UTF-8": text("config.json", b"\xff\xfe\x00"),
    "a huge number": text("config.json", '{"vocab_size": ' + "9" * 10_000 + "}"),
    "layers": config(num_hidden_layers=10**9),
    "layers inside": config(text_config={"num_hidden_layers": 10**9}),
    "negative layers": config(num_hidden_layers=-1),
    "vocabulary": config(vocab_size=10**12),
    "infinite vocabulary": config(vocab_size=float("inf")),
    "hidden": config(hidden_size=10**9),
    "hidden not a number": config(hidden_size=float("nan")),
    "hidden text": config(hidden_size="x"),
    "heads text": config(num_attention_heads="4"),
    "heads object": config(num_attention_heads=[[]]),
    "window text": config(max_position_embeddings="x"),
    "window infinite": config(max_position_embeddings=float("inf")),
    "quantised text": config(quantization_config="x"),
    "quantised list": config(quantization_config=[1]),
    "no heads": config(num_attention_heads=0),
    "no kind": config(model_type=["llama"]),
    "rope text": config(rope_scaling="x", model_type="unknown"),
    "nested generation": text("generation_config.json", DEEP),
    "list generation": text("generation_config.json", "[]"),
}
TOKENIZERS = {
    "nested tokenizer": text("tokenizer.json", DEEP),
    "nested tokenizer value": text("tokenizer.json", '{"model": ' + DEEP_OBJECT),
    "garbage": text("tokenizer.json", bytes(range(256))),
    "list": text("tokenizer.json", "[]"),
    "empty": text("tokenizer.json", "{}"),
    "no model": tokenizer(model=None),
    "model text": tokenizer(model="x"),
    "added text": tokenizer(added_tokens="x"),
    "added numbers": tokenizer(added_tokens=[1]),
    "added without id": tokenizer(added_tokens=[{"content": "x"}]),
    "added huge id": tokenizer(added_tokens=[{"id": 10**12, "content": "x"}]),
    "added negative id": tokenizer(added_tokens=[{"id": -1, "content": "x", "special": True}]),
    "added text id": tokenizer(added_tokens=[{"id": "1", "content": "x"}]),
    "vocabulary list": tokenizer(model={"type": "BPE", "vocab": [], "merges": []}),
    "vocabulary text ids": tokenizer(model={"type": "BPE", "vocab": {"a": "b"}, "merges": []}),
    "vocabulary huge id": tokenizer(model={"type": "BPE", "vocab": {"a": 10**15}, "merges": []}),
    "merges": tokenizer(model={"type": "BPE", "vocab": {"a": 0}, "merges": [["q", "r"]]}),
    "a long merge": tokenizer(model={"type": "BPE", "vocab": {}, "merges": [["q" * 50_000, "r"]]}),
    "decoder": tokenizer(decoder=[[]]),
    "pre-tokenizer": tokenizer(pre_tokenizer={"type": "Split", "pattern": {"Regex": "("}}),
    "nested settings": text("tokenizer_config.json", DEEP),
    "template list": text("tokenizer_config.json", '{"chat_template": [1]}'),
    "template nested": text("chat_template.jinja", "{% if 1 %}" * 500),
}
WEIGHTS = {
    "header of 2^63": shard(b"{}", length=1 << 63),
    "header beyond the file": shard(b"{}", length=1 << 20),
    "nested header": shard(DEEP.encode()),
    "garbage header": shard(b"\xff" * 64),
    "overlapping": shard(OVERLAPPING, b"\0" * 12),
    "beyond": shard(BEYOND, b"\0" * 12),
    "truncated": shard(SHORT, b"\0" * 12),
    "empty": text("model.safetensors", b""),
    "not its weights": shard(json.dumps({"a": tensor(0, 4, [1])}).encode(), b"\0" * 4),
    "index list": index([]),
    "index without map": index({}),
    "index map text": index({"weight_map": "x"}),
    "index numbers": index({"weight_map": {"a": 3}}),
    "index folder": index({"weight_map": {"a": ".."}}),
    "index traversal": index({"weight_map": {"a": "../../../etc/passwd"}}),
    "index absolute": index({"weight_map": {"a": "/etc/passwd"}}),
    "index nested": text("model.safetensors.index.json", '{"weight_map": ' + DEEP_OBJECT),
}


@pytest.fixture
def model(tmp_path: Path) -> EngineConfig:
    return tiny_engine(tmp_path / "model")


def load(config: EngineConfig) -> None:
    """What both processes read of a model."""
    Codec.load(config.model_path)
    load_model(config)


def test_the_folder_itself_is_valid(model: EngineConfig) -> None:
    load(model)


@pytest.mark.parametrize(
    "change",
    [*CONFIGS.values(), *TOKENIZERS.values()],
    ids=[*(f"config: {name}" for name in CONFIGS), *(f"tokenizer: {name}" for name in TOKENIZERS)],
)
def test_a_hostile_folder_is_invalid(model: EngineConfig, change: Change) -> None:
    change(model.model_path)
    with pytest.raises(ModelInvalid) as raised:
        load(model)
    assert raised.value.exit_code == 3
    assert len(raised.value.message) < 2_000


@pytest.mark.parametrize("change", WEIGHTS.values(), ids=WEIGHTS)
def test_hostile_weights_are_invalid(model: EngineConfig, change: Change) -> None:
    if not (model.model_path / "model.safetensors").exists():
        shard(b"{}")(model.model_path)
    change(model.model_path)
    with pytest.raises(ModelInvalid):
        load_model(dataclasses.replace(model, random_weights=False))


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "generation_config.json"])
def test_sizes_are_checked_before_reading(
    model: EngineConfig, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with (model.model_path / name).open("ab") as file:
        file.truncate(model_json.MAX_MODEL_FILE_BYTES + 1)  # a hole: nothing is written
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(ModelInvalid, match="bytes"):
        model_json.read_model_text(model.model_path / name)

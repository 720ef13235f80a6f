"""What is read of a model directory, and what is said when it cannot be."""

import json

import pytest

from agentrt import embedded
from agentrt.base.errors import ModelInvalid
from agentrt.prompt import Codec
from agentrt.prompt.model_files import read_model_files


@pytest.fixture
def model(tmp_path):
    """A model directory with a tokenizer; `write(name, value)` adds a JSON file."""
    tokenizer = (embedded.path() / "tokenizer.json").read_text("utf-8")
    (tmp_path / "tokenizer.json").write_text(tokenizer, "utf-8")

    def write(name, value):
        (tmp_path / name).write_text(value if isinstance(value, str) else json.dumps(value))
        return tmp_path

    return write


@pytest.mark.parametrize(
    ("config", "settings", "window"),
    [
        ({"max_position_embeddings": 4096}, {}, 4096),
        ({"text_config": {"max_position_embeddings": 8192}}, {}, 8192),
        ({"n_positions": 1024}, {"model_max_length": 512}, 1024),
        ({}, {"model_max_length": 512}, 512),
        ({}, {"model_max_length": 1e30}, 0),
    ],
)
def test_window(model, config, settings, window):
    model("config.json", config)
    path = model("tokenizer_config.json", settings)
    assert read_model_files(path).window_tokens == window


def test_every_end_token_is_found(model):
    model("config.json", {"eos_token_id": 7})
    model("generation_config.json", {"eos_token_id": [8, 7, None]})
    path = model("tokenizer_config.json", {"eos_token": {"content": "<|end|>"}})
    files = read_model_files(path)
    assert files.eos_ids == (8, 7)
    assert files.eos_texts == ("<|end|>",)


def test_named_templates(model):
    templates = [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]
    path = model("tokenizer_config.json", {"chat_template": templates})
    assert read_model_files(path).templates == {"default": "a", "tool_use": "b"}


def test_a_template_file_goes_before_the_setting(model):
    model("tokenizer_config.json", {"chat_template": "old"})
    path = model("chat_template.jinja", "new")
    assert read_model_files(path).templates == {"default": "new"}


def test_logits_can_be_wider_than_the_vocabulary(model):
    path = model("config.json", {"vocab_size": 4096, "max_position_embeddings": 64})
    codec = Codec.load(path)
    assert codec.vocab.logits_size == 4096
    assert codec.vocab.size < 4096
    assert codec.window_tokens == 64


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("tokenizer.json", "{", "tokenizer.json is not a tokenizer"),
        ("tokenizer.json", "[]", "tokenizer.json is not a tokenizer"),
        ("tokenizer.json", {"model": {}}, "holds no vocabulary|is not a tokenizer"),
        ("config.json", "nonsense", "config.json is not JSON"),
        ("config.json", [1], "config.json holds no JSON object"),
        ("config.json", {"max_position_embeddings": "many"}, "max_position_embeddings is 'many'"),
        ("config.json", {"vocab_size": 8}, "the tokenizer has .* tokens, the model 8"),
        ("tokenizer_config.json", {"chat_template": 3}, "chat_template is a int"),
        ("tokenizer_config.json", {"chat_template": [{"name": "x"}]}, "has no template"),
        ("chat_template.jinja", "{% for %}", "line 1"),
        ("chat_template.jinja", "x" * 1_000_001, "characters long"),
    ],
)
def test_broken_files_are_named(model, name, value, said):
    path = model(name, value)
    with pytest.raises(ModelInvalid, match=said) as error:
        Codec.load(path)
    assert error.value.hint


def test_a_missing_tokenizer_is_said(tmp_path):
    with pytest.raises(ModelInvalid, match=r"has no tokenizer\.json") as error:
        Codec.load(tmp_path)
    assert "save_pretrained" in error.value.hint


def test_a_missing_directory_is_said(tmp_path):
    with pytest.raises(ModelInvalid, match="is not a directory"):
        Codec.load(tmp_path / "nowhere")


def test_a_tokenizer_that_loses_bytes_is_refused(model):
    tokenizer = json.loads((embedded.path() / "tokenizer.json").read_text("utf-8"))
    tokenizer["decoder"] = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    with pytest.raises(ModelInvalid, match="WordPiece decoder"):
        Codec.load(model("tokenizer.json", tokenizer))

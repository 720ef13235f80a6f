"""Codecs of chat templates with frames of calls of their own, over the embedded vocabulary."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from agentrt import embedded
from agentrt.prompt import Codec
from agentrt.prompt.model_files import ModelFiles

TEMPLATES = Path(__file__).with_name("call_templates")
_GLM = (
    *("[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"),
    *("<|endoftext|>", "<think>", "</think>", "<tool_call>", "</tool_call>"),
    *("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
)
MARKERS = {
    "Qwen3-Coder": ("<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>"),
    "gpt-oss-120b": (
        *("<|start|>", "<|message|>", "<|channel|>", "<|constrain|>"),
        *("<|end|>", "<|return|>", "<|call|>"),
    ),
    "meta-llama-Llama-3.1-8B-Instruct": (
        *("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>"),
        *("<|eot_id|>", "<|eom_id|>", "<|python_tag|>"),
    ),
    "Qwen3.5-4B": (
        *("<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<think>", "</think>"),
        *("<tool_response>", "</tool_response>"),
    ),
    "GLM-4.6": _GLM,
    "GLM-4.7-Flash": _GLM,
    "MiniMax-M2": (
        *("]~!b[", "]~b]", "[e~[", "<think>", "</think>"),
        *("<minimax:tool_call>", "</minimax:tool_call>"),
    ),
    "deepseek-ai-DeepSeek-V3.2": (
        *("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"),
        *("<think>", "</think>", "｜DSML｜"),
    ),
}
"""The special tokens of each model's tokenizer that its template or its answers hold."""

ENDS = {
    "Qwen3-Coder": ("<|im_end|>",),
    "gpt-oss-120b": ("<|return|>", "<|call|>"),
    "meta-llama-Llama-3.1-8B-Instruct": ("<|eot_id|>", "<|eom_id|>"),
    "Qwen3.5-4B": ("<|im_end|>",),
    "GLM-4.6": ("<|endoftext|>", "<|user|>", "<|observation|>"),
    "GLM-4.7-Flash": ("<|endoftext|>", "<|user|>", "<|observation|>"),
    "MiniMax-M2": ("[e~[",),
    "deepseek-ai-DeepSeek-V3.2": ("<｜end▁of▁sentence｜>",),
}
"""The tokens that end an answer, as the model's `generation_config.json` lists them."""


@cache
def call_codec(name: str, folder: Path = TEMPLATES) -> Codec:
    """The codec of a template."""
    tokenizer = json.loads((embedded.path() / "tokenizer.json").read_text("utf-8"))
    known = [*tokenizer["model"]["vocab"].values(), *(t["id"] for t in tokenizer["added_tokens"])]
    added = {token["content"] for token in tokenizer["added_tokens"]}
    missing = [text for text in MARKERS[name] if text not in added]
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    tokenizer["added_tokens"] += [
        {"id": max(known) + 1 + index, "content": text, "special": True, **flags}
        for index, text in enumerate(missing)
    ]
    return Codec(
        ModelFiles(
            path=embedded.path() / name,
            tokenizer_json=json.dumps(tokenizer),
            templates={"default": (folder / f"{name}.jinja").read_text("utf-8")},
            special_texts={"bos_token": MARKERS[name][0], "eos_token": ENDS[name][0]},
            eos_texts=ENDS[name],
        )
    )

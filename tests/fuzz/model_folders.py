"""Mutated model folders: `python tests/fuzz/model_folders.py FIRST COUNT` loads some, under limits.

A line a case says how it ended: loaded, ModelInvalid, or the error that it should not have been.
"""

import faulthandler
import json
import resource
import shutil
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

from agentrt import embedded
from agentrt.base.config import EngineConfig
from agentrt.base.errors import ModelInvalid
from agentrt.engine.models.loader import load_model
from agentrt.prompt import Codec
from tests.fuzz.rounds import SEED, dice_of

MEMORY_BYTES = 3 << 30
PATIENCE_S = 60
ODD: tuple[Any, ...] = (
    *(
        None,
        True,
        0,
        1,
        -1,
        3,
        2**31,
        2**63,
        10**12,
        10**400,
        0.5,
        1e308,
        float("nan"),
        float("inf"),
    ),
    *(
        "",
        "x",
        "\ud800",
        "auto",
        "../x",
        "http://x",
        "BPE",
        "Split",
        "(",
        "(?=a)",
        ".*" * 50,
        "llama",
    ),
    *(
        [],
        {},
        [[]],
        [1],
        ["x"],
        {"a": 1},
        [{"id": 1}],
        {"type": "Split", "pattern": {"Regex": "("}},
    ),
    *(
        {"type": "Replace", "pattern": {"String": ""}, "content": "x" * 1_000},
        ["x"] * 2_000,
        [None],
    ),
)
FIELDS: dict[str, tuple[str, ...]] = {
    "config.json": (
        *("architectures", "model_type", "vocab_size", "hidden_size", "intermediate_size", "dtype"),
        *(
            "num_hidden_layers",
            "num_attention_heads",
            "num_key_value_heads",
            "head_dim",
            "bos_token_id",
        ),
        *(
            "max_position_embeddings",
            "rms_norm_eps",
            "hidden_act",
            "tie_word_embeddings",
            "auto_map",
        ),
        *("rope_theta", "rope_scaling", "rope_parameters", "sliding_window", "attention_bias"),
        *(
            "quantization_config",
            "text_config",
            "layer_types",
            "eos_token_id",
            "mlp_bias",
            "torch_dtype",
        ),
    ),
    "tokenizer.json": (
        *("model", "added_tokens", "decoder", "pre_tokenizer", "normalizer", "post_processor"),
        *("truncation", "padding", "version"),
    ),
    "tokenizer_config.json": (
        *("chat_template", "eos_token", "bos_token", "tokenizer_class", "added_tokens_decoder"),
        *("extra_special_tokens", "model_max_length", "add_bos_token"),
    ),
    "generation_config.json": (
        "eos_token_id",
        "temperature",
        "top_k",
        "max_length",
        "pad_token_id",
    ),
}
TEMPLATE_PIECES = (
    *(
        "{{ messages }}",
        "{% for m in messages %}",
        "{% endfor %}",
        "{{ m.content ~ m.content }}",
        "{%",
    ),
    *(
        "{% set s = 'x' * 99999 %}",
        "{{ s * 99999 }}",
        "{{ [].__class__ }}",
        "{{ 10 ** 99999 }}",
        "}}",
    ),
    *(
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% include 'x' %}",
        "{{ range(10**9) | list }}",
    ),
    *("{% if tools %}", "{% endif %}", "{{ raise_exception('x') }}", "{{ 1 // 0 }}", "\x00", "{#"),
)


def random_change(dice: Random, folder: Path) -> None:
    """Change something in a valid folder."""
    dice.choice(CHANGES)(dice, folder)


def spoil_fields(dice: Random, folder: Path) -> None:
    """Odd values in known fields of a JSON file."""
    name = dice.choice(("config.json", "config.json", "config.json", *FIELDS))
    value = json.loads((folder / name).read_text("utf-8"))
    for _ in range(dice.choice((1, 1, 2, 4))):
        value[dice.choice(FIELDS[name])] = deepcopy(dice.choice(ODD))
    (folder / name).write_bytes(json.dumps(value).encode("utf-8", "surrogatepass"))


def spoil_inside(dice: Random, folder: Path) -> None:
    """An odd value, anywhere inside the tokenizer or its settings."""
    name = dice.choice(("tokenizer.json", "tokenizer.json", "tokenizer_config.json"))
    value = json.loads((folder / name).read_text("utf-8"))
    for _ in range(dice.choice((1, 1, 3))):
        here: Any = value
        while True:
            keys = list(here) if isinstance(here, dict) else list(range(len(here)))
            key = dice.choice(keys) if keys else None
            if key is None or not isinstance(here[key], dict | list) or dice.random() < 0.1:
                break
            here = here[key]
        if key is not None and dice.random() < 0.8:
            here[key] = deepcopy(dice.choice(ODD))
        elif key is not None:
            del here[key]
    (folder / name).write_bytes(json.dumps(value).encode("utf-8", "surrogatepass"))


def spoil_bytes(dice: Random, folder: Path) -> None:
    """A file cut, emptied, replaced, or with other bytes in it."""
    path = folder / dice.choice((*FIELDS, "chat_template.jinja"))
    content = path.read_bytes()
    at = dice.randrange(len(content))
    match dice.randrange(5):
        case 0:
            content = content[:at]
        case 1:
            content = (
                content[:at] + dice.choice((b"\xff", b"\x00", b"}", b"[" * 50_000)) + content[at:]
            )
        case 2:
            content = dice.choice((b"", b"null", b"[]", b"{}", b"3", b'"x"', dice.randbytes(99)))
        case 3:
            content = dice.choice((b"[", b'{"a":')) * 50_000
        case 4:
            path.unlink()
            return
    path.write_bytes(content)


def spoil_template(dice: Random, folder: Path) -> None:
    """A chat template of random pieces."""
    text = "".join(dice.choices(TEMPLATE_PIECES, k=dice.randint(1, 6)))
    (folder / "chat_template.jinja").write_text(text, "utf-8")


def spoil_weights(dice: Random, folder: Path) -> None:
    """A header of the weights that lies, or none at all."""
    path = folder / "model.safetensors"
    content = path.read_bytes()
    (size,) = struct.unpack_from("<Q", content)
    header, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    for _ in range(dice.choice((1, 1, 3))):
        name = dice.choice([name for name in header if name != "__metadata__"])
        match dice.randrange(5):
            case 0:
                header[name] = deepcopy(dice.choice(ODD))
            case 1:
                header[name]["data_offsets"] = dice.choice(
                    ([0, 1 << 62], [5, 1], [-4, 4], [0, 4], ["a", 2], [0], [1 << 63, 1 << 64])
                )
            case 2:
                header[name]["shape"] = dice.choice(
                    ([], [-1], [1 << 40, 1 << 40], [0], ["x"], [2, 2])
                )
            case 3:
                header[name]["dtype"] = dice.choice(("F64", "I8", "X", 3, "F8_E4M3", "BOOL"))
            case 4:
                header[dice.choice(("x" * 9_000, "a", "\ud800"))] = header.pop(name)
    text = json.dumps(header).encode("utf-8", "surrogatepass")
    length = dice.choice((len(text),) * 6 + (0, 1, len(text) - 1, 1 << 20, 1 << 63))
    data = data[: dice.choice((len(data),) * 4 + (0, 100))]
    path.write_bytes(struct.pack("<Q", length) + text + data)


def spoil_index(dice: Random, folder: Path) -> None:
    """An index of shards that names what is not there."""
    names = (
        "model.safetensors",
        "..",
        "/etc/passwd",
        "",
        "a" * 300,
        3,
        None,
        "config.json",
        "\x00",
    )
    weights = {f"w{at}": dice.choice(names) for at in range(3)}
    value: Any = dice.choice(
        ({"weight_map": weights}, weights, [], {"weight_map": dice.choice(ODD)})
    )
    text = json.dumps(value).encode("utf-8", "surrogatepass")
    (folder / "model.safetensors.index.json").write_bytes(text)


Change = Callable[[Random, Path], None]
CHANGES: tuple[Change, ...] = (
    *(spoil_fields, spoil_fields, spoil_inside, spoil_inside, spoil_bytes),
    *(spoil_template, spoil_weights, spoil_index),
)


def outcome(folder: Path) -> str:
    """How loading a folder ends, in one line."""
    try:
        Codec.load(folder)
        load_model(EngineConfig(folder, threads=1, kv_pages=64))
    except ModelInvalid as error:
        return "invalid" if len(error.message) < 2_000 else "a long message"
    except BaseException as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        return (
            f"{type(error).__name__}: {str(error)[:200]!r} at {Path(at.filename).name}:{at.lineno}"
        )
    return "loaded"


def main() -> None:
    first, count = int(sys.argv[1]), int(sys.argv[2])
    load_model(EngineConfig(embedded.path(), threads=1, kv_pages=64))  # what it takes is mapped
    pages = int(Path("/proc/self/statm").read_text("utf-8").split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY_BYTES,) * 2)
    for case in range(first, first + count):
        with tempfile.TemporaryDirectory() as parent:
            folder = Path(shutil.copytree(embedded.path(), Path(parent) / "model"))
            random_change(dice_of(case), folder)
            faulthandler.dump_traceback_later(PATIENCE_S, exit=True)
            began_s = time.monotonic()
            ended = outcome(folder)
            faulthandler.cancel_dump_traceback_later()
        took_s = round(time.monotonic() - began_s, 2)
        sys.stdout.write(json.dumps({"case": case, "seed": SEED, "end": ended, "s": took_s}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

"""`agentrt eval --logits`: a coarse layer of a packed model is found, and an equal pair passes."""

import json
from pathlib import Path

import pytest

from agentrt import embedded
from tests.engine.lora_checkpoints import save_adapter
from tests.evaluation.conftest import Command
from tests.evaluation.packed_model import write_packed
from tests.syntax import ROOT

TEXT = ROOT / "examples" / "embedded_model" / "held_out" / "blind.jsonl"
FEW = ("--chunk-tokens", "128", "--limit", "24")
LIMITS = (
    *("--fail-if", "perplexity>+1%", "--fail-if", "kl_mean>0.01", "--fail-if", "kl_p99>0.1"),
    *("--fail-if", "top1<95%", "--fail-if", "layer_error>5%"),
)


@pytest.mark.usefixtures("_native")
def test_a_layer_with_two_bits_is_found_and_an_equal_pair_passes(
    evaluate: Command, tmp_path: Path
) -> None:
    write_packed(tmp_path / "whole.gguf")
    write_packed(tmp_path / "coarse.gguf", two_bits=2)
    (tmp_path / "same.toml").write_text('model = "whole.gguf"\nmax_running = 8\n')
    logits = ("--logits", str(TEXT), *FEW, *LIMITS, "--json", "told.json", "--html", "told.html")
    code, out, _ = evaluate(*logits, "--configs", "whole.gguf,coarse.gguf,same.toml")
    told = json.loads(Path("told.json").read_text())
    coarse, same = (one["against_first"] for one in told["configs"][1:])
    assert code == 6
    assert len(told["crossed"]) == 5, out
    assert all(line.startswith("coarse.gguf: ") for line in told["crossed"])
    assert coarse["perplexity_change"]["low"] > 0
    assert coarse["kl_mean"]["low"] > 0.01
    assert coarse["largest_rise"] == "model.layers.2"
    assert coarse["layers"]["model.layers.1"]["value"] == 0  # before it all is the same
    assert "its error rises most at model.layers.2" in out
    assert same["kl_max"] == 0
    assert same["perplexity_change"] == {"value": 0, "low": 0, "high": 0}
    assert same["top1"]["value"] == 1
    assert "https://" not in Path("told.html").read_text()
    assert evaluate(*logits, "--configs", "whole.gguf,same.toml")[0] == 0


@pytest.mark.usefixtures("_native")
def test_formats_and_kernels_of_one_checkpoint_are_told_apart(
    evaluate: Command, tmp_path: Path
) -> None:
    for name, setting in (
        ("reference", 'kernels = "torch"'),
        ("int8", 'weights = "int8"'),
        ("int4", 'weights = "int4"'),
        ("kv", 'kv_cache_dtype = "int8"'),
        ("kv_floats", 'kv_cache_dtype = "fp8"'),
    ):
        (tmp_path / f"{name}.toml").write_text(f"{setting}\n")
    files = "embedded,reference.toml,int8.toml,int4.toml,kv.toml,kv_floats.toml"
    argv = ("--logits", str(TEXT), *FEW, "--configs", files, "--json", "told.json")
    code, out, _ = evaluate(*argv)
    told = json.loads(Path("told.json").read_text())["configs"]
    reference, int8, int4, kv, kv_floats = (one["against_first"] for one in told[1:])
    assert code == 0, out
    assert 0 < reference["kl_mean"]["value"] < 1e-6
    assert reference["layers"]["model.layers.5"]["value"] < 1e-4
    assert reference["kl_mean"]["value"] < int8["kl_mean"]["low"]
    assert int8["kl_mean"]["high"] < int4["kl_mean"]["low"]
    assert int8["top1"]["value"] > int4["top1"]["value"]
    assert reference["kl_mean"]["value"] < kv["kl_mean"]["low"]
    assert kv["kl_mean"]["high"] < kv_floats["kl_mean"]["low"]
    assert kv["layers"]["model.layers.0"]["low"] > 0


@pytest.mark.usefixtures("_native")
def test_an_adapter_is_compared_with_its_base(evaluate: Command, tmp_path: Path) -> None:
    save_adapter(embedded.path(), tmp_path / "tone", targets=("down_proj",), size=0.01)
    (tmp_path / "tone.toml").write_text('adapters = { tone = "tone" }\n')
    argv = ("--logits", str(TEXT), *FEW, "--configs", "embedded,tone.toml", "--json", "told.json")
    code, out, err = evaluate(*argv)
    assert code == 0, err
    change = json.loads(Path("told.json").read_text())["configs"][1]["against_first"]
    assert change["kl_mean"]["low"] > 0, out
    assert 0 < change["layers"]["model.layers.0"]["value"] < 1


def test_one_configuration_has_a_perplexity(evaluate: Command) -> None:
    argv = ("--logits", str(TEXT), *FEW, "--configs", "embedded")
    code, out, _ = evaluate(*argv, "--fail-if", "perplexity>100000")
    assert (code, "24 chunks of 128 tokens, 1512 tokens scored" in out) == (0, True)
    assert evaluate(*argv, "--fail-if", "perplexity>1")[0] == 6


@pytest.mark.parametrize(
    ("argv", "part"),
    [
        ((), "was given nothing to run"),
        (("suite", "--logits", "short.txt"), "both a suite and --logits"),
        (("--logits", "short.txt", "--resume", "rows.jsonl"), "--resume is for suites"),
        (("--logits", "short.txt"), "short.txt has 0 chunks of 512 tokens"),
        (("--logits", "absent.txt"), "absent.txt cannot be read"),
        (("--logits", "bytes.txt"), "bytes.txt cannot be read"),
        (("--logits", "long.txt", "--chunk-tokens", "5000"), "longer than the 4096"),
        (("--logits", str(TEXT), "--configs", "absent.gguf"), "there is no file absent.gguf"),
        (("--logits", str(TEXT), "--configs", "http://127.0.0.1:1"), "is a remote engine"),
        (("--logits", str(TEXT), "--fail-if", "kl_mean>0.1"), "compares with the first"),
        (("--logits", str(TEXT), "--fail-if", "accuracy<9%"), "it is one of perplexity"),
        (("--logits", str(TEXT), "--fail-if", "kl_mean>+1%"), "leave out the sign: kl_mean>1%"),
        (("--logits", str(TEXT), "--fail-if", "perplexity>3%"), "perplexity is given in a plain"),
    ],
)
def test_bad_input_is_one_error(evaluate: Command, argv: tuple[str, ...], part: str) -> None:
    Path("short.txt").write_text("A few words.\n")
    Path("long.txt").write_text("A few words.\n" * 2000)
    Path("bytes.txt").write_bytes(b"\xff\xfe" * 9)
    code, out, err = evaluate(*argv)
    assert (code, out) == (2, "")
    assert part in err


def test_other_tokenizers_are_refused(evaluate: Command, tmp_path: Path) -> None:
    write_packed(tmp_path / "packed.gguf")
    other = tmp_path / "packed"
    tokenizer = json.loads((other / "tokenizer.json").read_text())
    first, second, *rest = tokenizer["model"]["merges"]
    tokenizer["model"]["merges"] = [second, first, *rest[:200]]
    (other / "tokenizer.json").write_text(json.dumps(tokenizer))
    code, out, err = evaluate("--logits", str(TEXT), *FEW, "--configs", "embedded,packed")
    assert (code, out) == (2, "")
    assert "packed has another tokenizer than embedded" in err

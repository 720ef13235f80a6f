"""The file of a tuning: what it changes, what it keeps, and what it reads as."""

from dataclasses import replace
from pathlib import Path

from agentrt.base.config import EngineConfig
from agentrt.base.engine_selection import EngineSelection
from agentrt.base.engines.engine_file import read_engine_file
from agentrt.lab.tuning.tuned_file import tuned_text

BEFORE = """\
# agentrt tune: of last week
# ours
[engines.large]  # the strong one
kind = "vllm"
address = "http://h:1"
tokenizer = "tokens"

[engines.embedded]
weights = "int8"  # for now
draft_model = "draft"
speculate_tokens = "auto"
adapters = { judge = "j" }

[roles]
planner = "large"
"""


def test_a_file_reads_as_what_was_chosen_and_keeps_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "agentrt.toml"
    path.write_text(BEFORE)
    file = read_engine_file(path)
    now = EngineSelection("embedded").settings(file, Path("m"))
    assert isinstance(now, EngineConfig)
    chosen = replace(
        now, weights="checkpoint", kv_cache_dtype="int8", speculate_tokens="off", draft_model=None
    )
    text, _ = tuned_text(
        BEFORE, ["of today"], embedded=(now, chosen), roles={"planner": "embedded", "x": "large"}
    )
    path.write_text(text)
    after = read_engine_file(path)
    assert EngineSelection("embedded").settings(after, Path("m")) == chosen
    assert after.roles == {"planner": "embedded", "x": "large"}
    assert after.engines == file.engines
    assert text.startswith("# agentrt tune: of today\n# ours\n[engines.large]  # the strong one\n")
    assert "last week" not in text


def test_paths_are_absolute_in_another_folder(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        folder.mkdir()
    (old / "agentrt.toml").write_text(BEFORE)
    text, _ = tuned_text(BEFORE, [], embedded=None, roles={}, moved=old)
    (new / "agentrt.toml").write_text(text)
    files = [read_engine_file(folder / "agentrt.toml") for folder in (old, new)]
    assert files[0].engines == files[1].engines
    assert files[0].embedded_formats == files[1].embedded_formats


def test_a_new_file_has_the_changes_alone() -> None:
    now = EngineConfig(Path("m"))
    chosen = replace(now, model_path=Path("/other"), max_running=8)
    text, kept = tuned_text("", [], embedded=(now, chosen), roles={"default": "large"})
    assert text == (
        '[engines.embedded]\nmax_running = 8\nmodel = "/other"\n\n[roles]\ndefault = "large"\n'
    )
    assert kept.in_words() == ""
    text, _ = tuned_text("", ["all stays"], embedded=(now, now), roles={})
    assert text == "# agentrt tune: all stays\n"

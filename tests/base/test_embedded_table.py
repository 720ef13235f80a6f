"""Settings of the embedded engine in `agentrt.toml`: model, drafts, sizes of a step."""

from pathlib import Path

import pytest

from agentrt.base.config import EngineConfig
from agentrt.base.engine_selection import EngineSelection, with_drafts
from agentrt.base.engines.engine_file import read_engine_file
from agentrt.base.errors import UsageError

OTHER = Path("other")


def in_file(folder: Path, text: str, selection: EngineSelection | None = None) -> EngineConfig:
    path = folder / "agentrt.toml"
    path.write_text(f"[engines.embedded]\n{text}", encoding="utf-8")
    config = (selection or EngineSelection()).settings(read_engine_file(path), OTHER)
    assert isinstance(config, EngineConfig)
    return config


def test_the_file_names_model_drafts_and_sizes(tmp_path: Path) -> None:
    text = (
        'model = "m"\nspeculate_tokens = 8\ndraft_model = "/d"\nmax_running = 4\ndtype = "float32"'
    )
    config = in_file(tmp_path, text)
    assert config == EngineConfig(
        tmp_path / "m",
        speculate_tokens=8,
        draft_model=Path("/d"),
        max_running=4,
        dtype="float32",
    )
    assert in_file(tmp_path, text, EngineSelection(model="own")).model_path == Path("own")
    assert in_file(tmp_path, "threads = 1").model_path == OTHER


def test_flags_go_before_the_file(tmp_path: Path) -> None:
    config = in_file(tmp_path, 'speculate_tokens = "auto"\ndraft_model = "d"')
    assert with_drafts(config, None, None) == config
    assert with_drafts(config, "4", None).draft_model == tmp_path / "d"
    off = with_drafts(config, "off", None)
    assert (off.speculate_tokens, off.draft_model) == ("off", None)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('speculate_tokens = "much"', "embedded.speculate_tokens = 'much' is no value of it"),
        ("max_running = -1", "embedded.max_running = -1 is no value of it"),
        ("model = 8", "embedded.model is an integer"),
        ('draft_model = "d"', "embedded.draft_model drafts nothing without speculate_tokens"),
    ],
)
def test_other_values_are_refused(text: str, part: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=part):
        in_file(tmp_path, text)

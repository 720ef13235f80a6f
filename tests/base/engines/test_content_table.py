"""What is kept is said by a flag, by a variable, or in agentrt.toml, in this order."""

from pathlib import Path

import pytest

from agentrt.base.content_config import ContentConfig
from agentrt.base.engines.engine_file import read_engine_file
from agentrt.base.engines.kept_content import content_config
from agentrt.base.errors import UsageError


def file_of(folder: Path, text: str) -> Path:
    path = folder / "agentrt.toml"
    path.write_text(text, "utf-8")
    return path


def test_a_file_sets_all(tmp_path: Path) -> None:
    path = file_of(tmp_path, "[content]\nkeep = 'spans'\nmax_run_bytes = 2000\n")
    assert read_engine_file(path).content == ContentConfig("spans", max_run_bytes=2000)
    assert read_engine_file(file_of(tmp_path, "")).content is None


def test_flag_before_variable_before_file(tmp_path: Path) -> None:
    place = {"AGENTRT_CONFIG": str(file_of(tmp_path, "[content]\nkeep = 'off'\n"))}
    assert content_config(place).keep == "off"
    assert content_config(place | {"AGENTRT_CONTENT": "spans"}).keep == "spans"
    assert content_config(place | {"AGENTRT_CONTENT": "spans"}, "transcript").keep == "transcript"
    place = {"AGENTRT_CONFIG": str(file_of(tmp_path, ""))}
    assert content_config(place).keep is None


WRONG = {
    "[content]\nkept = 'off'": r"content: 'kept' is no setting of it \(did you mean keep\?\)",
    "[content]\nkeep = 1": "content: keep is an integer",
    "[content]\nkeep = 'all'": "content: keep = 'all' is no place for content",
    "[content]\nmax_run_bytes = true": "content: max_run_bytes is true or false",
    "[content]\nmax_run_bytes = 10": "content: max_run_bytes=10 is too small",
    "content = 'off'": "content is no table",
    "[contents]": r"'contents' is no part of it \(did you mean content\?\)",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_told(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match=WRONG[text]) as refused:
        read_engine_file(file_of(tmp_path, text))
    assert str(tmp_path) in refused.value.message


def test_an_unknown_choice_names_where_it_was_made(tmp_path: Path) -> None:
    place = {"AGENTRT_CONFIG": str(file_of(tmp_path, ""))}
    with pytest.raises(UsageError, match="--content 'all' is no place"):
        content_config(place, "all")
    with pytest.raises(UsageError, match="AGENTRT_CONTENT= 'yes' is no place"):
        content_config(place | {"AGENTRT_CONTENT": "yes"})

"""The user's folders: where variables name them, and what they are otherwise."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

import pytest

from agentrt.base.errors import UsageError
from agentrt.base.user_folders import cache_folder, config_folder, state_folder

Folder = Callable[[Mapping[str, str]], Path]
FOLDERS = [
    (state_folder, "XDG_STATE_HOME", ".local/state"),
    (config_folder, "XDG_CONFIG_HOME", ".config"),
    (cache_folder, "XDG_CACHE_HOME", ".cache"),
]


@pytest.mark.parametrize(("folder", "variable", "usual"), FOLDERS)
def test_a_variable_names_the_folder_if_its_path_is_absolute(
    folder: Folder, variable: str, usual: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert folder({variable: " /elsewhere "}) == Path("/elsewhere/agentrt")
    for ignored in ("", "  ", "here", "./here"):
        assert folder({variable: ignored}) == Path("/home/ada", usual, "agentrt")
    assert folder({}) == Path("/home/ada", usual, "agentrt")


@pytest.mark.parametrize(("folder", "variable", "usual"), FOLDERS)
def test_a_user_without_a_home_is_told_what_to_set(
    folder: Folder, variable: str, usual: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(number: int) -> NoReturn:
        raise KeyError(number)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", nobody)
    with pytest.raises(UsageError, match=f"no home directory, and {variable}") as caught:
        folder({})
    assert caught.value.hint == f"Set HOME, or {variable}"
    assert folder({variable: "/named"}) == Path("/named/agentrt")

"""A file that is written over keeps what the new one lacks, and every loss is named."""

from typing import Any

import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from agentrt.lab.tuning.kept_tables import keep_tables

NEW = """\
# measured
[engines.large]
kind = "vllm"
address = "http://h:1"

[roles]
planner = "large"
"""
OLD = """\
[engines.large]  # another one
kind = "vllm"
address = "http://h:2"

[engines.small]  # quick
kind = "vllm"
address = "http://h:3"
[engines.small.prices]
device_second = 1

[engines.embedded]
weights = "int8"

[roles]
default = "small"
planner = "large"
judge = "small"

[content]
keep = "all"

[mcp.files]
command = ["files"]
"""


def test_what_only_the_old_file_has_stays_with_its_comments() -> None:
    document = tomlkit.parse(NEW)
    found = keep_tables(document, OLD)
    assert found.kept == ("engines.small", "roles.judge", "mcp.files", "content")
    assert found.replaced == ("engines.large", "engines.embedded", "roles.default")
    text = tomlkit.dumps(document)
    assert text.startswith("# measured\n")
    assert "[engines.small]  # quick" in text
    read = tomlkit.parse(text).unwrap()
    old = tomlkit.parse(OLD).unwrap()
    assert read["engines"] == {
        "large": {"kind": "vllm", "address": "http://h:1"},
        "small": old["engines"]["small"],
    }
    assert read["roles"] == {"planner": "large", "judge": "small"}
    assert read["mcp"] == old["mcp"]
    assert read["content"] == old["content"]


def test_tables_in_a_line_and_out_of_order_stay_too() -> None:
    old = '[engines.b]\nkind = "x"\n[mcp.m]\ncommand = "c"\n[engines.c]\nkind = "y"\n'
    document = tomlkit.parse("[content]\nkeep = 1\n")
    keep_tables(document, old)
    keep_tables(document, 'engines = { d = { kind = "z" } }\nroles = { judge = "d" }\n')
    read = tomlkit.parse(tomlkit.dumps(document)).unwrap()
    assert read["engines"] == {"b": {"kind": "x"}, "c": {"kind": "y"}, "d": {"kind": "z"}}
    assert read["roles"] == {"judge": "d"}
    assert read["mcp"] == {"m": {"command": "c"}}


_TABLES = st.dictionaries(
    st.sampled_from(["a", "b", "c", "embedded"]),
    st.dictionaries(st.sampled_from(["kind", "address"]), st.sampled_from(["x", "y"]), min_size=1),
)
_FILES = st.fixed_dictionaries(
    {},
    optional={
        "engines": _TABLES,
        "roles": st.dictionaries(st.sampled_from(["default", "p", "q"]), st.just("a")),
        "mcp": _TABLES,
    },
)


@given(new=_FILES, old=_FILES)
def test_no_table_is_lost_without_a_word(new: Any, old: Any) -> None:
    document = tomlkit.parse(tomlkit.dumps(new))
    found = keep_tables(document, tomlkit.dumps(old))
    read = tomlkit.parse(tomlkit.dumps(document)).unwrap()
    for part, tables in new.items():
        for name, table in tables.items():
            assert read[part][name] == table
    for part, tables in old.items():
        for name, table in tables.items():
            is_there = read.get(part, {}).get(name) == table
            assert is_there or f"{part}.{name}" in found.replaced
            assert not (is_there and f"{part}.{name}" in found.replaced)

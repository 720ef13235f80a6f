"""Sizes of memory as people write them."""

import pytest

from agentrt.base.byte_size import byte_size


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 1),
        ("4096", 4096),
        ("12B", 12),
        ("1KB", 1000),
        ("1KiB", 1024),
        (" 1.5 GB ", 1_500_000_000),
        ("2GiB", 2 << 30),
        ("3TiB", 3 << 40),
    ],
)
def test_sizes_are_read(text, expected):
    assert byte_size(text) == expected


@pytest.mark.parametrize("text", ["", "0", "0.4B", "GiB", "2G", "2gib", "-1GB", "2 GiB each"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="is no"):
        byte_size(text)

"""The pause of garbage collection: it is off in the block, and as it was behind it."""

import gc

import pytest

from agentrt import embedded
from agentrt.base.gc_pause import gc_pause
from agentrt.prompt import Codec


@pytest.fixture
def collecting():
    yield
    gc.enable()


@pytest.mark.parametrize("is_on", [True, False])
def test_collection_is_afterwards_what_it_was(is_on, collecting):
    (gc.enable if is_on else gc.disable)()
    with pytest.raises(ValueError, match="broken"):
        paused_and_broken()
    assert gc.isenabled() == is_on


def paused_and_broken():
    with gc_pause():
        with gc_pause():
            assert not gc.isenabled()
        assert not gc.isenabled()
        raise ValueError("broken")


def test_a_codec_is_read_without_a_collection(collecting):
    gc.enable()
    before = gc.get_threshold()
    gc.set_threshold(100)
    try:
        started = collections()
        Codec.load(embedded.path())
        assert collections() - started < 20  # reading it makes thousands of lists
    finally:
        gc.set_threshold(*before)


def collections() -> int:
    return sum(generation["collections"] for generation in gc.get_stats())

"""vLLM's own publisher of KV events, followed: its form on the wire is read as it is."""

import socket
import subprocess
from collections.abc import Sequence

import anyio
import pytest

from agentrt import embedded
from agentrt.base.engines.kv_events import KvEvents
from agentrt.lab.arms.peer_files import peer_files
from agentrt.remote.fleet.kv_subscription import KvSubscription, SubscriptionTimes
from agentrt.scheduler.placement.held_blocks import (
    ClearedBlocks,
    KvEvent,
    RemovedBlocks,
    StoredBlocks,
)

pytest.importorskip("zmq", reason="ZeroMQ is not installed: pip install 'agentrt[kv-events]'")
pytestmark = pytest.mark.peers

PUBLISHER = """
import sys
from vllm.distributed.kv_events import *
one = ZmqEventPublisher(0, endpoint=sys.argv[1], replay_endpoint=sys.argv[2], topic="kv")
row = dict(block_hashes=[b"a" * 32, b"b" * 32], token_ids=[5, 6, 7, 8], block_size=2)
row |= dict(parent_block_hash=None, lora_id=None, lora_name=None, medium="GPU", group_idx=0)
salted = dict(extra_keys=[("tenant",), None], kv_cache_spec_kind="full_attention")
one.publish(KVEventBatch(ts=1.0, events=[BlockStored(**row, **salted)]))
lost = BlockRemoved(block_hashes=[b"b" * 32], medium="GPU", group_idx=0)
one.publish(KVEventBatch(ts=2.0, events=[lost, AllBlocksCleared()]))
print("published", flush=True)
sys.stdin.readline()
one.publish(KVEventBatch(ts=3.0, events=[BlockStored(**row)]))
sys.stdin.readline()
"""
EXPECTED = [
    StoredBlocks((b"a" * 32, b"b" * 32), None, (5, 6, 7, 8), "tenant"),
    RemovedBlocks((b"b" * 32,)),
    ClearedBlocks(),
    StoredBlocks((b"a" * 32, b"b" * 32), None, (5, 6, 7, 8)),
]


def free_ports() -> list[int]:
    with socket.create_server(("", 0)) as one, socket.create_server(("", 0)) as other:
        return [one.getsockname()[1], other.getsockname()[1]]


async def followed(source: KvEvents, publisher: "subprocess.Popen[str]") -> list[KvEvent]:
    """The events of before the subscription, and one that is published after these came."""
    found: list[KvEvent] = []
    came = anyio.Event()

    def note(events: Sequence[KvEvent]) -> None:
        found.extend(events)
        if found == EXPECTED[:3]:
            assert publisher.stdin is not None
            publisher.stdin.write("\n")
            publisher.stdin.flush()
        elif len(found) >= len(EXPECTED):
            came.set()

    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            times = SubscriptionTimes(join_s=60.0, answer_s=60.0)
            tasks.start_soon(KvSubscription("vLLM", source, note, times).run)
            await came.wait()
            tasks.cancel_scope.cancel()
    return found


def test_events_of_vllm_are_read() -> None:
    python = peer_files(embedded.path()).vllm_program.with_name("python")
    if not python.exists():
        pytest.skip("vLLM is not installed: make peers-vllm")
    ports = free_ports()
    bound = [f"tcp://*:{port}" for port in ports]
    with subprocess.Popen(
        [python, "-c", PUBLISHER, *bound],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin"},
        text=True,
    ) as publisher:
        assert publisher.stdout is not None
        while "published" not in (line := publisher.stdout.readline()):
            assert line, "the publisher ended"
        source = KvEvents(*(f"tcp://127.0.0.1:{port}" for port in ports))
        assert anyio.run(followed, source, publisher) == EXPECTED
        publisher.terminate()

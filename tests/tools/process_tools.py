"""Functions that run in processes of their own; the tests next door call them."""

import ctypes
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentrt import idempotency_key, tool


@dataclass(frozen=True)
class Trade:
    symbol: str
    cents: int


@tool(effects="read", process=True)
def double(trade: Trade, factor: int = 2) -> Trade:
    print("printed")
    return Trade(trade.symbol, factor * trade.cents)


def pid() -> int:
    return os.getpid()


async def pid_on_a_loop() -> int:
    return os.getpid()


def fails(how: str) -> str:
    match how:
        case "raise":
            raise ValueError("no such row")
        case "exit":
            os._exit(7)
        case "sys.exit":
            sys.exit("done")
        case "segfault":
            ctypes.string_at(0)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "memory":
            return str(len(bytearray(4_000_000_000)))
        case "nan":
            return "\ud800"
    raise AssertionError(how)


def any_value() -> Any:
    return (1, 2)


def large(n: int) -> str:
    return "x" * n


def variables(names: list[str]) -> list[str]:
    return [os.environ.get(name, "") for name in names]


def holds(folder: str) -> str:
    """Begins, and goes on until it is told to end."""
    Path(folder, "begun").write_text(str(os.getpid()))
    while not Path(folder, "go").exists():
        time.sleep(0.01)
    Path(folder, "done").touch()
    return "receipt"


def leaves_a_thread() -> str:
    threading.Thread(target=threading.Event().wait).start()
    return "done"


def no_result_type(x: int):
    return x


def odd_result() -> threading.Lock:
    return threading.Lock()


def odd_argument(lock: threading.Lock) -> str:
    return str(lock)


def key() -> str:
    return idempotency_key()

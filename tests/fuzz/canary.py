"""A client in order beside others that are not: `python tests/fuzz/canary.py PORT SECONDS`.

One valid request is sent each so many seconds, whatever became of the one before. A line each says
how long it took and whether it was answered. It ends when its input does.
"""

import select
import socket
import sys
import threading
import time

PATIENCE_S = 60
BODY = (
    b'{"model":"tiny","max_tokens":1,"temperature":0,"messages":[{"role":"user","content":"Hi"}]}'
)
REQUEST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(BODY)
) + BODY


def ask(port: int) -> None:
    began_s = time.monotonic()
    answer = b""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as one:
            one.sendall(REQUEST)
            while piece := one.recv(65_536):
                answer += piece
    except OSError as error:
        answer = repr(error).encode()
    took_s = time.monotonic() - began_s
    is_answered = answer.startswith(b"HTTP/1.1 200 ") and b'"choices"' in answer
    sys.stdout.write(f"{took_s} {int(is_answered)}\n")


def main() -> None:
    port, every_s = int(sys.argv[1]), float(sys.argv[2])
    asking = []
    while not select.select([sys.stdin], [], [], every_s)[0]:
        asking.append(threading.Thread(target=ask, args=(port,)))
        asking[-1].start()
    for one in asking:
        one.join()


if __name__ == "__main__":
    main()

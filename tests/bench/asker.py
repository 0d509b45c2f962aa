"""`python -m tests.bench.asker PORT PATHS CONNECTIONS REQUESTS`: asks over HTTP as fast as answers come.

PATHS, with spaces between them, are asked in turn (by POST where one has a percent-encoded body behind a "#"), on kept
connections, without an HTTP library, so that what is
measured is the server. Prints the milliseconds of each request and the seconds of all, as JSON; fails on any answer but
a 200.
"""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from urllib.parse import unquote_to_bytes


async def ask(port: int, paths: Sequence[str], connections: int, requests: int) -> tuple[list[float], float]:
    """The times of the requests, and of all of them."""
    numbers = iter(range(requests))
    asked = [_request(path) for path in paths]
    taken: list[float] = []

    async def one_connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in numbers:
            began = time.perf_counter()
            writer.write(asked[number % len(asked)])
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200 "):
                raise SystemExit(f"answered {head[:40]!r}")
            await reader.readexactly(_length(head))
            taken.append((time.perf_counter() - began) * 1_000)
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(one_connection() for _ in range(connections)))
    return taken, time.perf_counter() - began


def _request(path: str) -> bytes:
    path, _, encoded = path.partition("#")
    if not encoded:
        return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    body = unquote_to_bytes(encoded)
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _length(head: bytes) -> int:
    lines = (line.partition(b":") for line in head.lower().split(b"\r\n"))
    return next(int(value) for name, _, value in lines if name == b"content-length")


if __name__ == "__main__":
    ms, seconds = asyncio.run(ask(int(sys.argv[1]), sys.argv[2].split(), int(sys.argv[3]), int(sys.argv[4])))
    print(json.dumps({"ms": ms, "seconds": seconds}))

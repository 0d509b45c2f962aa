"""`python -m tests.bench.faust_agent SERVERS TOPIC RECORDS`: an empty faust agent reads a topic from its beginning.

Prints the seconds from its first record to the last.
"""

import os
import sys
import time
import uuid
import warnings

warnings.simplefilter("ignore")

import faust  # noqa: E402


def main(servers: str, topic_name: str, records: int) -> None:
    """Read so many records and end."""
    app = faust.App(
        f"bench-{uuid.uuid4().hex}",
        broker=f"kafka://{servers}",
        store="memory://",
        key_serializer="raw",
        value_serializer="raw",
        consumer_auto_offset_reset="earliest",
        topic_disable_leader=True,
        web_enabled=False,
    )
    seen, began = 0, 0.0

    @app.agent(app.topic(topic_name))
    async def nothing(stream: "faust.StreamT[bytes]") -> None:
        nonlocal seen, began
        async for _ in stream:
            began = began or time.perf_counter()
            seen += 1
            if seen == records:
                os.write(1, f"\n{time.perf_counter() - began}\n".encode())  # faust takes `print` for itself
                os._exit(0)  # leaving the group in order takes seconds, and nobody else is in it

    faust.Worker(app, loglevel="CRITICAL").execute_from_commandline()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))

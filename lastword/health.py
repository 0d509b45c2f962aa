"""`python -m lastword.health [PORT/PATH]`: exit status 0 if a part of lastword on this machine says that it is well.

For the health checks of containers, which run it every few seconds: it imports next to nothing. The API is asked
(`7411/readyz`) unless told otherwise; a worker is at `7414/healthz`.
"""

import http.client
import sys

_TIMEOUT_S = 4.0
_OK = 200
_API = "7411/readyz"


def main(arguments: list[str]) -> int:
    """Ask, print what was answered, and return the exit status."""
    port, _, path = (arguments[0] if arguments else _API).partition("/")
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=_TIMEOUT_S)
    try:
        connection.request("GET", f"/{path}")
        response = connection.getresponse()
        print(response.read().decode(errors="replace"))  # noqa: T201
    except (OSError, http.client.HTTPException) as error:
        print(f"no answer: {error!r}")  # noqa: T201
        return 1
    finally:
        connection.close()
    return 0 if response.status == _OK else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

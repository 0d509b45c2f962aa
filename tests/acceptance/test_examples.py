"""The examples run on the lastword that `lastword up` starts, and show what they say."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from lastword.launcher import LocalLastword
from lastword.process import HOST, PythonProcess, free_port

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def service(embedded_lastword: LocalLastword, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """The FastAPI service, as uvicorn runs it."""
    url = f"http://{HOST}:{(port := free_port())}"
    command = ["-m", "uvicorn", "--app-dir", str(ROOT), "--port", str(port), "examples.fastapi_service:app"]

    def is_up() -> bool:
        try:
            return httpx.get(f"{url}/openapi.json").status_code == 200
        except httpx.TransportError:
            return False

    environment = {"LASTWORD_URL": embedded_lastword.url}
    folder = tmp_path_factory.mktemp("service")
    with (
        PythonProcess("service", command, folder, environment=environment, ready=is_up),
        httpx.Client(base_url=url) as http,
    ):
        yield http


def test_an_extractor_that_answers_late_and_out_of_order_brings_nothing_back(embedded_lastword: LocalLastword) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "examples.assistant"],
        env=os.environ | {"LASTWORD_URL": embedded_lastword.url},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert ran.returncode == 0, ran.stderr
    said = ran.stdout.splitlines()
    mails = [line for line in said if "please book" in line]
    assert "Dear Sir or Madam" in mails[0]
    assert mails[-1].endswith("Dear Sir or Madam, please book a flight (evening, any seat).")
    effects = [line.split()[-1] for line in said if "travel.seat" in line]
    assert effects == ["deleted", "late"]


def test_a_fastapi_service_reads_what_its_caller_has_seen(service: httpx.Client) -> None:
    user = {"user": f"ada-{uuid.uuid4()}"}
    assert service.get("/tone", params=user).json() == {"tone": None}

    put = service.put("/tone", params=user, json={"tone": "brief"})
    position = {"Lastword-Position": put.headers["Lastword-Position"]}
    got = service.get("/tone", params=user, headers=position)
    assert got.json() == {"tone": "brief"}
    assert got.headers["Lastword-Position"]

    service.put("/tone", params=user, json={"tone": None})
    assert service.get("/tone", params=user).json() == {"tone": None}


def test_a_fastapi_service_says_what_is_refused(service: httpx.Client) -> None:
    refused = service.put("/tone", params={"user": f"ada-{uuid.uuid4()}"}, json={"tone": ""})
    assert (refused.status_code, refused.json()["code"]) == (422, "refused")

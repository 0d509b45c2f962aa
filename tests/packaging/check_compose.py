"""docker-compose.yml on a real engine: it comes up, does what lastword does, keeps its data, and stops.

Run by `make compose-test`. It uses a Compose project and ports of its own, and leaves nothing behind.
"""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from lastword.launcher import Ports
from lastword.process import HOST
from lastword.settings import ConnectionSettings
from lastword.stories import PARTS
from lastword.walkthrough import Check, Walkthrough, store_hooks
from lastword_producers.kafka_log import open_log

ROOT = Path(__file__).parents[2]
PROJECT = "lastword-check"
OURS = ("api", "log", "worker")
STOP_S = 10.0
EVENT: dict[str, Any] = {"operation": "set", "owner": "user:ada", "scope": "global", "key": "theme", "value": "dark"}
EVENT |= {"actor": {"service": "tests"}}

pytestmark = pytest.mark.timeout(420)


class Compose:
    """The project, and how to reach its parts from this machine."""

    def __init__(self) -> None:
        self.ports = Ports.free()
        self.environment = dict(os.environ) | {
            f"LASTWORD_{name.upper()}_PORT": str(getattr(self.ports, name))
            for name in ("api", "kafka", "redis", "worker")
        }
        self.url = f"http://{HOST}:{self.ports.api}"
        self.settings = ConnectionSettings(
            kafka=f"{HOST}:{self.ports.kafka}", redis=SecretStr(f"redis://{HOST}:{self.ports.redis}/0")
        )

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """`docker compose ARGUMENTS`, which must end with `code`; what it printed."""
        return run("docker", "compose", "-p", PROJECT, *arguments, code=code, environment=self.environment)

    def up(self) -> None:
        """Everything runs and is healthy."""
        self("up", "--wait", "--wait-timeout", "180")

    def inspect(self, service: str) -> dict[str, Any]:
        """The container of a service, running or not."""
        (found,) = json.loads(run("docker", "inspect", *self("ps", "-aq", service).split()))
        return dict(found)

    def exit_code(self, service: str) -> int:
        """Of a service that has ended."""
        state = self.inspect(service)["State"]
        assert state["Status"] == "exited", state
        return int(state["ExitCode"])

    def stop(self, *services: str) -> None:
        """Stop them; no longer than the grace that they are given, else they would be killed."""
        began = time.monotonic()
        self("stop", *services)
        assert time.monotonic() - began < STOP_S + 1


def run(*command: str, code: int = 0, environment: dict[str, str] | None = None) -> str:
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ran.returncode == code, f"{' '.join(command)} ended with {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"waited 60 s for {what}"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def project() -> Iterator[Compose]:
    """Built, and up for the first time; no volume, container or network is left after it."""
    compose = Compose()
    try:
        compose("build")
        compose.up()
        yield compose
    finally:
        compose("down", "-v", "--remove-orphans")


@pytest.fixture
def compose(project: Compose) -> Compose:
    """Everything is up and healthy."""
    project.up()
    return project


@pytest.fixture(scope="module")
def walked(project: Compose) -> list[Check]:
    """The whole walk-through, while nobody has written anything yet."""
    log = open_log(project.settings.kafka_settings)
    with httpx.Client(base_url=project.url, timeout=60) as http:
        walkthrough = Walkthrough(http, log, store_hooks(project.settings, log))
        return [check for part in PARTS for check in walkthrough.run(part)]


def test_every_value_of_the_walkthrough_holds(walked: list[Check]) -> None:
    print(f"{sum(check.ok for check in walked)} of {len(walked)} values held")
    assert len(walked) > 30
    assert [check for check in walked if not check.ok] == []


@pytest.mark.usefixtures("walked")
def test_every_service_runs_with_as_little_as_it_can(compose: Compose) -> None:
    for service in ("kafka", "redis", *OURS):
        found = compose.inspect(service)
        config, host = found["Config"], found["HostConfig"]
        assert config["User"] not in ("", "0", "root"), service
        assert host["CapDrop"] == ["ALL"], service
        assert host["SecurityOpt"] == ["no-new-privileges:true"], service
        assert host["ReadonlyRootfs"] == (service != "kafka"), service
        assert service not in OURS or config["Image"] == f"lastword:{version('lastword')}"
        assert "password" not in json.dumps(config["Env"]).lower()


def test_nothing_listens_beyond_this_machine(compose: Compose) -> None:
    listening = {
        (service, bound["HostIp"], int(bound["HostPort"]))
        for service in ("kafka", "redis", *OURS)
        for bindings in compose.inspect(service)["NetworkSettings"]["Ports"].values()
        for bound in bindings or ()
    }
    ports = compose.ports
    assert listening == {
        ("api", HOST, ports.api),
        ("kafka", HOST, ports.kafka),
        ("redis", HOST, ports.redis),
        ("worker", HOST, ports.worker),
    }


@pytest.mark.usefixtures("walked")
def test_all_of_it_stops_in_time_keeps_its_data_and_comes_up_again(compose: Compose) -> None:
    with httpx.Client(base_url=compose.url) as client:
        first_receipt = client.post("/v1/events", json=EVENT).json()["receipt"]

        compose.stop()  # and the client is still connected

    assert {service: compose.exit_code(service) for service in (*OURS, "redis")} == dict.fromkeys((*OURS, "redis"), 0)
    assert compose.exit_code("kafka") == 143, "a JVM ends so, cleanly, on SIGTERM"

    compose("down")
    compose.up()

    question = {"owner": "user:ada", "key": "theme", "at_least": first_receipt["receipt"], "wait_ms": 20_000}
    answer = httpx.get(f"{compose.url}/v1/value", params=question, timeout=30)
    assert (answer.status_code, answer.json()["state"]["value"]) == (200, "dark")
    compose("run", "--rm", "log", "topics", "create", "--keys", "/keys.toml")
    next_receipt = httpx.post(f"{compose.url}/v1/events", json=EVENT).json()["receipt"]
    assert next_receipt["sequence"] == first_receipt["sequence"] + 1, "something else was written"


def test_the_command_line_is_at_hand_in_the_containers(compose: Compose) -> None:
    assert "imperial" in compose("run", "--rm", "log", "keys", "show")
    compose("exec", "-T", "api", "lastword", "publish", "user:bob", "theme", "light")
    assert "light" in compose("exec", "-T", "api", "lastword", "get", "user:bob", "theme")


def test_several_workers_share_the_partitions(compose: Compose) -> None:
    first = compose.ports.worker
    compose.environment["LASTWORD_WORKER_PORT"] = f"{first}-{first + 9}"
    try:
        compose("up", "--wait", "--scale", "worker=3")
        until(lambda: sorted(shares_of_workers(compose)) == [8, 8, 8], "even shares")
    finally:
        compose.environment["LASTWORD_WORKER_PORT"] = str(first)


def shares_of_workers(compose: Compose) -> list[int]:
    """How many partitions each worker has."""
    found = json.loads(run("docker", "inspect", *compose("ps", "-q", "worker").split()))
    ports = [one["NetworkSettings"]["Ports"]["7414/tcp"][0]["HostPort"] for one in found]
    return [len(httpx.get(f"http://{HOST}:{port}/healthz").json()["partitions"]) for port in ports]


@pytest.mark.parametrize("gone", ["kafka", "redis"])
@pytest.mark.parametrize("how", ["kill", "pause"])
def test_api_and_worker_stop_in_time_when_what_they_need_is_gone(compose: Compose, gone: str, how: str) -> None:
    compose(how, gone)
    try:
        with httpx.Client(base_url=compose.url) as client:
            client.get("/healthz")
            compose.stop("api", "worker")
        assert [compose.exit_code(service) for service in ("api", "worker")] == [0, 0]
    finally:
        compose("unpause" if how == "pause" else "start", gone)
        until(lambda: compose.inspect(gone)["State"]["Health"]["Status"] == "healthy", gone)  # a pause is no health


@pytest.mark.parametrize("part", ["api", "worker"])
def test_a_part_that_is_process_1_and_has_found_nothing_stops_in_time(project: Compose, part: str) -> None:
    image = project.inspect("log")["Config"]["Image"]
    container = run("docker", "run", "-d", "--network", "none", image, part).strip()
    try:
        until(lambda: "waiting" in log_of(container), "what it waits for to be told")
        began = time.monotonic()
        run("docker", "stop", "-t", str(int(STOP_S)), container)
        assert time.monotonic() - began < STOP_S
        assert json.loads(run("docker", "inspect", container))[0]["State"]["ExitCode"] == 0, log_of(container)
    finally:
        run("docker", "rm", "-f", "-v", container)


def log_of(container: str) -> str:
    ran = subprocess.run(["docker", "logs", container], capture_output=True, text=True, check=True)
    return ran.stdout + ran.stderr

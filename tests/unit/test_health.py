"""What a container's health check asks, and what it makes of the answer."""

import subprocess
import sys

from lastword.process import free_port
from lastword_projector.worker.health import HealthServer
from lastword_projector.worker.status import WorkerStatus


def check(port: int, path: str = "healthz") -> tuple[int, str]:
    """Exit status and what it printed."""
    ran = subprocess.run([sys.executable, "-m", "lastword.health", f"{port}/{path}"], capture_output=True, text=True)
    assert ran.stderr == ""
    return ran.returncode, ran.stdout


def test_a_part_that_is_well_is_healthy() -> None:
    with HealthServer(WorkerStatus(), "127.0.0.1", 0) as server:
        assert check(server.port)[0] == 0


def test_a_part_that_is_not_well_says_why() -> None:
    with HealthServer(WorkerStatus(problem="no Kafka"), "127.0.0.1", 0) as server:
        code, said = check(server.port)
    assert code == 1
    assert "no Kafka" in said


def test_nobody_there_is_unhealthy() -> None:
    code, said = check(free_port())
    assert code == 1
    assert "no answer" in said

"""Child processes that never outlive the program that started them.

Each child is started through a small shell guard, which holds the reading end of a pipe whose writing end lives in this
process alone. When this process goes away, in whatever way, the kernel closes the pipe, the guard reads end-of-file and
kills the child. The shell then becomes the child through `exec`: the child has the process id that we know, and at no
moment does it run unguarded. Linux's `PR_SET_PDEATHSIG` was not taken: it fires when the *thread* that started the
child ends, needs code between fork and exec, and is missing on macOS.

A copy of this process made by a bare `os.fork()` holds the pipe too, and keeps the children alive as long as it lives.
"""

import errno
import os
import random
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

HOST = "127.0.0.1"

# Below the ranges that Linux and macOS hand out to outgoing connections. A client that keeps calling a dead service at
# a port of such a range ends up connected to itself, and then the service cannot have its port back.
_FREE_PORTS = range(15_000, 32_000)

_GUARD = 'exec 3<&0 </dev/null; { read -r _ <&3 || kill -9 $$; } & exec 3<&-; exec "$@"'

_POLL_SECONDS = 0.01
_LOG_TAIL_LINES = 20


class LocalServiceError(Exception):
    """A local service could not do what it was asked to."""


class PortUnavailableError(LocalServiceError):
    """The port that a service should listen on cannot be had.

    `service` is its name, `port` the port, and the operating system's error is the `__cause__`.
    """

    def __init__(self, service: str, port: int, reason: str) -> None:
        super().__init__(
            f"{service} cannot listen on {HOST}:{port}: {reason}. "
            f"Stop the program that uses this port, or give {service} another one."
        )
        self.service = service
        self.port = port


class StartFailedError(LocalServiceError):
    """A child ended, or was not ready in time, while it was being started.

    `service` is its name, `log_path` its log file and `log_tail` the last lines that this start wrote to it.
    """

    def __init__(self, service: str, reason: str, log_path: Path, log_tail: str) -> None:
        super().__init__(f"{service} did not start: {reason}. The end of its log, {log_path}:\n{log_tail or '(empty)'}")
        self.service = service
        self.log_path = log_path
        self.log_tail = log_tail


class NotRunningError(LocalServiceError):
    """The service has not been started, or has ended."""

    def __init__(self, service: str) -> None:
        super().__init__(f"{service} is not running: call start() first.")
        self.service = service


class ChildProcess(ABC):
    """One child process: started, watched, stopped; a context manager around its running time.

    Both output streams are appended to `<directory>/<name>.log`. The child is in a session of its own, so Ctrl-C at the
    terminal reaches only this program, which then stops its children in the order that it chooses.
    """

    start_timeout: float = 30.0
    """Seconds within which a started child must be ready."""

    stop_timeout: float = 10.0
    """Seconds between SIGTERM and SIGKILL in `stop()`."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.directory = directory
        self.log_path = directory / f"{name}.log"
        self._child: subprocess.Popen[bytes] | None = None
        self._guard_pipe = -1

    @abstractmethod
    def _command(self) -> Sequence[str]:
        """The program and its arguments, asked for at each start."""

    def _environment(self) -> Mapping[str, str]:
        """The child's environment variables."""
        return os.environ

    @abstractmethod
    def _is_ready(self, pid: int) -> bool:
        """Whether the child, whose process id is `pid`, does its work by now; asked again and again during a start."""

    def start(self) -> None:
        """Start the child and return when it is ready; nothing happens if it already runs.

        Raises `StartFailedError` when it ends or is not ready within `start_timeout`; no process is left then.
        """
        if self.running:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        command = self._command()
        with self.log_path.open("ab") as log:
            log_start = log.tell()
            self._child = child = self._spawn(command, log.fileno())
        try:
            self._await_ready(child, log_start)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """SIGTERM, then after `stop_timeout` SIGKILL; returns when the child is gone, at once if it is gone already."""
        if self._child is None:
            return
        self._child.terminate()
        self._child.send_signal(signal.SIGCONT)  # a paused child takes the SIGTERM only when it goes on
        try:
            self._child.wait(self.stop_timeout)
        except subprocess.TimeoutExpired:
            self._child.kill()
        self._reap()

    def kill(self) -> None:
        """SIGKILL, as in a crash or a power cut; returns when the child is gone."""
        if self._child is not None:
            self._child.kill()
            self._reap()

    def restart(self) -> None:
        """`stop()`, then `start()`."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """SIGSTOP: the child keeps its sockets and answers nothing, as in a long garbage collection."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT: ends a `pause()`."""
        os.kill(self.pid, signal.SIGCONT)

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the child ends by itself; its exit code, negative for a signal.

        Raises `NotRunningError`, and `TimeoutError` after `timeout` seconds.
        """
        if self._child is None:
            raise NotRunningError(self.name)
        try:
            self._child.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(f"{self.name} still runs after {timeout} s") from error
        return self._reap()

    @property
    def running(self) -> bool:
        """Whether the child was started and has not ended, of whatever cause."""
        if self._child is not None and self._child.poll() is not None:
            self._reap()
        return self._child is not None

    @property
    def pid(self) -> int:
        """The child's process id. Raises `NotRunningError`."""
        if not self.running or self._child is None:
            raise NotRunningError(self.name)
        return self._child.pid

    def _spawn(self, command: Sequence[str], log: int) -> subprocess.Popen[bytes]:
        guard_end, self._guard_pipe = os.pipe()
        try:
            return subprocess.Popen(  # noqa: S603 - the commands are this package's own
                ["/bin/sh", "-c", _GUARD, self.name, *command],
                stdin=guard_end,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(self._environment()),
                start_new_session=True,
            )
        except BaseException:
            os.close(self._guard_pipe)
            raise
        finally:
            os.close(guard_end)

    def _await_ready(self, child: subprocess.Popen[bytes], log_start: int) -> None:
        deadline = time.monotonic() + self.start_timeout
        while True:
            ready = self._is_ready(child.pid)
            if (code := child.poll()) is not None:
                reason = f"it ended with exit code {code}"
            elif ready:
                return
            elif time.monotonic() > deadline:
                reason = f"it was not ready after {self.start_timeout:g} s"
            else:
                time.sleep(_POLL_SECONDS)
                continue
            raise StartFailedError(self.name, reason, self.log_path, self._log_tail(log_start))

    def _reap(self) -> int:
        """Collect the ended child and dismiss its guard; the exit code."""
        if self._child is None:
            raise NotRunningError(self.name)
        code = self._child.wait()
        self._child = None
        try:
            os.write(self._guard_pipe, b"\n")  # a line, not end-of-file: the process id may soon be another program's
        except BrokenPipeError:
            pass  # the guard is gone as well
        finally:
            os.close(self._guard_pipe)
        return code

    def _log_tail(self, start: int) -> str:
        with self.log_path.open("rb") as log:
            log.seek(start)
            lines = log.read().decode(errors="replace").splitlines()
        return "\n".join(lines[-_LOG_TAIL_LINES:])

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


class LocalService(ChildProcess):
    """A child that listens on one port of this machine, the same port each time it is started.

    `port` is the given one, else one that was free when the object was made.
    """

    def __init__(self, name: str, directory: Path, port: int | None = None) -> None:
        super().__init__(name, directory)
        self.port = free_port() if port is None else port

    def start(self) -> None:
        """As `ChildProcess.start()`; raises `PortUnavailableError` if the port is taken."""
        if not self.running:
            check_port(self.name, self.port)
        super().start()


class PythonProcess(ChildProcess):
    """This interpreter with other arguments: `PythonProcess("worker", ["-m", "lastword.cli", "worker"], ...)`.

    `environment` is laid over this process's own. `ready` says whether the child does its work by now; without it the
    child counts as started at once.
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        directory: Path,
        *,
        environment: Mapping[str, str] | None = None,
        ready: Callable[[], bool] | None = None,
    ) -> None:
        super().__init__(name, directory)
        self._arguments = tuple(arguments)
        self._overlay = dict(environment or {})
        self._ready = ready

    def _command(self) -> Sequence[str]:
        return [sys.executable, *self._arguments]

    def _environment(self) -> Mapping[str, str]:
        return {**os.environ, **self._overlay}

    def _is_ready(self, pid: int) -> bool:
        return self._ready is None or self._ready()


def check_port(service: str, port: int) -> None:
    """Raise `PortUnavailableError` unless `service` could listen on `port` now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            reason = "it is already in use" if error.errno == errno.EADDRINUSE else (error.strerror or str(error))
            raise PortUnavailableError(service, port, reason) from error


def free_port() -> int:
    """A port of this machine that nothing uses now, outside the range of outgoing connections."""
    for port in random.sample(_FREE_PORTS, 100):
        try:
            check_port("free_port", port)
        except PortUnavailableError:
            continue
        return port
    raise LocalServiceError(f"None of 100 tried ports in {_FREE_PORTS.start}-{_FREE_PORTS.stop - 1} is free: give one.")


def exchange(port: int, request: bytes, enough: Callable[[bytes], bool]) -> bytes:
    """Send `request` to a port of this machine; what has come back when it is `enough` or the other side falls silent.

    Empty if nobody listens. Silence is one second without a byte.
    """
    answer = b""
    try:
        with socket.create_connection((HOST, port), timeout=1.0) as connection:
            connection.sendall(request)
            while not enough(answer) and (chunk := connection.recv(65_536)):
                answer += chunk
    except OSError:
        pass  # refused, reset or silent: the caller judges what has come
    return answer

"""Asks the gpufleet agent's local health socket whether a GPU is fit for work. Standard library only; one file.

    from gpufleet_health import HealthClient

    with HealthClient() as health:
        record = health.device(0)
        if not record.fit:
            raise RuntimeError(f"GPU 0 is {record.status.name}")

One connection serves any number of requests and threads may share it: a lock keeps requests and answers in step.
A client reconnects by itself once when the agent was restarted.
"""

import enum
import os
import socket
import struct
import threading
from dataclasses import dataclass
from typing import Dict, Iterator, Optional, Tuple

__all__ = ["DEFAULT_MASK", "HealthClient", "HealthError", "Hello", "Record", "Status"]

TEMPERATURE, POWER, ECC_UNCORRECTED, PCIE_REPLAYS = 1, 2, 4, 8
DEFAULT_MASK = TEMPERATURE | POWER | ECC_UNCORRECTED | PCIE_REPLAYS

_REQUEST = struct.Struct(">BII")
_RECORD = struct.Struct(">BHHII")
_NUMBERED = struct.Struct(">IBHHII")
_HELLO = struct.Struct(">HIII")
_COUNT = struct.Struct(">I")
_ALL_DEVICES = 0xFFFFFFFF
_MOST_DEVICES = 4096


class HealthError(RuntimeError):
    """No answer, or one that is not of this protocol."""


class Status(enum.IntEnum):
    """One byte of go or no-go."""

    HEALTHY = 0
    DEGRADED = 1
    UNRELIABLE = 2
    CRITICAL = 3
    OVERHEATING = 4
    UNKNOWN_DEVICE = 5
    STALE = 6
    NOT_PERMITTED = 7
    BAD_REQUEST = 8
    INTERNAL = 255


@dataclass(frozen=True)
class Record:
    """The short answer about one device. ``None`` is unknown, never zero."""

    status: Status
    temperature_celsius: Optional[float]
    power_watts: Optional[int]
    ecc_uncorrected: Optional[int]
    pcie_replays: Optional[int]

    @property
    def fit(self) -> bool:
        """Whether new work may start: healthy, or degraded by heat or speed alone."""
        return self.status in (Status.HEALTHY, Status.DEGRADED, Status.OVERHEATING)


@dataclass(frozen=True)
class Hello:
    """What the agent says of itself."""

    version: int
    device_count: int
    sample_interval_ms: int
    capabilities: int


def default_path() -> str:
    """Where the agent listens: the system's socket, or the user's own when that is missing."""
    system = "/run/gpufleet/health.sock"
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and not os.path.exists(system):
        return os.path.join(runtime, "gpufleet", "health.sock")
    return system


def _record(status: int, temperature: int, power: int, ecc: int, replays: int) -> Record:
    try:
        known = Status(status)
    except ValueError:
        raise HealthError(f"unknown status {status}: the agent speaks a newer protocol") from None
    return Record(
        known,
        None if temperature == 0xFFFF else temperature / 100,
        None if power == 0xFFFF else power,
        None if ecc == 0xFFFFFFFF else ecc,
        None if replays == 0xFFFFFFFF else replays,
    )


class HealthClient:
    """One connection to the health socket."""

    def __init__(self, path: Optional[str] = None, timeout: float = 1.0) -> None:
        self._path = path or default_path()
        self._timeout = timeout
        self._lock = threading.Lock()
        self._socket: Optional[socket.socket] = None

    def __enter__(self) -> "HealthClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection; the next request opens a new one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def hello(self) -> Hello:
        """Version and capabilities."""
        return self._ask(0x7F, 0, 0, lambda: Hello(*_HELLO.unpack(self._receive(_HELLO.size))))

    def device(self, gpu: int, mask: int = DEFAULT_MASK) -> Record:
        """One device, by the driver's index."""
        return self._ask(0x01, gpu, mask, lambda: _record(*_RECORD.unpack(self._receive(_RECORD.size))))

    def devices(self, mask: int = DEFAULT_MASK) -> Dict[int, Record]:
        """Every device, by index."""
        return self._ask(0x02, 0, mask, self._listing)

    def watch(self, gpu: Optional[int] = None, mask: int = DEFAULT_MASK) -> Iterator[Tuple[int, Record]]:
        """The state now, then each change, on a connection of its own; ends when the agent does."""
        own = HealthClient(self._path, self._timeout)
        try:
            target = _ALL_DEVICES if gpu is None else gpu
            yield from own._ask(0x03, target, mask, own._listing).items()
            own._connection().settimeout(None)
            while True:
                try:
                    first, *rest = _NUMBERED.unpack(own._receive(_NUMBERED.size))
                except HealthError:
                    return
                yield first, _record(*rest)
        finally:
            own.close()

    def _listing(self) -> Dict[int, Record]:
        (count,) = _COUNT.unpack(self._receive(_COUNT.size))
        if count > _MOST_DEVICES:
            raise HealthError("the answer names more devices than a host can hold")
        rows = (_NUMBERED.unpack(self._receive(_NUMBERED.size)) for _ in range(count))
        return {first: _record(*rest) for first, *rest in rows}

    def _ask(self, command: int, gpu: int, mask: int, read):
        with self._lock:
            reused = self._socket is not None
            try:
                return self._exchange(command, gpu, mask, read)
            except HealthError:
                self.close()
                if not reused:
                    raise
            # The agent may have been restarted since the last request.
            try:
                return self._exchange(command, gpu, mask, read)
            except HealthError:
                self.close()
                raise

    def _exchange(self, command: int, gpu: int, mask: int, read):
        try:
            self._connection().sendall(_REQUEST.pack(command, gpu, mask))
        except (OSError, struct.error) as error:
            raise HealthError(f"{self._path}: {error}") from error
        return read()

    def _connection(self) -> socket.socket:
        if self._socket is None:
            fresh = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            fresh.settimeout(self._timeout)
            try:
                fresh.connect(self._path)
            except OSError as error:
                fresh.close()
                raise HealthError(f"{self._path}: {error}") from error
            self._socket = fresh
        return self._socket

    def _receive(self, length: int) -> bytes:
        parts = []
        while length:
            try:
                part = self._connection().recv(length)
            except OSError as error:
                raise HealthError(f"{self._path}: {error}") from error
            if not part:
                raise HealthError(f"{self._path}: the agent closed the connection")
            parts.append(part)
            length -= len(part)
        return b"".join(parts)

"""Runs one program and takes its times and its memory from outside.

Programs print one JSON object per line (`onward train --json`, peers/*.py); when a line arrives
is when what it tells has happened.
"""
import dataclasses
import json
import os
import resource
import select
import signal
import statistics
import subprocess
import tempfile
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

Event = Tuple[float, Dict[str, Any]]  # seconds since launch, what was printed

POLL_SECONDS = 0.05  # how often memory is looked at
GRACE_SECONDS = 10   # for a program that was asked to end


class Failure(Exception):
    """A program that did not do what it was started for; the text is one line."""


@dataclasses.dataclass
class Ran:
    events: List[Event]
    peak_mb: float        # VmHWM of the program itself, in MB of 10^6 bytes
    foreign_cores: float  # cores that other programs kept busy meanwhile, on average


def peak_mb(pid: int) -> float:
    """The peak so far; 0 where the process is gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024 / 1e6
    except OSError:
        pass
    return 0.0


def busy_seconds() -> float:
    """Processor time that the whole machine has spent on programs."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            ticks = [int(n) for n in file.readline().split()[1:9]]
    except OSError:
        return 0.0
    idle, waiting = ticks[3], ticks[4]
    return (sum(ticks) - idle - waiting) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    """Processor time of this program and of those that it has ended."""
    return sum(u.ru_utime + u.ru_stime for u in map(
        resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def await_quiet(patience: float, cores: float, look: float = 2.0) -> bool:
    """Waits until others keep less than `cores` busy for `look` seconds, `patience` seconds at most;
    whether it came to that."""
    end = time.monotonic() + patience
    while True:
        busy, own, start = busy_seconds(), _own_seconds(), time.monotonic()
        time.sleep(look)
        used = busy_seconds() - busy - (_own_seconds() - own)
        if used / (time.monotonic() - start) < cores:
            return True
        if time.monotonic() >= end:
            return False


def parsed(line: bytes) -> Optional[Dict[str, Any]]:
    """The object of a line; None for what libraries print between."""
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) and "event" in value else None


def first_cores(count: int) -> Optional[List[int]]:
    """`count` of the cores that this program may use; None: all of them, or not to be chosen."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    cores = sorted(os.sched_getaffinity(0))
    return cores[:count] if count < len(cores) else None


def run(command: Sequence[str], *, threads: int, timeout: float,
        enough: Callable[[List[Event]], bool] = lambda events: False) -> Ran:
    """Runs `command` on `threads` cores until it ends or `enough` says that what it has printed is
    enough. Raises Failure where it cannot be started, fails, or takes longer than `timeout`."""
    cores = first_cores(threads)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    environment.update(PYTHONDONTWRITEBYTECODE="1", PYTHONUNBUFFERED="1")
    with tempfile.TemporaryFile() as errors:
        busy, own, start = busy_seconds(), _own_seconds(), time.monotonic()
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
                env=environment, start_new_session=True,
                preexec_fn=(lambda: os.sched_setaffinity(0, cores)) if cores else None)
        except OSError as error:
            raise Failure(f"{command[0]}: {error.strerror}") from None
        try:
            events, peak, stopped = _watch(process, start, timeout, enough)
        finally:
            _end(process)
        wall = time.monotonic() - start
        foreign = (busy_seconds() - busy - (_own_seconds() - own)) / wall
        if not stopped and process.returncode != 0:
            raise Failure(_last_line(errors) or _by_code(process.returncode))
    return Ran(events, peak, max(0.0, foreign))


def _watch(process, start, timeout, enough):
    events: List[Event] = []
    peak, rest = 0.0, b""
    pipe = process.stdout.fileno()
    while True:
        readable = select.select([pipe], [], [], POLL_SECONDS)[0]
        now = time.monotonic() - start
        peak = max(peak, peak_mb(process.pid))
        if readable:
            chunk = os.read(pipe, 65536)
            if not chunk:
                process.wait(GRACE_SECONDS)
                return events, peak, False
            *lines, rest = (rest + chunk).split(b"\n")
            events += [(now, e) for e in map(parsed, lines) if e is not None]
            if enough(events):
                return events, peak, True
        if now > timeout:
            raise Failure(f"took longer than {timeout:.0f} s; --timeout allows more")


def _end(process) -> None:
    """Ends the program and what it started."""
    for number, patience in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, GRACE_SECONDS)):
        try:
            os.killpg(process.pid, number)
        except OSError:
            pass
        try:
            process.wait(patience)
            break
        except subprocess.TimeoutExpired:
            continue
    process.stdout.close()


def _last_line(errors) -> str:
    errors.seek(0, os.SEEK_END)
    errors.seek(max(0, errors.tell() - 8192))
    lines = errors.read().decode(errors="replace").split("\n")
    lines = [line.strip() for line in lines if line.strip()]
    return lines[-1][:300] if lines else ""


def _by_code(code: int) -> str:
    return f"was ended by signal {-code}" if code < 0 else f"exit code {code}, without a word"


# ---- What is read out of the events ----------------------------------------------------------------

def named(events: Sequence[Event], name: str) -> List[Event]:
    return [e for e in events if e[1]["event"] == name]


def enough_epochs(seconds: float, at_least: int = 3) -> Callable[[List[Event]], bool]:
    """The first epoch warms up; those after it fill `seconds` and are at least two."""

    def enough(events: List[Event]) -> bool:
        epochs = named(events, "epoch")
        return len(epochs) >= at_least and epochs[-1][0] - epochs[0][0] >= seconds

    return enough


def samples_per_second(events: Sequence[Event]) -> float:
    """The median over the epochs after the first, whatever lies between two of them included."""
    epochs = named(events, "epoch")
    if len(epochs) < 2:
        raise Failure("ended before its second epoch")
    return statistics.median([e["samples"] / max(at - before, 1e-9)
                   for (before, _), (at, e) in zip(epochs, epochs[1:])])

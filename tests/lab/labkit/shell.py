# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Running the host's programs: progress lines, logs, locks."""

import contextlib
import fcntl
import subprocess
import sys
import threading
import time
from pathlib import Path


class LabError(Exception):
    """Something the user can read and act on; no traceback."""


def say(text: str) -> None:
    print(f"lab: {text}", file=sys.stderr, flush=True)


def minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


@contextlib.contextmanager
def locked(path: Path):
    """One process at a time; the others wait and say so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process that holds {path.name}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def output(argv: list) -> str:
    """What the program prints; an empty string if it fails."""
    done = subprocess.run([str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def tail(path: Path, lines: int) -> str:
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""


def logged(argv: list, log: Path, label: str, **popen) -> None:
    """Run a long command into a log file, with a progress line every 30 s; raise with the end of the log if it fails."""
    start = time.monotonic()
    done = threading.Event()

    def progress():
        while not done.wait(30):
            with open(log, "rb") as file:
                steps = sum(1 for _ in file)
            say(f"{label}: {minutes(time.monotonic() - start)}, {steps} lines in {log.name}")

    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as out:
        thread = threading.Thread(target=progress, daemon=True)
        thread.start()
        try:
            code = subprocess.run([str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=out,
                                  stderr=subprocess.STDOUT, check=False, **popen).returncode
        finally:
            done.set()
            thread.join()
    if code != 0:
        raise LabError(f"{label} failed (exit status {code}), log {log}:\n{tail(log, 30)}")

"""Progress lines, commands whose output goes to a log, and stamps that make the second run fast."""

import hashlib
import os
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LOGS = os.path.join(ROOT, "build", "logs")
TAIL_LINES = 60

_start = time.monotonic()
_print_lock = threading.Lock()


class Failure(Exception):
    """A step that failed. The text says all that the user needs."""


def path(*parts):
    return os.path.join(ROOT, *parts)


def say(text):
    """One line, with the seconds since ./dev started."""
    with _print_lock:
        print("-- %6.1f s  %s" % (time.monotonic() - _start, text), flush=True)


def show(text):
    with _print_lock:
        print(text, flush=True)


def tail(log, lines=TAIL_LINES):
    with open(log, errors="replace") as f:
        return "".join(f.readlines()[-lines:])


def log_path(name):
    os.makedirs(LOGS, exist_ok=True)
    return os.path.join(LOGS, name.replace(" ", "-").replace("/", "-") + ".log")


def run(command, name, env=None, cwd=ROOT, check=True, seconds=None):
    """Run a command with its output in build/logs/<name>.log. Returns (exit status, log)."""
    log = log_path(name)
    with open(log, "w") as output:
        output.write("$ %s\n" % " ".join(command))
        output.flush()
        try:
            status = subprocess.run(
                command,
                cwd=cwd,
                env=dict(os.environ, **(env or {})),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=seconds,
            ).returncode
        except subprocess.TimeoutExpired:
            output.write("\nstopped after %d s\n" % seconds)
            status = 124
        except FileNotFoundError:
            raise Failure("%s: no such program: %s" % (name, command[0])) from None
    if check and status != 0:
        raise Failure("%s failed (exit status %d), the end of %s:\n%s" % (name, status, log, tail(log)))
    return status, log


def output_of(command, **kwargs):
    """What a command prints, or None if it fails or is not there."""
    try:
        run = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False, **kwargs
        )
    except OSError:
        return None
    return run.stdout.decode() if run.returncode == 0 else None


def digest(*texts):
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def read(file, default=""):
    try:
        with open(file) as f:
            return f.read()
    except OSError:
        return default


def is_done(stamp, key):
    return read(stamp) == key


def mark_done(stamp, key):
    with open(stamp, "w") as f:
        f.write(key)


def in_ci():
    return os.environ.get("CI", "").lower() in ("1", "true", "yes")


def cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def colour_is_wanted():
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")

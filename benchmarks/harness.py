"""What all benchmarks share: clocks, interleaved measurement, summaries, JSON results and tables.

Times are taken in thread CPU time, which a loaded machine disturbs least, and in wall time beside it. Contestants are
measured in turns in one process, so that both see the same machine; figures are medians with the range of the middle half.
"""

import argparse
import gc
import json
import os
import platform
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODELS_FOLDER = os.path.join(ROOT, "tests", "python")
RESULTS_FOLDER = os.path.join(ROOT, "build", "benchmarks")


def use_models() -> None:
    """Make the model zoo importable as `models`."""
    if MODELS_FOLDER not in sys.path:
        sys.path.insert(0, MODELS_FOLDER)


@dataclass
class Summary:
    """Samples of one quantity: the median, the middle half of them, and the extremes."""

    median: float
    low: float
    high: float
    minimum: float
    maximum: float
    count: int

    def text(self, digits: int = 2) -> str:
        return f"{self.median:.{digits}f} [{self.low:.{digits}f}..{self.high:.{digits}f}]"


def summarize(samples: Iterable[float]) -> Summary:
    ordered = sorted(samples)
    quartiles = [ordered[0]] * 3 if len(ordered) == 1 else statistics.quantiles(ordered, n=4, method="inclusive")
    return Summary(statistics.median(ordered), quartiles[0], quartiles[2], ordered[0], ordered[-1], len(ordered))


@dataclass
class Samples:
    """Times of one contestant, in seconds, in the order they were taken."""

    cpu: List[float]
    wall: List[float]

    def scaled(self, factor: float) -> "Samples":
        return Samples([t * factor for t in self.cpu], [t * factor for t in self.wall])


def nothing() -> None:
    """How calls end that have done their work when they return."""


def time_once(call: Callable[[], Any], finish: Callable[[], None] = nothing) -> Samples:
    """One call, cold or warm, after a garbage collection. `finish` waits for what it has only started."""
    gc.collect()
    finish()
    wall, cpu = time.perf_counter(), time.thread_time()
    call()
    finish()
    cpu, wall = time.thread_time() - cpu, time.perf_counter() - wall
    return Samples([cpu], [wall])


def _block(call: Callable[[], Any], count: int, finish: Callable[[], None]) -> Samples:
    repeat = range(count)
    wall, cpu = time.perf_counter(), time.thread_time()
    for _ in repeat:
        call()
    finish()
    cpu, wall = time.thread_time() - cpu, time.perf_counter() - wall
    return Samples([cpu / count], [wall / count])


def _block_length(call: Callable[[], Any], seconds: float, finish: Callable[[], None]) -> int:
    count = 1
    while True:
        took = _block(call, count, finish).wall[0] * count
        if took >= seconds / 4 or count >= 1_000_000:
            return max(1, int(count * seconds / max(took, 1e-9)))
        count *= 4


def interleave(
    calls: Dict[str, Callable[[], Any]],
    repeats: int = 40,
    block_s: float = 0.004,
    finish: Callable[[], None] = nothing,
) -> Dict[str, Samples]:
    """Time warm calls: short blocks of each in turn, `repeats` rounds, the order rotating from round to round.

    Each block ends with `finish`, which waits for what its calls have only started.
    """
    names = list(calls)
    for name in names:
        for _ in range(3):
            calls[name]()
        finish()
    counts = {name: _block_length(calls[name], block_s, finish) for name in names}
    taken = {name: Samples([], []) for name in names}
    gc.collect()
    for turn in range(repeats):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            sample = _block(calls[name], counts[name], finish)
            taken[name].cpu += sample.cpu
            taken[name].wall += sample.wall
    return taken


def peak_memory(call: Callable[[], Any], device: str = "cpu") -> int:
    """The most bytes of tensors on a device that one call holds beyond what was there before, as LibTorch tells.

    On the processor beyond the least that was there at any time: a step of training frees old gradients first.
    """
    import torch

    if device != "cpu":
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        return torch.cuda.max_memory_allocated() - before
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        call()  # the profiler knows the size of what is freed only if it has seen it made
        with torch.profiler.record_function("measured"):
            call()
    events = sorted(profile.profiler.kineto_results.events(), key=lambda event: event.start_ns())
    begin = next(index for index, event in enumerate(events) if event.name() == "measured")
    held = peak = least = 0
    for event in events[begin:]:
        if event.name() == "[memory]":
            held += event.nbytes()
            peak, least = max(peak, held), min(least, held)
    return peak - least


def difference(samples: Samples, baseline: Samples) -> List[float]:
    """Paired differences in CPU time, round by round."""
    return [a - b for a, b in zip(samples.cpu, baseline.cpu)]


def environment() -> Dict[str, Any]:
    """What a reader must know about the machine and the packages to judge the figures."""
    facts: Dict[str, Any] = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "cpu": _cpu_name(),
        "load": list(os.getloadavg()),
        "time": time.strftime("%Y-%m-%d %H:%M:%S"),
        "arguments": sys.argv[1:],
    }
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_available():
        facts["gpu"] = sys.modules["torch"].cuda.get_device_name()
    for package in ("torch", "torchvision", "timm", "transformers"):
        if package in sys.modules:
            facts[package] = sys.modules[package].__version__
    return facts


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor()


def parser(description: Optional[str], name: str) -> argparse.ArgumentParser:
    """An argument parser with what all benchmarks accept."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    made.add_argument("--json", default=os.path.join(RESULTS_FOLDER, name + ".json"), help="where the results go")
    made.add_argument("--contestants", default="", help="comma-separated names; all if left out")
    return made


def write_json(file: str, rows: Sequence[Dict[str, Any]]) -> None:
    """Write the results in one step, so that an interrupted run leaves the last whole file."""
    os.makedirs(os.path.dirname(os.path.abspath(file)), exist_ok=True)
    with open(file + ".tmp", "w") as out:
        json.dump({"environment": environment(), "rows": list(rows)}, out, indent=1, default=_plain)
    os.replace(file + ".tmp", file)


def _plain(value: Any) -> Any:
    return asdict(value) if isinstance(value, (Summary, Samples)) else str(value)


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], note: str = "") -> None:
    """Print a table; the first column is text, the others are figures."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(markup=False) if sys.stdout.isatty() else Console(width=180, markup=False)
    table = Table()
    for index, column in enumerate(columns):
        table.add_column(Text(column), justify="left" if index == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*[Text(str(cell)) for cell in row])
    console.print(title)
    console.print(table)
    if note:
        console.print(note)


def progress(text: str) -> None:
    """One line on what is being done, on stderr so that tables can be piped."""
    print(text, file=sys.stderr, flush=True)

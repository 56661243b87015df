"""Compiles the CUDA text of kernels, files in a folder, for the architectures that kernels are tested for:
`python cuda_texts.py FOLDER`. No device is needed. A text that NVRTC refuses is a failure."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ARCHITECTURES = ("sm_80", "sm_90")
TOGETHER = 40  # texts in one program: each begins with the prelude, which counts once


def refused(texts, architecture):
    """Those that do not compile, as (name, reason)."""
    import torch  # noqa: F401  framejit needs it loaded

    from framejit import _C

    try:
        _C._testing.compile_cuda("".join(texts.values()), architecture)
    except RuntimeError as error:
        if len(texts) == 1:
            return [(name, str(error)) for name in texts]
        return [found for name, text in texts.items() for found in refused({name: text}, architecture)]
    return []


def why_no_compiler():
    """Why NVRTC is not here, or None."""
    found = refused({"nothing": "__global__ void nothing() {}"}, ARCHITECTURES[0])
    return found[0][1] if found else None


def main(folder):
    reason = why_no_compiler()
    if reason:
        print("skipped: no NVRTC: " + reason)
        return 0
    start = time.monotonic()
    files = sorted(Path(folder).glob("*.cu"))
    programs = [{file.name: file.read_text() for file in files[i : i + TOGETHER]} for i in range(0, len(files), TOGETHER)]
    with ThreadPoolExecutor(2) as pool:
        results = pool.map(lambda job: refused(*job), [(p, a) for a in ARCHITECTURES for p in programs])
    found = [pair for result in results for pair in result]
    for name, reason in found:
        print("{}: {}".format(name, reason))
    print("{} kernels for {}: {} refused, {:.1f} s".format(
        len(files), " and ".join(ARCHITECTURES), len(found), time.monotonic() - start))  # fmt: skip
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

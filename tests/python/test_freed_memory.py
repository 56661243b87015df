"""Memory that a large graph frees at the end of a call is there for the next one."""

import os
import subprocess
import sys

import pytest

import framejit

PROGRAM = """
import resource, sys, torch, framejit

def program(x):
    rows = [x.sin() @ x for _ in range(8)]
    return sum(row.cos() @ x for row in rows).sum()

torch.set_num_threads(1)
compiled, x = framejit.to_static(program, backend=sys.argv[1], full_graph=True), torch.rand(512, 512)
for _ in range(5):
    compiled(x)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    compiled(x)
assert framejit.stats()["hits"] >= 14
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 10)
"""


def pages_taken(backend, **variables):
    """How many pages of memory the process takes anew in each call."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_", "FRAMEJIT_SHADOW"))}
    command = [sys.executable, "-c", PROGRAM, backend]
    run = subprocess.run(
        command, env={**kept, **variables}, stdout=subprocess.PIPE, check=True, universal_newlines=True
    )
    return float(run.stdout)


glibc = pytest.mark.skipif(
    not hasattr(os, "confstr") or "glibc" not in (os.confstr("CS_GNU_LIBC_VERSION") or ""), reason="of glibc"
)


@glibc
@pytest.mark.skipif(framejit._C.why_no_kernels() is not None, reason="no kernels in this process")
def test_freed_memory_is_kept():
    assert pages_taken("native") < 50  # of 256 for each tensor


@glibc
@pytest.mark.parametrize("backend, variables", [("aten", {}), ("native", {"FRAMEJIT_KEEP_MEMORY": "0"})])
def test_where_the_process_is_left_alone(backend, variables):
    assert pages_taken(backend, **variables) > 500

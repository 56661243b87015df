"""Memory that a large graph frees is kept for the next call: glibc's threshold for blocks of their own is raised."""

import os
import subprocess
import sys

import pytest

import framejit

# Whether a block of 30 MiB comes from the heap, rather than from the system by itself: mallinfo(3), hblks.
PROGRAM = """
import ctypes, sys, torch, framejit

class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]

libc = ctypes.CDLL(None)
libc.mallinfo.restype = Info
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]

size = int(sys.argv[2])
compiled, x = framejit.to_static(lambda x: x.sin() + 1, backend=sys.argv[1], full_graph=True), torch.rand(size, size)
for _ in range(2):
    assert torch.allclose(compiled(x), x.sin() + 1)
assert framejit.stats()["graphs"] == 1
before = libc.mallinfo().hblks
assert libc.malloc(30 << 20)
print(libc.mallinfo().hblks - before)
"""


def keeps_memory(backend, size=512, **variables):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_", "FRAMEJIT_SHADOW"))}
    command = [sys.executable, "-c", PROGRAM, backend, str(size)]
    run = subprocess.run(command, env={**kept, **variables}, stdout=subprocess.PIPE, check=True, universal_newlines=True)
    return {"0": True, "1": False}[run.stdout.strip()]


glibc = pytest.mark.skipif("glibc" not in (os.confstr("CS_GNU_LIBC_VERSION") or ""), reason="of glibc")


@glibc
@pytest.mark.skipif(framejit._C.why_no_kernels() is not None, reason="no kernels in this process")
def test_freed_memory_is_kept():
    assert keeps_memory("native")


@glibc
@pytest.mark.parametrize(
    "backend, size, variables",
    [("aten", 512, {}), ("native", 32, {}), ("native", 512, {"FRAMEJIT_KEEP_MEMORY": "0"})],
    ids=["aten", "small", "not wanted"],
)
def test_where_the_process_is_left_alone(backend, size, variables):
    assert not keeps_memory(backend, size, **variables)

"""CUDA devices that are none: their memory and their compiler are the host's. The CUDA text of kernels is compiled by g++
and run as blocks of threads; support/fake_cuda.cpp is NVRTC and the driver."""

import contextlib
import ctypes
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch

from framejit import _C

FOLDER = Path(__file__).parent


def why_no_fake():
    """Why tests cannot have it here, or None."""
    if shutil.which("g++") is None:
        return "no g++, which compiles the kernels' CUDA text"
    if torch.cuda.is_available():
        return "there is a CUDA device: see test_gpu.py"
    return None


class FakeCuda:
    """The fake library, with what it counts and where it fails."""

    def __init__(self, path):
        self.path = str(path)
        self.library = ctypes.CDLL(self.path)
        (ctypes.c_char * 256).in_dll(self.library, "work_folder").value = str(Path(path).parent).encode()

    def __getattr__(self, name):
        kind = {"last_stream": ctypes.c_int64, "last_context": ctypes.c_int64}.get(name, ctypes.c_int)
        return kind.in_dll(self.library, name).value

    @contextlib.contextmanager
    def at_most_blocks(self, count):
        place = ctypes.c_uint.in_dll(self.library, "most_blocks")
        before, place.value = place.value, count
        try:
            yield
        finally:
            place.value = before

    @property
    def options(self):
        return (ctypes.c_char * 512).in_dll(self.library, "last_options").value.decode()

    @contextlib.contextmanager
    def failing(self, function):
        place = (ctypes.c_char * 64).in_dll(self.library, "failing")
        place.value = function.encode()
        try:
            yield
        finally:
            place.value = b""


def build(folder):
    path = Path(folder) / "libfake_cuda.so"
    compiler = "ccache g++" if shutil.which("ccache") else "g++"  # kernels have the same text in each cell
    macros = ['-DSHIM="{}"'.format(FOLDER / "host_cuda.h"), '-DCOMPILER="{}"'.format(compiler)]
    command = ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", *macros, "-o", path, FOLDER / "fake_cuda.cpp", "-ldl"]
    subprocess.run([str(part) for part in command], check=True)
    return path


def on_device(value, device="cuda:0"):
    """The tensors among the arguments over the same memory, as if it were the device's."""
    if isinstance(value, torch.Tensor):
        return _C._testing.placed_over(value.detach(), device).requires_grad_(value.requires_grad)
    if isinstance(value, (tuple, list)):
        return type(value)(on_device(item, device) for item in value)
    return value


def on_host(value):
    if isinstance(value, torch.Tensor):
        return _C._testing.placed_over(value.detach(), "cpu")
    if isinstance(value, (tuple, list)):
        return type(value)(on_host(item) for item in value)
    return value


def _empty_strided(size, stride, dtype=None, layout=None, device=None, pin_memory=None):
    return _C._testing.placed_over(torch.empty_strided(size, stride, dtype=dtype), str(device))


@contextlib.contextmanager
def fake_cuda():
    """Two devices."""
    _C.why_no_kernels()  # the processor's kernels have the folder that they had
    folder = tempfile.mkdtemp(prefix="framejit-fake-cuda-")
    before = os.environ.get("FRAMEJIT_CACHE_DIR")
    os.environ["FRAMEJIT_CACHE_DIR"] = os.path.join(folder, "cache")
    library = torch.library.Library("aten", "IMPL")
    name = "_cuda_getCurrentRawStream"
    asked = getattr(torch._C, name, None)
    setattr(torch._C, name, lambda index: 81 + index)  # as framejit._C._testing.pretend_cuda has it
    try:
        fake = FakeCuda(build(folder))
        library.impl("empty_strided", _empty_strided, "CUDA")
        _C._testing.pretend_cuda(2)
        _C._testing.use_cuda_libraries(fake.path, fake.path)
        yield fake
    finally:
        _C._testing.use_cuda_libraries("", "")
        _C._testing.pretend_cuda(0)
        library._destroy()
        if asked is None:
            delattr(torch._C, name)
        else:
            setattr(torch._C, name, asked)
        if before is None:
            del os.environ["FRAMEJIT_CACHE_DIR"]
        else:
            os.environ["FRAMEJIT_CACHE_DIR"] = before
        shutil.rmtree(folder, ignore_errors=True)

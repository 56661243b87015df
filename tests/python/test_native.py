"""Back end native: which operators become kernels, what kernels compute, what becomes of memory and of failures."""

import os
import re
import subprocess
import sys
import textwrap
import threading
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

import framejit
from framejit import _C, _api
from support.native import kernels_asked_for, memory_events, needs_kernels

pytestmark = needs_kernels
GOLDEN = Path(__file__).parent.parent / "golden" / "kernels"
BOUNDS = {torch.float32: 2e-5, torch.float64: 1e-10, torch.bfloat16: 3e-2, torch.float16: 4e-3}


def assert_close(found, expected):
    assert (found.dtype, found.shape, found.stride(), found.requires_grad) == (
        expected.dtype,
        expected.shape,
        expected.stride(),
        expected.requires_grad,
    )
    bound = BOUNDS.get(expected.dtype, 0)
    torch.testing.assert_close(found, expected, rtol=bound, atol=bound, equal_nan=True)


def check(fn, *args, kernels=1, calls=3):
    """Cold and warm calls give what eager gives, with as many kernels; returns the compiled function."""
    framejit.reset()
    before = kernels_asked_for()
    compiled = framejit.to_static(fn, backend="native")
    for _ in range(calls):
        expected, found = fn(*args), compiled(*args)
        pairs = zip(expected, found) if isinstance(expected, tuple) else [(expected, found)]
        for one, other in pairs:
            assert_close(other, one)
    assert kernels_asked_for() - before == kernels
    assert framejit.stats()["captures"] >= 1 and framejit.stats()["hits"] >= calls - 1
    return compiled


# What fuses

GRAPHS = {
    "chain": """
        graph @chain (%0: tensor<4x8xf32, cpu>, %1: tensor<8xf32, cpu>) {
          %2 = aten.relu(%0) : tensor<4x8xf32, cpu>
          %3 = aten.mul.Tensor(%2, %1) : tensor<4x8xf32, cpu>
          %4 = aten.add.Tensor(%3, 1, 2) : tensor<4x8xf32, cpu>
          return %4
        }""",
    "half": """
        graph @half (%0: tensor<8xbf16, cpu>) {
          %1 = aten.mul.Tensor(%0, %0) : tensor<8xbf16, cpu>
          %2 = aten.gt.Scalar(%1, 0.1) : tensor<8xbool, cpu>
          return %2
        }""",
    "rows": """
        graph @rows (%0: tensor<4x8xf32, cpu>, %1: tensor<8xf32, cpu>) {
          %2 = aten.pow.Tensor_Scalar(%0, 2) : tensor<4x8xf32, cpu>
          %3 = aten.mean.dim(%2, [-1], true, none) : tensor<4x1xf32, cpu>
          %4 = aten.rsqrt(%3) : tensor<4x1xf32, cpu>
          %5 = aten.mul.Tensor(%0, %4) : tensor<4x8xf32, cpu>
          %6 = aten.mul.Tensor(%5, %1) : tensor<4x8xf32, cpu>
          return %6
        }""",
    "channels": """
        graph @channels (%0: tensor<2x3x4x5xf32, cpu>, %1: tensor<2x1x1x1xf32, cpu>) {
          %2 = aten.mul.Tensor(%0, %1) : tensor<2x3x4x5xf32, cpu>
          %3 = aten.sum.dim_IntList(%2, [0, 2, 3], true, none) : tensor<1x3x1x1xf32, cpu>
          %4 = aten.sub.Tensor(%0, %3, 1) : tensor<2x3x4x5xf32, cpu>
          return %4
        }""",
    "written_between": """
        graph @written_between (%0: tensor<8xf32, cpu>) {
          %1 = aten.sin(%0) : tensor<8xf32, cpu>
          %2 = aten.cos(%1) : tensor<8xf32, cpu>
          %3 = aten.add_.Tensor(%0, 1, 1) : tensor<8xf32, cpu>
          %4 = aten.neg(%2) : tensor<8xf32, cpu>
          %5 = aten.abs(%4) : tensor<8xf32, cpu>
          return %5
        }""",
    "read_between": """
        graph @read_between (%0: tensor<8x8xf32, cpu>) {
          %1 = aten.sin(%0) : tensor<8x8xf32, cpu>
          %2 = aten.cos(%1) : tensor<8x8xf32, cpu>
          %3 = aten.mm(%2, %0) : tensor<8x8xf32, cpu>
          %4 = aten.add.Tensor(%2, %3, 1) : tensor<8x8xf32, cpu>
          %5 = aten.neg(%4) : tensor<8x8xf32, cpu>
          return %5
        }""",
    "one_alone": """
        graph @one_alone (%0: tensor<8xf32, cpu>) {
          %1 = aten.sin(%0) : tensor<8xf32, cpu>
          return %1
        }""",
}


@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_kernels_of_a_graph(name):
    found = "---\n".join(_C._testing.kernels(textwrap.dedent(GRAPHS[name]).strip() + "\n"))
    golden = GOLDEN / (name + ".txt")
    if os.environ.get("FRAMEJIT_WRITE_GOLDEN"):
        golden.write_text(found)
    assert found == golden.read_text()


def test_chain_is_one_kernel():
    check(lambda x, y: torch.sigmoid(torch.relu(x) * y + 1) - x, torch.randn(5, 7), torch.randn(7))


def test_branches_that_meet_are_one_kernel():
    check(lambda x, y: (x.sin() * 2) + (y.cos() - 1), torch.randn(6), torch.randn(6))


def test_equal_structure_compiles_once():
    def f(x, y):
        return torch.tanh(x) + 1, torch.tanh(y) + 1

    framejit.reset()
    compiled = framejit.to_static(f, backend="native")
    before = _C.kernel_stats()
    compiled(torch.randn(3, 4), torch.randn(100))
    after = _C.kernel_stats()
    made = [after[key] - before[key] for key in ("compiled", "read", "shared")]
    assert sum(made) == 2 and made[2] >= 1


def test_back_end_aten_makes_none():
    before = kernels_asked_for()
    framejit.to_static(lambda x: torch.sin(x) + 1, backend="aten")(torch.randn(4))
    assert kernels_asked_for() == before


# Layouts


LAYOUTS = {
    "transposed": lambda: (torch.randn(4, 6).t(), torch.randn(6, 4)),
    "strided": lambda: (torch.randn(4, 6)[:, ::2], torch.randn(3)),
    "outer": lambda: (torch.randn(1, 6), torch.randn(4, 1)),
    "expanded": lambda: (torch.randn(4, 1).expand(4, 6), torch.randn(6)),
    "channels_last": lambda: (torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), torch.randn(3, 1, 1)),
    "0d": lambda: (torch.randn(()), torch.randn(())),
    "ones": lambda: (torch.randn(3, 1, 1), torch.randn(())),
    "long": lambda: (torch.randn(70001), torch.randn(())),
    "long_transposed": lambda: (torch.randn(300, 301).t(), torch.randn(300)),
    "offset": lambda: (torch.randn(50)[3:], torch.randn(47)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout):
    check(lambda x, y: (torch.relu(x + y) * 2 - y, x * y), *LAYOUTS[layout]())


def test_empty_tensors_make_no_kernel():
    check(lambda x: torch.relu(x) + 1, torch.randn(0, 3), kernels=0)


@pytest.mark.parametrize("count", [*range(1, 35), 63, 64, 65])
def test_tails(count):
    check(lambda x, y: (x * y + 1).sum(-1, keepdim=True) * x, torch.randn(3, count), torch.randn(count))


def test_negative_views_are_made_plain():
    x = torch.randn(6, dtype=torch.complex64).conj().imag
    assert x.is_neg()
    check(lambda x: torch.relu(x * 2) + 1, x)


def test_special_numbers():
    x = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-45, 3e38, -3e38])
    check(lambda x: (torch.relu(x) * 2, torch.maximum(x, -x), torch.sign(x) / x, x.exp().log()), x, kernels=4)


def test_rows_with_nan():
    x = torch.randn(3, 20)
    x[1, 7] = float("nan")
    check(lambda x: (x - x.amax(-1, keepdim=True)).exp(), x)


@pytest.mark.parametrize("shape", [(5, 5), (3, 40), (2, 3, 4), (7,), (6, 1, 6)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_rows_that_lose_their_dimension(shape, dtype):
    x, y = torch.randn(shape).to(dtype), torch.randn(shape[-1:]).to(dtype)
    check(lambda x, y: (x * y + 1).sum(-1), x, y)
    check(lambda x, y: ((x * y).mean(-1) + 1).exp(), x, y, kernels=2)

    def several(x, y):
        z = x * y
        return z.mean(-1), z, z.amax(-1, keepdim=True)

    check(several, x, y)


def test_what_is_left_of_rows_is_read_along_another_dimension():
    """Of a square, each row's sum stands in the place of a column."""
    def f(x):
        y = x * 2
        return y - y.sum(-1)

    def g(x):
        y = (x * 2).sigmoid()
        return y * y.mean(-1, keepdim=True) - y.sum(-1).exp()

    x = torch.randn(6, 6)
    check(f, x)
    check(g, x)
    check(lambda x: (x + 1).mul(2).sum(-1).add_(1), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("affine", [True, False])
def test_layer_norm(dtype, affine):
    norm = nn.LayerNorm(37, elementwise_affine=affine).to(dtype)
    check(lambda x: functional.gelu(norm(x + 1)), torch.randn(4, 5, 37, dtype=dtype).requires_grad_(False))


# Memory


def test_outputs_are_memory_of_their_own():
    def f(x):
        y = torch.sin(x) + 1
        z = y * 2
        return y, z

    compiled = framejit.to_static(f, backend="native")
    x = torch.randn(64)
    first = compiled(x)
    kept = [t.clone() for t in first]
    second = compiled(torch.randn(64))
    pointers = {t.data_ptr() for t in (x, *first, *second)}
    assert len(pointers) == 5 and all(torch.equal(a, b) for a, b in zip(first, kept))


def test_memory_that_is_still_read_is_not_written():
    def f(x):
        a = torch.mm(x, x)
        view = a[0]
        b = torch.sin(a) + 1  # could take a's memory, but for the view
        return b, view + 0

    check(f, torch.randn(8, 8))


def test_dead_memory_is_taken():
    """A product's memory becomes the kernel's result, so that the call allocates one tensor where eager does four."""

    def f(x):
        return torch.sin(torch.mm(x, x)) * 2 + 1

    x = torch.randn(64, 64)

    def allocations(run):
        return sum(size for size in memory_events(run) if size >= x.nbytes)  # not the numbers that become tensors

    compiled = check(f, x)
    assert allocations(lambda: f(x)) == 4 * x.nbytes
    assert allocations(lambda: compiled(x)) == x.nbytes


# In-place operators


def test_writes_are_seen_by_the_kernels_behind_them_alone():
    def f(x):
        a = torch.sin(x) + 1
        b = a * 2
        x.add_(1)
        c = torch.cos(x) + b
        a.mul_(3)
        return c - a, b

    def run(fn):
        x = torch.arange(6.0)
        return (*fn(x), x)

    compiled = framejit.to_static(f, backend="native")
    for _ in range(3):
        for one, other in zip(run(f), run(compiled)):
            assert_close(other, one)


# Training


def test_gradients():
    class Gated(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 8))

        def forward(self, x):
            return torch.sigmoid(torch.tanh(self.body(x)) * torch.sin(x)) * x

    model = Gated()
    x = torch.randn(5, 8, requires_grad=True)
    made = []

    def gradients(fn):
        leaves = [x, *model.parameters()]
        for leaf in leaves:
            leaf.grad = None
        made.append(kernels_asked_for())
        loss = fn(x).pow(2).sum()
        made.append(kernels_asked_for())
        loss.backward()
        made.append(kernels_asked_for())
        return [leaf.grad.clone() for leaf in leaves]

    expected = gradients(model)
    framejit.reset()
    compiled = framejit.to_static(model, backend="native")
    for _ in range(2):
        for one, other in zip(expected, gradients(compiled)):
            assert_close(other, one)
    eager, first, second = made[:3], made[3:6], made[6:]
    assert len(set(eager)) == len(set(second)) == 1
    assert first[0] < first[1] < first[2]  # in the forward, and in the backward


def test_second_derivatives():
    def f(x):
        return (torch.tanh(x) * torch.sin(x) + 1).sum()

    def second(fn):
        x = torch.linspace(-1, 1, 9, dtype=torch.float64, requires_grad=True)
        (first,) = torch.autograd.grad(fn(x), x, create_graph=True)
        return torch.autograd.grad(first.sum(), x)[0]

    assert_close(second(framejit.to_static(f, backend="native")), second(f))


def test_an_error_behind_a_kernel_is_eagers():
    def f(x, index):
        y = torch.sin(x) + 1
        return y[index] * 2

    compiled = framejit.to_static(f, backend="native")
    compiled(torch.randn(4), torch.tensor([1]))
    for fn in (f, compiled):
        with pytest.raises(IndexError, match="out of range|out of bounds"):
            fn(torch.randn(4), torch.tensor([9]))


# Threads


def test_calls_from_several_threads():
    compiled = framejit.to_static(lambda x, y: torch.sigmoid(x * y) + x, backend="native")
    x, y = torch.randn(50000), torch.randn(50000)
    expected = torch.sigmoid(x * y) + x
    compiled(x, y)
    wrong = []

    def call():
        for _ in range(20):
            if not torch.allclose(compiled(x, y), expected, rtol=1e-5, atol=1e-6):
                wrong.append(1)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


WORK_OF_THREADS = """
    import os, sys, time, numpy, torch, framejit
    def nanoseconds():
        tasks = os.listdir("/proc/self/task")
        return {task: int(open("/proc/self/task/%s/schedstat" % task).read().split()[0]) for task in tasks}
    x = torch.from_numpy(numpy.ones((64, 8192), numpy.float32))
    f = framejit.to_static(eval("lambda x: " + sys.argv[1]), backend="native")
    f(x)
    before, end = nanoseconds(), time.perf_counter() + 0.5
    while time.perf_counter() < end:
        found = f(x)
    assert found.numpy().min() == found.numpy().max() == float(sys.argv[2]), found
    assert framejit.stats()["breaks"] == 0 and framejit._C.kernel_stats()["failed"] == 0
    spent = sorted(time - before.get(task, 0) for task, time in nanoseconds().items())
    print(spent[-2] / spent[-1])
"""


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one processor")
@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="no times of threads")
@pytest.mark.parametrize("text,value", [
    ("torch.relu(x) * 2 + 1", 3), ("(x * 2).sum(-1, keepdim=True)", 16384), ("(x[:7] * 2).sum()", 114688)
])  # fmt: skip
def test_rows_are_shared_out_among_threads(text, value):
    """All of a tensor is one row, which nobody shares. Threads that wait take no time."""
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"}
    program = [sys.executable, "-c", textwrap.dedent(WORK_OF_THREADS), text, str(value)]
    run = subprocess.run(program, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert run.returncode == 0, run.stderr
    assert (float(run.stdout) > 0.1) == ("sum()" not in text), run.stdout


# Failures and the disk


def test_without_a_compiler_a_warning_tells(monkeypatch):
    monkeypatch.setattr(
        _api, "_C", type("NoKernels", (), {**vars(_C), "why_no_kernels": staticmethod(lambda: "no LLVM")})
    )
    _api._warn_without_kernels.cache_clear()
    try:
        with pytest.warns(UserWarning, match='"native" runs as "aten" here: no LLVM'):
            framejit.to_static(torch.sin, backend="native")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            framejit.to_static(torch.sin, backend="native")
    finally:
        _api._warn_without_kernels.cache_clear()


PROGRAM = """
    import json, torch, framejit
    f = lambda x: torch.sigmoid(x) * 3 + x
    x = torch.linspace(-2, 2, 33)
    found = framejit.to_static(f, backend="native")(x)
    assert torch.allclose(found, f(x), rtol=1e-6), (found, f(x))
    print(json.dumps(framejit._C.kernel_stats()))
"""


def run_with_cache(folder):
    environment = {**os.environ, "FRAMEJIT_CACHE_DIR": str(folder)}
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    return {key: int(value) for key, value in re.findall(r'"(compiled|read|failed)": (\d+)', run.stdout)}


def test_kernels_are_kept_on_disk(tmp_path):
    """What becomes of files that are cut off, changed or another's: tests/unit/codegen/disk_cache_test.cpp."""
    folder = tmp_path / "kernels"
    assert run_with_cache(folder) == {"compiled": 1, "read": 0, "failed": 0}
    assert [file.suffix for file in folder.iterdir()] == [".kernel"]
    assert run_with_cache(folder) == {"compiled": 0, "read": 1, "failed": 0}

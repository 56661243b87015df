"""Back end native on CUDA devices, on a machine that has none: the kernels' CUDA text is compiled for the host and run as
blocks of threads, behind a driver that is a fake (support/fake_cuda.py); NVRTC itself compiles it for real devices."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from torch.nn import functional

import framejit
import test_expressions as expressions
import test_native
import test_native_operators as operators
from framejit import _C
from support import cuda_texts
from support.fake_cuda import fake_cuda, on_device, on_host, why_no_fake
from support.native import kernels_asked_for

GOLDEN = Path(__file__).parent.parent / "golden" / "kernels"
PRELUDE_END = "#endif\n"


@pytest.fixture(scope="module")
def fake():
    if why_no_fake():
        pytest.skip(why_no_fake())
    with fake_cuda() as library:
        yield library


def assert_close(found, expected):
    test_native.assert_close(on_host(found), expected)


def check(fn, *args, kernels=1, launches=None, calls=2):
    """Calls on a device give what eager gives on the host, and nothing but kernels runs: no operator could."""
    framejit.reset()
    before = kernels_asked_for()
    compiled = framejit.to_static(fn, backend="native")
    for _ in range(calls):
        expected, found = fn(*args), compiled(*on_device(args))
        pairs = zip(expected, found) if isinstance(expected, tuple) else [(expected, found)]
        for one, other in pairs:
            assert other.device == torch.device("cuda", 0)
            assert_close(other, one)
    assert kernels_asked_for() - before == kernels
    assert framejit.stats()["captures"] == 1 and framejit.stats()["hits"] == calls - 1
    return compiled


# The text


def bodies(name):
    graph = textwrap.dedent(test_native.GRAPHS[name]).strip() + "\n"
    texts = _C._testing.cuda_kernels(graph)
    assert all(text.count(PRELUDE_END) == 1 for text in texts)
    return "---\n".join(text.partition(PRELUDE_END)[2] for text in texts)


@pytest.mark.parametrize("name", ["chain", "half", "rows", "channels"])
def test_text_of_kernels(name):
    golden = GOLDEN / (name + "_cuda.txt")
    if os.environ.get("FRAMEJIT_WRITE_GOLDEN"):
        golden.write_text(bodies(name))
    assert bodies(name) == golden.read_text()


@pytest.mark.parametrize("architecture", cuda_texts.ARCHITECTURES)
def test_nvrtc_takes_the_text(architecture):
    """./dev test has it compile all kernels that the tests make: support/cuda_texts.py."""
    reason = cuda_texts.why_no_compiler()
    if reason:
        pytest.skip("no NVRTC: " + reason)
    texts = {}
    for name, graph in test_native.GRAPHS.items():
        for i, text in enumerate(_C._testing.cuda_kernels(textwrap.dedent(graph).strip() + "\n")):
            texts["{} {}".format(name, i)] = text
    assert len(texts) >= 5 and cuda_texts.refused(texts, architecture) == []
    broken = texts["half 0"].replace("load_bf16(p0)", "load_bf17(p0)")
    ((name, reason),) = cuda_texts.refused({**texts, "half 0": broken}, architecture)
    assert name == "half 0" and "load_bf17" in reason


def test_each_device_has_kernels_of_its_own():
    graph = """
        graph @two (%0: tensor<8xf32, cuda:0>, %1: tensor<8xf32, cuda:1>, %2: tensor<f32, cpu>) {
          %3 = aten.sin(%0) : tensor<8xf32, cuda:0>
          %4 = aten.cos(%1) : tensor<8xf32, cuda:1>
          %5 = aten.exp(%3) : tensor<8xf32, cuda:0>
          %6 = aten.neg(%4) : tensor<8xf32, cuda:1>
          %7 = aten._to_copy(%5, none, none, "cuda:1", none, false, none) : tensor<8xf32, cuda:1>
          %8 = aten.mul.Tensor(%7, %6) : tensor<8xf32, cuda:1>
          %9 = aten.mul.Tensor(%8, %2) : tensor<8xf32, cuda:1>
          return %8, %9
        }"""
    kernels = _C._testing.kernels(textwrap.dedent(graph).strip() + "\n")
    assert [[op for op in ("sin", "cos", "exp", "neg", "*") if " {} %".format(op) in kernel] for kernel in kernels] == [
        ["sin", "exp"],
        ["cos", "neg", "*"],
    ]


@pytest.mark.parametrize("mode,dtype,device,fuses", [
    ("trunc", "f32", "cuda:0", False),
    ("trunc", "f32", "cpu", True),
    ("trunc", "bf16", "cuda:0", False),
    ("floor", "f32", "cuda:0", True),
])  # fmt: skip
def test_quotients_that_the_devices_operator_rounds_first_are_left_to_it(mode, dtype, device, fuses):
    """It multiplies by the reciprocal of a number: what is truncated then is another whole number."""
    graph = """
        graph @quotient (%0: tensor<8x{0}, {1}>) {{
          %1 = aten.div.Scalar_mode(%0, 49, "{2}") : tensor<8x{0}, {1}>
          %2 = aten.neg(%1) : tensor<8x{0}, {1}>
          return %2
        }}"""
    text = textwrap.dedent(graph.format(dtype, device, mode)).strip() + "\n"
    assert len(_C._testing.kernels(text)) == fuses


@pytest.mark.parametrize("device,kernels", [("cuda:0", 0), ("cpu", 1)])
def test_batch_norm_in_training_is_left_to_the_devices_library(device, kernels):
    graph = """
        graph @norm (%0: tensor<2x3x4x5xf32, {0}>, %1: tensor<3xf32, {0}>, %2: tensor<3xf32, {0}>) {{
          %3, %4, %5 = aten.native_batch_norm(%0, none, none, %1, %2, true, 0.1, 1e-05) : tensor<2x3x4x5xf32, {0}>, tensor<3xf32, {0}>, tensor<3xf32, {0}>
          %6 = aten.relu(%3) : tensor<2x3x4x5xf32, {0}>
          return %6
        }}"""
    assert len(_C._testing.kernels(textwrap.dedent(graph.format(device)).strip() + "\n")) == kernels


# What kernels compute

TOGETHER = 14  # operators in one kernel, which takes the host's compiler some 0.3 s


def settings(name, kind, dtype):
    """The first call of an operator that kernels take, or none."""
    schema = expressions.FOUND[name][0]
    for positional, keywords in operators.settings_of(name, schema, kind, dtype):
        tensors = [a for a in [*positional, *keywords.values()] if isinstance(a, torch.Tensor)]
        refused = operators.is_refused(name, kind, dtype, positional) or (
            name == "aten::div.Scalar_mode" and kind == "float" and keywords["rounding_mode"] == "trunc"
        )
        if not refused and all(a.dim() == 1 for a in tensors):
            return positional, keywords
    return None


def batches():
    """All operators, in one type each, another for each batch; those of floats in f32 too."""
    for kind, dtypes in operators.DTYPES.items():
        names = [name for name, of in operators.ELEMENTWISE if of == kind]
        for number, first in enumerate(range(0, len(names), TOGETHER)):
            chosen = {dtypes[0], dtypes[number % len(dtypes)]} if kind == "float" else {dtypes[number % len(dtypes)]}
            for dtype in dtypes if operators.ALL else sorted(chosen, key=str):
                yield kind, dtype, names[first : first + TOGETHER]


def batch_name(batch):
    return "{}-{}".format(str(batch[1]).replace("torch.", ""), batch[2][0].replace("aten::", ""))


# Where an infinite argument meets what is nearly 0, the order of the products decides between infinite and no number;
# so it does in oneDNN's gelu on processors with AVX-512, which eager takes.
OF_FINITE_NUMBERS = {"aten::gelu", "aten::gelu_backward"}


TORCH = tuple(int(part) for part in torch.__version__.split(".")[:2])
SIXTH = torch.tensor(1 / 6, dtype=torch.float32).double()  # CUDA's kernels of f64 have it in f32, too


def sixths(factor):
    def of(result, x):
        return (factor(x.double()) * (x.double() + 3).clamp(0, 6) * SIXTH).to(result.dtype)

    return of


def nan_passes(result, gradient, x, *_):
    return torch.where(x.isnan(), gradient, result)


def hardswish_gradient(result, gradient, x):
    passed = nan_passes(result, gradient, x)
    return passed if TORCH >= (2, 8) else torch.where(x == 3, gradient * 1.5, passed)


# Where CUDA's own kernel differs from the processor's: what it makes of the processor's result and of the arguments.
# tests/python/test_gpu.py holds ours against CUDA's on a device.
OTHERWISE_ON_CUDA = {
    "aten::hardswish": sixths(lambda x: x),
    "aten::hardsigmoid": sixths(torch.ones_like),
    "aten::hardswish_backward": hardswish_gradient,
    "aten::hardtanh_backward": nan_passes,
    "aten::hardshrink_backward": nan_passes,
    "aten::softshrink_backward": nan_passes,
    "aten::elu_backward": lambda result, gradient, alpha, scale, *rest: nan_passes(result, gradient * scale, rest[-1]),
    "aten::logit_backward": lambda result, gradient, x, *_: torch.where(x.isnan(), x, result),
}


@pytest.mark.parametrize("batch", list(batches()), ids=batch_name)
def test_operators(fake, batch):
    kind, dtype, names = batch
    calls = [(name, settings(name, kind, dtype)) for name in names]
    calls = [(expressions.overload(name), *found) for name, found in calls if found]

    finite_only = {expressions.overload(name) for name in OF_FINITE_NUMBERS}

    def f(calls):
        results, together = [], None
        for op, positional, keywords in calls:
            result = op(*positional, **keywords)
            results.append(result)
            is_zero = torch.logical_not(result)  # what they are one kernel by
            together = is_zero if together is None else torch.logical_xor(together, is_zero)
        return results, together

    placed = [(op, on_device(list(p)), {k: on_device(v) for k, v in kw.items()}) for op, p, kw in calls]
    before, launched = kernels_asked_for(), fake.launches
    found = on_host(framejit.to_static(f, backend="native")(placed))
    expected = f(calls)
    assert kernels_asked_for() - before == fake.launches - launched > 0
    otherwise = {expressions.overload(name): function for name, function in OTHERWISE_ON_CUDA.items()}
    for (op, positional, _), one, other in zip(calls, expected[0], found[0]):
        if op in otherwise:
            one = otherwise[op](one, *positional)
        text = "{} {} {}".format(op, dtype, [a for a in positional if not isinstance(a, torch.Tensor)])
        assert (other.dtype, other.shape) == (one.dtype, one.shape), text
        if op in finite_only:
            finite = torch.stack([a.isfinite() for a in positional if isinstance(a, torch.Tensor)]).all(0)
            one, other = one[finite], other[finite]
        assert operators.is_close(other, one), "{}: {} for {}".format(text, other, one)


def test_halves_are_those_of_torch(fake):
    """All f16 and bf16, and numbers round each boundary between two of them."""
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    near = (torch.arange(-300, 300) * 7919 + 0x33000000).to(torch.int32)
    single = torch.cat([torch.arange(-(2**31), 2**31 - 1, 65521 * 3).to(torch.int32), near]).view(torch.float32)
    borders = bits.view(torch.float16).float()
    step = torch.nextafter(borders, torch.tensor(float("inf")))
    middle = (borders + bits.add(1).view(torch.float16).float()) / 2  # ties
    single = torch.cat([single, borders, step, middle, torch.nextafter(middle, torch.tensor(float("inf")))])
    for dtype in (torch.float16, torch.bfloat16):
        whole = bits.view(dtype)
        framejit.reset()
        widen = framejit.to_static(lambda x: x.float().neg().neg(), backend="native")
        narrow = framejit.to_static(lambda x: x.neg().neg().to(dtype), backend="native")
        found = on_host(widen(on_device(whole)))
        assert torch.equal(found.isnan(), whole.isnan())
        assert torch.equal(found[~found.isnan()].view(torch.int32), whole.float()[~found.isnan()].view(torch.int32))
        found, expected = on_host(narrow(on_device(single))), single.to(dtype)
        assert torch.equal(found.isnan(), expected.isnan())
        number = ~expected.isnan()
        assert torch.equal(found[number].view(torch.int16), expected[number].view(torch.int16))


LAYOUTS = {
    **test_native.LAYOUTS,
    "long_transposed": lambda: (torch.randn(30, 31).t(), torch.randn(30)),
    "four": lambda: (torch.randn(2, 3, 4, 5)[:, :, ::2, 1:], torch.randn(2, 1, 2, 1)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(fake, layout):
    def f(x, y):
        a = torch.relu(x + y)
        return a * 2 - y, a * x

    check(f, *LAYOUTS[layout]())


def test_special_numbers(fake):
    x = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-45, 3e38, -3e38])
    check(lambda x: (torch.relu(x) * 2, torch.maximum(x, -x), torch.sign(x) / x, x.exp().log()), x, kernels=4)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int8, torch.int16])
def test_integers_wrap_around(fake, dtype):
    x = torch.tensor([torch.iinfo(dtype).min, torch.iinfo(dtype).max, -1, 0, 1, 3, 77], dtype=dtype)
    check(lambda x: (x * x + x, -x - x, x.abs() + 0), x, kernels=3)


# Rows


@pytest.mark.parametrize("count", [2, 3, 31, 32, 33, 63, 64, 65, 255, 256, 257, 1000])
def test_rows_of_any_length(fake, count):
    check(lambda x, y: (x * y + 1).sum(-1, keepdim=True) * x, torch.randn(19, count), torch.randn(count))
    width = next(width for width in (32, 64, 128, 256) if count <= width or width == 256)
    assert (fake.last_width, fake.last_lines) == (width, 256 // width)


def test_one_text_serves_all_sizes(fake):
    made = fake.compilations
    for rows, count in ((3, 5), (7, 300), (40, 2)):
        check(lambda x: x - x.amax(-1, keepdim=True) * 3, torch.randn(rows, count))
    assert fake.compilations - made == 1


@pytest.mark.parametrize("blocks", [1, 3])
def test_fewer_blocks_than_the_work_asks_for(fake, blocks):
    with fake.at_most_blocks(blocks):
        check(lambda x, y: torch.relu(x + y) * 2, torch.randn(41, 37), torch.randn(41, 1))
        check(lambda x: x / x.sum(-1, keepdim=True), torch.rand(41, 37) + 1)


REDUCTIONS = {
    "sum": lambda x: x.sum(-1, keepdim=True) + 1,
    "prod": lambda x: x.prod(-1, keepdim=True) + 1,
    "amax": lambda x: x.amax(-1, keepdim=True) + 1,
    "amin": lambda x: x.amin(-1, keepdim=True) + 1,
    "any": lambda x: (x > 2).any(-1, keepdim=True) ^ True,
    "all": lambda x: (x >= 0).all(-1, keepdim=True) ^ True,
    "levels": lambda x: (x - x.amax(-1, keepdim=True)).mul(x.amin(-1, keepdim=True)).sum(-1, keepdim=True) * x,
}


@pytest.mark.parametrize("which,dtype", [
    *((which, torch.float32) for which in REDUCTIONS),
    *((which, torch.uint8) for which in ("sum", "prod", "amin", "any")),
    *((which, torch.int32) for which in ("sum", "amax", "all")),
    *((which, torch.bfloat16) for which in ("sum", "levels")),
    *((which, torch.float64) for which in ("prod", "amin", "levels")),
])  # fmt: skip
def test_reductions(fake, which, dtype):
    torch.manual_seed(0)
    x = torch.randint(0, 5, (9, 45)).to(dtype)
    if dtype.is_floating_point:
        x = torch.randn(9, 45).to(dtype)
        x[2, 3] = float("nan")
        x[3, 4] = -float("inf")
    before = kernels_asked_for()
    found = on_host(framejit.to_static(REDUCTIONS[which], backend="native")(on_device(x)))
    test_native.assert_close(found, REDUCTIONS[which](x))
    assert kernels_asked_for() > before


@pytest.mark.parametrize("dims", [(0, 2, 3), (2, 3), (0, 3)], ids=str)
def test_rows_of_several_loops(fake, dims):
    x, y = torch.randn(3, 4, 5, 7), torch.randn(3, 1, 1, 1)
    check(lambda x, y: (x * y + 1).sum(dims, keepdim=True) * x + y, x, y)
    check(lambda x, y: (x * y + 1).amax(dims), x, y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_norms(fake, dtype):
    x, w, b = torch.randn(4, 5, 37, dtype=dtype), torch.randn(37, dtype=dtype), torch.randn(37, dtype=dtype)
    check(lambda x, w, b: functional.gelu(functional.layer_norm(x + 1, [37], w, b)), x, w, b)
    check(lambda x: functional.softmax(x * 0.5, -1) * 2, x)
    check(lambda x: functional.log_softmax(x * 0.5, -1) * 2, x)
    check(lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6), x)


@pytest.mark.parametrize("softmax", ["_softmax", "_log_softmax"])
def test_gradients_of_norms(fake, softmax):
    backward = getattr(torch.ops.aten, softmax + "_backward_data")
    y = torch.softmax(torch.randn(6, 33), -1)
    check(lambda g, y: backward(g * 2, y if softmax == "_softmax" else y.log(), 1, torch.float32), torch.randn(6, 33), y)


def test_batch_norm_with_given_statistics(fake):
    x, w, b, mean, var = torch.randn(2, 5, 3, 4), *(torch.rand(5) + 0.5 for _ in range(4))
    for x in (x, x.to(memory_format=torch.channels_last)):
        check(lambda *a: torch.relu(torch.native_batch_norm(*a, False, 0.1, 1e-5)[0]) + 1, x, w, b, mean, var)


TRAINING = """
    import sys
    import torch, framejit
    from framejit import _C
    from support.fake_cuda import fake_cuda, on_device, on_host

    def f(x, w):
        return torch.sigmoid(torch.tanh(x) * torch.sin(x)) * w + 1

    with fake_cuda() as fake:
        x, w, seed = torch.randn(5, 8, requires_grad=True), torch.randn(8), torch.randn(5, 8)
        placed = on_device(x)
        try:
            _C._testing.record(f, (placed, on_device(w)))
        except ValueError as refused:
            assert "hasPrimaryContext" in str(refused), refused
            sys.exit("this torch is built with CUDA, and its autograd engine asks the driver, which is not there")
        compiled = framejit.to_static(f, backend="native")
        (expected,) = torch.autograd.grad(f(x, w), x, seed)
        for _ in range(2):
            y = compiled(placed, on_device(w))
            launched = fake.launches
            (found,) = torch.autograd.grad(y, placed, on_device(seed))
            torch.testing.assert_close(on_host(found), expected)
            assert fake.launches > launched and fake.last_stream == 81
    print("trained")
"""


def test_gradients():
    """In LibTorch's own threads, as it runs the backward of a device's tensors: it starts one for each device when it is
    first used, so this is a process of its own."""
    if why_no_fake():
        pytest.skip(why_no_fake())
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(TRAINING)],
        cwd=str(Path(__file__).parent),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if "asks the driver" in run.stderr:
        pytest.skip(run.stderr.strip())
    assert run.returncode == 0 and run.stdout.strip() == "trained", run.stderr


# Writes


def test_a_step_of_adam(fake):
    def step(p, g, m, v):
        m.mul_(0.9).add_(g, alpha=0.1)
        v.mul_(0.999).addcmul_(g, g, value=0.001)
        p.addcdiv_(m, v.sqrt().add_(1e-8), value=-1e-3)

    torch.manual_seed(0)
    expected = [torch.rand(5, 7) + 0.1 for _ in range(4)]
    memory = [t.clone() for t in expected]
    found = on_device(memory)
    compiled = framejit.to_static(step, backend="native")
    launched = fake.launches
    for _ in range(3):
        step(*expected)
        compiled(*found)
    assert fake.launches - launched == 3
    assert [t._version for t in found] == [t._version for t in expected]
    for one, other in zip(expected, memory):
        torch.testing.assert_close(other, one)


def test_inputs_that_overlap_are_left_to_the_operators(fake):
    """What is written is read through another input: the order of the operators shows."""
    library = torch.library.Library("aten", "IMPL")
    for name in ("mul_", "add_"):

        def run(written, *args, name=name, **kwargs):
            getattr(on_host(written), name)(*(on_host(a) for a in args), **kwargs)
            return written

        library.impl(name + ".Tensor", run, "CUDA")
    compiled = framejit.to_static(lambda x, y: x.mul_(2).add_(y), backend="native")
    launched = []
    for shift in (8, 0, 8):
        memory = torch.arange(16.0)
        expected = memory.clone()
        expected[:8].mul_(2).add_(expected[shift : shift + 8])
        before = fake.launches
        compiled(on_device(memory[:8]), on_device(memory[shift : shift + 8]))
        launched.append(fake.launches - before)
        assert torch.equal(memory, expected)
    library._destroy()
    assert launched == [1, 0, 1]


def test_dead_memory_is_not_taken(fake):
    """Another stream may still read it: it goes back to the allocator, which knows."""

    def f(x):
        y = torch.sin(x) + 1
        return torch.softmax(y, -1) * 2, y

    check(f, torch.randn(3, 64))


# Streams, devices and contexts


def test_kernels_run_in_the_stream_and_context_of_their_device(fake):
    compiled = framejit.to_static(lambda x: torch.relu(x) * 2, backend="native")
    x = torch.randn(8)
    for index in (0, 1, 0):
        found = compiled(on_device(x, "cuda:{}".format(index)))
        assert found.device.index == index
        assert_close(found, torch.relu(x) * 2)
        assert (fake.last_stream, fake.last_context) == (81 + index, 110 + index)
    assert fake.library.context_count() == 0
    assert len(compiled.graphs) == 2


def test_the_architecture_is_the_devices(fake):
    for index, architecture in ((0, "sm_90"), (1, "sm_80")):
        framejit.reset()
        framejit.to_static(lambda x: torch.relu(x) * 5 - 2, backend="native")(
            on_device(torch.randn(8), "cuda:{}".format(index))
        )
        assert "--gpu-architecture={} ".format(architecture) in fake.options and "--fmad=false" in fake.options


# The disk and failures


def test_kernels_are_kept_on_disk(fake):
    f = framejit.to_static(lambda x: torch.relu(x) * 7 - 3, backend="native")
    x = torch.randn(8)
    f(on_device(x))
    before, made = _C.kernel_stats(), fake.compilations
    framejit.reset()
    _C._testing.use_cuda_libraries(fake.path, fake.path)  # a process that starts
    assert_close(f(on_device(x)), torch.relu(x) * 7 - 3)
    after = _C.kernel_stats()
    assert (after["read"] - before["read"], after["compiled"] - before["compiled"]) == (1, 0)
    assert fake.compilations == made


@pytest.fixture
def operators_on_device():
    """Operators run on the device too: some of them, on the host's memory."""
    library = torch.library.Library("aten", "IMPL")
    ran = []

    def add(name):
        packet, _, overload = name.partition(".")

        def run(*args, **kwargs):
            ran.append(name)
            op = getattr(getattr(torch.ops.aten, packet), overload or "default")
            return on_device(op(*[on_host(a) for a in args], **kwargs))

        library.impl(name, run, "CUDA")

    for name in ("relu", "mul.Tensor", "sub.Tensor"):
        add(name)
    yield ran
    library._destroy()


FAILURES = {
    "cuInit": "cuInit: fake error \\(719\\)",
    "cuDeviceGet": "cuDeviceGet: fake error",
    "cuDeviceGetAttribute": "cuDeviceGetAttribute: fake error",
    "cuDevicePrimaryCtxRetain": "cuDevicePrimaryCtxRetain: fake error",
    "cuModuleLoadData": "cuModuleLoadData: fake error",
    "nvrtcCompileProgram": "NVRTC: FAKE_COMPILATION: no such luck",
}


@pytest.mark.parametrize("failing", FAILURES)
def test_where_a_kernel_cannot_be_made_the_operators_run(fake, operators_on_device, failing):
    number = 100 + sorted(FAILURES).index(failing)
    f = framejit.to_static(lambda x: torch.relu(x) * number - 1, backend="native")
    x = torch.randn(8)
    before = _C.kernel_stats()
    with fake.failing(failing):
        _C._testing.use_cuda_libraries(fake.path, fake.path)
        for _ in range(2):
            assert_close(f(on_device(x)), torch.relu(x) * number - 1)
    _C._testing.use_cuda_libraries(fake.path, fake.path)
    after = _C.kernel_stats()
    assert after["failed"] - before["failed"] == 1
    assert re.search(FAILURES[failing], after["failure"])
    assert operators_on_device == ["relu", "mul.Tensor", "sub.Tensor"] * 2


@pytest.mark.parametrize("missing", ["nvrtc", "driver"])
def test_without_a_library_the_operators_run(fake, operators_on_device, missing):
    libraries = [fake.path, fake.path]
    libraries[missing == "driver"] = "/nowhere/lib{}.so".format(missing)
    number = len(missing) + 200
    f = framejit.to_static(lambda x: torch.relu(x) * number - 1, backend="native")
    x = torch.randn(8)
    _C._testing.use_cuda_libraries(*libraries)
    try:
        assert_close(f(on_device(x)), torch.relu(x) * number - 1)
    finally:
        _C._testing.use_cuda_libraries(fake.path, fake.path)
    assert "/nowhere/lib{}.so".format(missing) in _C.kernel_stats()["failure"]
    assert operators_on_device == ["relu", "mul.Tensor", "sub.Tensor"]


def test_a_launch_that_fails_is_an_error_as_in_eager(fake, operators_on_device):
    f = framejit.to_static(lambda x: torch.relu(x) * 11 - 1, backend="native")
    x = torch.randn(8)
    f(on_device(x))
    with fake.failing("cuLaunchKernel"):
        assert_close(f(on_device(x)), torch.relu(x) * 11 - 1)  # the code runs in the interpreter
        assert operators_on_device == ["relu", "mul.Tensor", "sub.Tensor"]
        y = on_device(x.clone())
        g = framejit.to_static(lambda x: x.mul_(2).sub_(1), backend="native")
        with pytest.raises(RuntimeError, match="CUDA error in a kernel of framejit: cuLaunchKernel: fake error"):
            g(y)
    assert_close(f(on_device(x)), torch.relu(x) * 11 - 1)
    assert len(operators_on_device) == 3

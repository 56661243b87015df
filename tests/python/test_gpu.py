"""Real moves and real kernels on a CUDA device. tests/python/test_placement.py says what is inferred without one."""

import collections
import copy
import re

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

import framejit
import test_expressions as expressions
import test_native_operators as operators
from framejit import _C
from support.counts import counting
from support.native import kernels_asked_for
from support.same_as_eager import assert_same_as_eager, at_least
from test_placement import OPERATORS, facts

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device: torch.cuda.is_available() is False"),
]
two_devices = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")

CUDA0 = torch.device("cuda", 0)


def x23(device="cpu", **options):
    return (
        (torch.arange(6.0).reshape(2, 3) - 2.5).to(device).requires_grad_(**options)
        if options
        else (torch.arange(6.0).reshape(2, 3) - 2.5).to(device)
    )


def check(fn, *args, **options):
    return assert_same_as_eager(fn, *args, **options)


class Copies(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.counts = collections.Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.__name__.split(".")[0]
        if name in ("_to_copy", "copy_", "_pin_memory"):
            self.counts["aten::" + name] += 1
        return func(*args, **(kwargs or {}))


def copies_of(graph):
    names = re.findall(r"= aten\.(\w+)", graph.text)
    return collections.Counter("aten::" + name for name in names if name in ("_to_copy", "copy_", "_pin_memory"))


MOVES = {
    "there and back": lambda x: (x.cuda() * 2).cpu(),
    "there": lambda x: (x + 1).cuda(),
    "to": lambda x: (x.to("cuda", torch.float16) * 2).to(x),
    "non-blocking": lambda x: x.cuda(non_blocking=True) + 1,
    "pinned": lambda x: (x + 1).pin_memory().cuda(non_blocking=True) * 2,
    "into another": lambda x: torch.empty(2, 3, device="cuda").copy_(x),
    "back into another": lambda x: torch.empty(2, 3).copy_(x.cuda() + 1),
    "a factory": lambda x: (torch.ones(3, device="cuda") + x.cuda()).cpu(),
    "data": lambda x: torch.tensor([1.0, 2.0, 3.0], device="cuda") + x.cuda(),
    "not moved": lambda x: x.cuda().cuda().to("cuda:0"),
}


@pytest.mark.parametrize("which", MOVES)
def test_moves_are_real_and_as_many_as_in_eager(which):
    fn = MOVES[which]
    with Copies() as eager:
        expected = fn(x23())
    compiled = check(fn, x23())
    assert compiled(x23()).device == expected.device
    assert copies_of(compiled.graphs[0]) == eager.counts


def test_a_call_with_a_tensor_of_another_device_is_another_capture():
    compiled = check(lambda x: (x * 2, x.device, x.is_cuda), x23(), miss=lambda x: (x.cuda(),))
    assert len(compiled.graphs) == 2


@pytest.mark.parametrize("which", OPERATORS)
def test_kernels_return_what_was_inferred(which):
    fn, left, right = OPERATORS[which]

    def make():
        torch.manual_seed(0)
        return torch.rand(left, device="cuda"), torch.rand(right, device="cuda")

    compiled = framejit.to_static(lambda x, y: fn(x, y))
    torch.manual_seed(1)
    expected = fn(*make())
    torch.manual_seed(1)
    result = compiled(*make())
    assert facts(result) == facts(expected)
    torch.testing.assert_close(result, expected)


def test_a_moved_weight_is_trained():
    def f(x, w):
        return F.relu(x @ w.cuda()).sum()

    def make():
        torch.manual_seed(0)
        return (torch.randn(4, 3, device="cuda"), torch.randn(3, 5, requires_grad=True)), {}

    check(f, make=make, after=lambda loss: loss.backward(), miss=None)


def test_a_model_is_trained():
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(), torch.nn.Linear(8, 4),
    ).cuda()  # fmt: skip
    x, target = torch.randn(2, 3, 8, 8, device="cuda"), torch.tensor([1, 3], device="cuda")
    eager = copy.deepcopy(net)
    framejit.to_static(net)

    def gradients(model):
        model.zero_grad(set_to_none=True)
        F.cross_entropy(model(x), target).backward()
        return [p.grad.clone() for p in model.parameters()]

    with torch.backends.cudnn.flags(deterministic=True, benchmark=False):
        expected = gradients(eager)
        with counting() as counted:
            for _ in range(3):
                for mine, theirs in zip(gradients(net), expected):
                    torch.testing.assert_close(mine, theirs)
    assert (counted.captures, counted.hits, counted.breaks) == (1, 2, 0)


def test_attention_takes_the_kernel_that_eager_takes():
    q = torch.randn(1, 4, 16, 32, device="cuda", dtype=torch.float16)
    check(lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), q, miss=None)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast(dtype):
    def f(x, w):
        with torch.autocast("cuda", dtype=dtype):
            return (x @ w).softmax(-1), x + w

    check(f, torch.randn(3, 3, device="cuda"), torch.randn(3, 3, device="cuda"), miss=None)


def test_random_numbers_are_those_of_eager():
    def f(x):
        return (
            torch.rand(3, device="cuda"),
            F.dropout(x, 0.5),
            torch.randn_like(x),
            x.clone().uniform_(),
            torch.randn(2),
        )

    check(f, x23("cuda"))


def test_a_generator_of_the_device():
    generator = torch.Generator("cuda")

    def f(x):
        return torch.rand(3, generator=generator, device="cuda") + x

    compiled = framejit.to_static(f)
    for run in (f, compiled, compiled):
        generator.manual_seed(5)
        first = run(torch.zeros(3, device="cuda"))
        generator.manual_seed(5)
        assert first.equal(torch.rand(3, generator=generator, device="cuda"))


MIXED = {
    "add": lambda x, y: x + y,
    "matmul": lambda x, y: x @ y.t(),
    "cat": lambda x, y: torch.cat([x, y]),
    "linear": lambda x, y: F.linear(x, y),
    "in place": lambda x, y: x.clone().add_(y),
    "index": lambda x, y: y[x.long().clamp(0, 1)],
}


@pytest.mark.parametrize("which", MIXED)
def test_mixed_devices_raise_as_eager(which):
    fn = MIXED[which]
    compiled = framejit.to_static(lambda x, y: (x + 1, fn(x, y)))
    with pytest.raises((RuntimeError, IndexError)) as eager:
        fn(x23("cuda"), x23())
    for _ in range(3):
        with pytest.raises(eager.type) as raised:
            compiled(x23("cuda"), x23())
        assert str(raised.value) == str(eager.value)
    assert compiled(x23("cuda"), x23("cuda"))[0].equal(x23("cuda") + 1)


def test_numbers_and_indices_on_the_cpu():
    n, i = torch.tensor(2.0), torch.tensor([1, 0])
    check(lambda x, n, i: (x * n, n - x, x > n, torch.where(x > 0, x, n), x[i]), x23("cuda"), n, i, miss=None)


def test_a_device_context():
    def f(x):
        with torch.device("cuda"):
            made = torch.zeros(3)
        return made + x.cuda(), torch.zeros(3)

    check(f, x23())
    with torch.device("cuda"):
        check(
            lambda x: (torch.ones(3) + x.cuda(), torch.get_default_device()),
            x23("cpu"),
            graphs=at_least(1),
            breaks=None,
        )


def test_facts_of_the_device():
    def f(x):
        if torch.cuda.is_bf16_supported() and torch.cuda.get_device_capability() >= (8, 0):
            x = x.bfloat16().float()
        return x + torch.cuda.device_count(), torch.cuda.get_device_name(0), torch.cuda.current_device()

    check(f, x23("cuda"))


def test_pinned_memory():
    check(lambda x: ((x + 1).pin_memory().is_pinned(), (x * 2).pin_memory()), x23())
    pinned = x23().pin_memory()
    compiled = framejit.to_static(lambda x: (x + 1, x.is_pinned()))
    assert compiled(pinned)[1] is True and compiled(x23())[1] is False


def test_a_failure_is_undone_with_the_generator():
    def f(x, index, log):
        log.append(1)
        noise = torch.rand(2, device="cuda")
        return x[index], noise

    check(
        f, x23(), torch.tensor([5]), [], raises=IndexError, miss=None, graphs=at_least(1), fallbacks=None, breaks=None
    )


@two_devices
def test_the_current_device_is_guarded():
    compiled = framejit.to_static(lambda x: (x.cuda(), torch.ones(2, device="cuda") + 1))
    for index in (0, 1, 0, 1):
        with torch.cuda.device(index):
            assert {t.device.index for t in compiled(x23())} == {index}
    assert len(compiled.graphs) == 2


@two_devices
def test_a_context_of_a_device_inside():
    def f(x):
        with torch.cuda.device(1):
            inside = x.cuda() + 1
        return inside, x.cuda()

    compiled = framejit.to_static(f)
    for _ in range(2):
        assert [t.device.index for t in compiled(x23())] == [1, 0]
        assert torch.cuda.current_device() == 0


@two_devices
def test_from_one_device_to_another():
    check(lambda x: (x.to("cuda:1") * 2).to("cuda:0"), x23("cuda:0"), miss=None)


# Kernels of the back end native. Their text is tested without a device in test_native_cuda.py.


def check_native(fn, *args, rtol=2e-5, atol=2e-5):
    """Cold and warm calls give what eager gives on the device, and kernels ran."""
    framejit.reset()
    made, failed = kernels_asked_for(), _C.kernel_stats()["failed"]
    compiled = framejit.to_static(fn, backend="native")
    for _ in range(2):
        expected, found = fn(*args), compiled(*args)
        assert facts(found) == facts(expected)
        torch.testing.assert_close(found, expected, rtol=rtol, atol=atol, equal_nan=True)
    assert _C.kernel_stats()["failed"] == failed, _C.kernel_stats()["failure"]
    assert kernels_asked_for() > made
    return compiled


NATIVE = {
    "chain": lambda x, y: (torch.relu(x * y + 1) - x).tanh(),
    "broadcast": lambda x, y: torch.sigmoid(x + y[0]) * y[:, :1],
    "transposed": lambda x, y: torch.relu(x.t() + y.t()) * 2,
    "strided": lambda x, y: x[:, ::2] * y[:, 1::2] + 1,
    "bfloat16": lambda x, y: (x.bfloat16() * y.bfloat16()).exp() + 1,
    "float16": lambda x, y: (x.half() * y.half() - 0.3).sin() + 1,
    "float64": lambda x, y: (x.double() * y.double()).erf().log1p() * 2,
    "integers": lambda x, y: (x * 100).to(torch.int32).float() + ((x > y) | (y > 1)),
    "layer norm": lambda x, y: F.gelu(F.layer_norm(x + 1, [x.shape[-1]], y[0], y[1])),
    "softmax": lambda x, y: torch.softmax(x * 0.5, -1) * y,
    "log softmax": lambda x, y: torch.log_softmax(x * 0.5, -1) * y,
    "rows": lambda x, y: x * torch.rsqrt((x * y).pow(2).mean(-1, keepdim=True) + 1e-6),
    "levels": lambda x, y: ((x - x.amax(-1, keepdim=True)).exp() * y).sum(-1, keepdim=True) + x.amin(-1, keepdim=True),
}


@pytest.mark.parametrize("shape", [(4, 6), (37, 1030), (20000, 64)], ids=str)
@pytest.mark.parametrize("which", NATIVE)
def test_native_kernels(which, shape):
    torch.manual_seed(0)
    bound = 2e-2 if which in ("bfloat16", "float16") else 2e-5
    check_native(NATIVE[which], torch.randn(shape, device="cuda"), torch.randn(shape, device="cuda"), rtol=bound, atol=bound)


@pytest.mark.parametrize("name,kind", operators.ELEMENTWISE)
def test_native_operators(name, kind):
    schema, op = expressions.FOUND[name][0], expressions.overload(name)

    def f(*args, **kwargs):  # one operator makes no kernel
        result = op(*args, **kwargs)
        return result, torch.logical_not(result)

    def moved(value):
        return value.cuda() if isinstance(value, torch.Tensor) and value.dim() > 0 else value

    for dtype in operators.dtypes_of(name, kind):
        for positional, keywords in operators.settings_of(name, schema, kind, dtype):
            args, kwargs = [moved(a) for a in positional], {key: moved(a) for key, a in keywords.items()}
            expected = f(*args, **kwargs)
            framejit.reset()
            found = framejit.to_static(f, backend="native")(*args, **kwargs)
            text = "{} {} {}".format(name, dtype, [a for a in positional if not isinstance(a, torch.Tensor)])
            assert facts(found) == facts(expected), text
            assert operators.is_close(found[0].cpu(), expected[0].cpu()), text


def test_native_kernels_write_in_place():
    def step(p, g, m):
        m.mul_(0.9).add_(g, alpha=0.1)
        p.addcdiv_(m, m.abs().sqrt().add_(1e-8), value=-1e-3)

    torch.manual_seed(0)
    expected = [torch.rand(300, 7, device="cuda") + 0.1 for _ in range(3)]
    found = [t.clone() for t in expected]
    made = kernels_asked_for()
    compiled = framejit.to_static(step, backend="native")
    for _ in range(3):
        step(*expected)
        compiled(*found)
    assert kernels_asked_for() == made + 1
    for one, other in zip(expected, found):
        torch.testing.assert_close(other, one)
        assert other._version == one._version


def test_native_kernels_are_trained():
    def f(x, w):
        return torch.softmax(torch.tanh(x) * torch.sin(x) * w, -1) * w

    results = []
    for fn in (f, framejit.to_static(f, backend="native")):
        torch.manual_seed(0)
        x, w = torch.randn(50, 33, device="cuda", requires_grad=True), torch.randn(33, device="cuda")
        fn(x, w).square().sum().backward()
        results.append(x.grad)
    torch.testing.assert_close(*results)


def test_native_kernels_run_on_the_current_stream():
    compiled = framejit.to_static(lambda x: torch.relu(x) * 3 - 1, backend="native")
    x = torch.zeros(1 << 20, device="cuda")
    compiled(x)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for number in range(20):
            torch.cuda._sleep(200000)
            x.fill_(number)  # a kernel that ran elsewhere would see the number before
            found = compiled(x)
            assert found.eq(3 * number - 1).all()


@two_devices
def test_native_kernels_of_two_devices():
    compiled = framejit.to_static(lambda x: torch.relu(x) * 3 - 1, backend="native")
    for index in (0, 1, 0):
        x = torch.randn(1000, device="cuda:{}".format(index))
        torch.testing.assert_close(compiled(x), torch.relu(x) * 3 - 1)

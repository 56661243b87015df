"""Placement in captured code, on a machine without a GPU: moves to and from the meta device, factories, the default
device, comparisons of devices, operators on mixed devices, and how often tensors are copied."""

import collections
import re

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import framejit
from support import counts
from support.counts import at_least
from support.same_as_eager import assert_same_as_eager


@pytest.fixture(autouse=True)
def no_default_device():
    """torch 2.4 fails in get_default_device() once a default device was unset."""
    yield
    context = getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None)
    if getattr(context, "device_context", 0) is None:
        del context.device_context



def x23():
    return torch.arange(6.0).reshape(2, 3)


def meta23():
    return torch.empty(2, 3, device="meta")


def check(fn, *args, **options):
    return assert_same_as_eager(fn, *(args or (x23(),)), **options)


# Moves

MOVES = {
    "to(text)": lambda x: (x + 1).to("meta") * 2,
    "to(device)": lambda x: (x + 1).to(torch.device("meta")),
    "to(device, dtype)": lambda x: x.to("meta", torch.float64) + 1,
    "to(device, non_blocking)": lambda x: x.to("meta", non_blocking=True) + 1,
    "to(device, copy)": lambda x: x.to("cpu", copy=True).add_(1),
    "to(the same device)": lambda x: (x * 2, x.to("cpu"), x.cpu(), x.to(x.device) is x),
    "to(other)": lambda x: x.to(torch.empty(1, dtype=torch.float16, device="meta")),
    "to(memory_format)": lambda x: x.view(1, 2, 3, 1).to("meta", memory_format=torch.channels_last).stride(),
    "type_as": lambda x: x.type_as(torch.empty(1, dtype=torch.int64, device="meta")) + 1,
    "a view, moved": lambda x: x.t().to("meta").stride(),
    "copy_ to meta": lambda x: torch.empty(2, 3, device="meta").copy_(x + 1),
    "copy_, non_blocking": lambda x: torch.empty(3, device="meta").copy_(x[0], non_blocking=True),
    "new_zeros": lambda x: x.new_zeros(2, device="meta") + 1,
    "zeros_like": lambda x: torch.zeros_like(x.t(), device="meta").stride(),
    "as_tensor": lambda x: torch.as_tensor(x + 1, device="meta"),
    "randn": lambda x: torch.randn(2, 3, device="meta") + x.to("meta"),
    "arange": lambda x: torch.arange(5, device="meta") + x.shape[0],
}


@pytest.mark.parametrize("which", MOVES)
def test_a_move_is_an_operator_of_the_graph(which):
    check(MOVES[which])


def test_data_is_put_on_another_device():
    def f(x):
        with torch.device("meta"):
            made = torch.tensor([1.0, 2.0])
        return made, torch.tensor([3.0], device="meta") + 1, x + 1

    check(f, graphs=at_least(1), breaks=None)  # torch 2.4 makes it on the CPU, out of sight, and moves it


def test_attributes_tell_the_device():
    def f(x):
        return (
            x + 1, x.device, x.device.type, x.device.index, x.is_cuda, x.is_cpu, x.is_meta, x.get_device(), x.type(),
            x.device == torch.device("cpu"), x.device != torch.device("meta"), str(x.device),
        )  # fmt: skip

    check(f)
    check(f, meta23(), miss=None)


def test_code_that_branches_on_the_device():
    def f(x):
        if x.device == torch.device("meta"):
            return x * 2
        return x + 1 if x.is_cpu else x

    compiled = framejit.to_static(f)
    for _ in range(2):
        assert compiled(x23()).equal(x23() + 1)
        assert compiled(meta23()).device.type == "meta"
    assert [graph.ops for graph in compiled.graphs] == [1, 1]


def test_a_guard_on_the_device_and_the_way_back():
    compiled = check(lambda x: (x * 2).sum(), miss=lambda x: (x.to("meta"),))
    assert len(compiled.graphs) == 2


def test_a_move_in_training():
    def f(x):
        return (x * 2).to("cpu", torch.float64).sum()

    def make():
        return (x23().requires_grad_(),), {}

    check(f, make=make, after=lambda loss: loss.backward(), miss=None)


# How often tensors are copied

COPIES = ("_to_copy", "copy_", "clone", "lift_fresh", "_pin_memory")


class Copies(TorchDispatchMode):
    """Counts what eager dispatches."""

    def __init__(self):
        super().__init__()
        self.counts = collections.Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.__name__.split(".")[0]
        if name in COPIES:
            self.counts[name] += 1
        return func(*args, **(kwargs or {}))


def copies_in(graph):
    names = re.findall(r"= aten\.(\w+)", graph.text)
    return collections.Counter(name for name in names if name in COPIES)


COPYING = {
    "no move": lambda x: x.to("cpu") + x.cpu() + x.to(x.dtype),
    "there and not back": lambda x: (x.to("meta") + x.to("meta", torch.float64)) * 2,
    "a chain": lambda x: x.to(torch.float64).to(torch.float64).to("meta").to("meta"),
    "copy": lambda x: x.to("cpu", copy=True) + x.clone(),
    "into another": lambda x: torch.empty(2, 3, device="meta").copy_(x).copy_(x),
    "type_as": lambda x: x.type_as(x) + x.type_as(torch.empty(1, dtype=torch.float64)),
}


@pytest.mark.parametrize("which", COPYING)
def test_a_graph_copies_as_often_as_eager(which):
    fn = COPYING[which]
    with Copies() as eager:
        fn(x23())
    compiled = framejit.to_static(fn)
    compiled(x23())
    assert len(compiled.graphs) == 1
    assert copies_in(compiled.graphs[0]) == eager.counts


# Without a GPU


def test_new_tensor_is_left_to_eager():
    def f(x):
        y = x * 2
        try:
            return y + y.new_tensor([1.0, 2.0, 3.0])
        except RuntimeError as error:
            return str(error)

    check(f, graphs=at_least(1), breaks=at_least(1), fallbacks=None)


def test_cuda_fails_as_in_eager():
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises((RuntimeError, AssertionError)) as eager:
        x23().cuda()
    for move in (lambda x: (x + 1).cuda(), lambda x: (x + 1).to("cuda:0"), lambda x: torch.zeros(2, device="cuda") + x):
        check(move, raises=eager.type, graphs=at_least(0), breaks=None, fallbacks=None, warm=False)


def test_cuda_fails_inside_a_try():
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")

    def f(x):
        y = x + 1
        try:
            y = y.cuda()
        except (RuntimeError, AssertionError) as error:
            return y * 2, type(error), str(error)
        return y

    check(f, graphs=at_least(1), breaks=None, fallbacks=None, warm=False)


def test_pinned_memory_fails_as_in_eager():
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(Exception) as eager:
        x23().pin_memory()
    options = dict(raises=eager.type, graphs=at_least(0), breaks=None, fallbacks=None, warm=False)
    check(lambda x: (x + 1).pin_memory(), **options)
    check(lambda x: torch.zeros(2, pin_memory=True) + x[:, 0], **options)


def test_whether_memory_is_pinned_is_known_of_what_the_graph_made():
    check(lambda x: ((x + 1).is_pinned(), x.t().contiguous().view(-1).is_pinned(), x * 2))
    check(lambda x: (x * 2, x.is_pinned()), breaks=1)
    check(lambda x: (x * 2, x.to("meta").is_pinned()))


# Mixed devices


def mixed(operator):
    return lambda x, y: (x + 1, operator(x, y))


MIXED = {
    "add": mixed(lambda x, y: x + y),
    "add_": mixed(lambda x, y: x.clone().add_(y)),
    "cat": mixed(lambda x, y: torch.cat([x, y])),
    "where": mixed(lambda x, y: torch.where(x > 0, x, y)),
    "lerp": mixed(lambda x, y: torch.lerp(x, y, 0.5)),
    "stack": mixed(lambda x, y: torch.stack([x, y])),
    "copy out of meta": mixed(lambda x, y: x.clone().copy_(y)),
    "move out of meta": mixed(lambda x, y: y.to(x.device)),
    "through a function of nn": mixed(lambda x, y: torch.nn.functional.mse_loss(x, y)),
}


def outcome(fn, *args):
    try:
        return fn(*args)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("which", MIXED)
def test_mixed_devices_raise_as_eager_and_leave_a_cache_that_works(which):
    fn = MIXED[which]
    compiled = framejit.to_static(fn)
    eager = outcome(fn, x23(), meta23())
    if not isinstance(eager[0], type):
        pytest.skip("this torch takes the mixture")
    for _ in range(3):  # cold, warm, warm again
        assert outcome(compiled, x23(), meta23()) == eager
    with counts.counting() as counted:
        for _ in range(2):
            assert compiled(x23(), x23())[1].equal(fn(x23(), x23())[1])
    counts.check_counts(counted, captures=1, graphs=1, breaks=0, hits=at_least(1))
    assert outcome(compiled, x23(), meta23()) == eager


def test_mixed_devices_raise_inside_a_try():
    def f(x, y):
        z = x + 1
        try:
            z = z + y
        except RuntimeError as error:
            return z, str(error)
        return z * 2

    check(f, x23(), meta23(), graphs=at_least(1), breaks=at_least(1), fallbacks=None, miss=None)


TAKEN = {
    "number": lambda m: m * 2.5 + 1,
    "scalar on the CPU": lambda m: m + torch.tensor(1.5),
    "scalar first": lambda m: torch.tensor(1.5) * m,
    "comparison": lambda m: m > torch.tensor(1.5),
    "in place": lambda m: m.clone().mul_(torch.tensor(1.5)),
    "pow": lambda m: m ** torch.tensor(2.0),
    "where": lambda m: torch.where(m > 0, m, torch.tensor(0.0)),
    "indices on the CPU": lambda m: m[torch.tensor([1, 0])],
    "two indices": lambda m: m[torch.tensor([1, 0]), torch.tensor([2, 1])],
    "assignment": lambda m: m.clone().index_put_((torch.tensor([0]),), m[0]),
    "copy_": lambda m: m.clone().copy_(torch.ones(2, 3)),
    "item assignment": lambda m: _assign(m.clone()),
}


def _assign(m):
    m[0] = 5.0
    return m


@pytest.mark.parametrize("which", TAKEN)
def test_a_mixture_that_is_allowed_is_captured(which):
    check(TAKEN[which], meta23(), miss=None)


# The default device


@pytest.mark.runs_once("the captures under each context are counted")
def test_a_device_context_around_the_call():
    x = x23()
    compiled = framejit.to_static(lambda x: (torch.zeros(2, 3) + 1, torch.zeros_like(x), x * 2))

    def devices():
        made, like, doubled = compiled(x)
        assert like.device.type == doubled.device.type == "cpu"
        return made.device.type

    for _ in range(2):
        assert devices() == "cpu"
        with torch.device("meta"):
            assert devices() == "meta"
            with torch.device("cpu"):
                assert devices() == "cpu"
    assert len(compiled.graphs) == 3


def test_the_default_device_is_told_as_in_eager():
    compiled = framejit.to_static(lambda x: (x + 1, torch.get_default_device()))
    x = x23()

    def told():  # torch 2.4 fails after set_default_device(None)
        assert outcome(lambda: compiled(x)[1]) == outcome(torch.get_default_device)

    for _ in range(2):
        told()
        with torch.device("meta"):
            told()


@pytest.mark.runs_once("the captures under each context are counted")
def test_set_default_device_is_guarded():
    x = x23()
    compiled = framejit.to_static(lambda x: (torch.ones(2), x + 1))
    try:
        for device in ("cpu", "meta", "cpu", "meta"):
            torch.set_default_device(device)
            assert compiled(x)[0].device.type == device
        torch.set_default_device(None)
        assert compiled(x)[0].device.type == "cpu"
    finally:
        torch.set_default_device(None)
    assert len(compiled.graphs) == 3


def made_in(device):
    def f(x):
        with torch.device(device):
            return torch.full((2,), 3.0), torch.arange(3), torch.as_tensor(x), torch.empty(2).device, x + 1

    return f


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_a_device_context_inside(device):
    check(made_in(device))


def test_what_names_its_device_keeps_it():
    def f(x):
        with torch.device("meta"):
            named = torch.zeros(2, device="cpu"), x.new_zeros(2), torch.zeros_like(x), torch.randn(2, device=x.device)
            return named, torch.zeros(2, device=None), torch.nn.Parameter(torch.zeros(1)).device

    check(f, graphs=at_least(1), breaks=None, fallbacks=None)


def test_nested_device_contexts():
    def f(x):
        with torch.device("meta") as outer:
            a = torch.ones(1)
            with torch.device("cpu"):
                b = torch.ones(1) + 1
            c = torch.ones(1)
        return outer, a, b, c, torch.ones(1), x + 1

    check(f)


def test_a_break_inside_a_device_context():
    def f(x):
        a = torch.ones(1)
        with torch.device("meta"):
            b = torch.ones(1)
            framejit.graph_break()
            c = torch.ones(1) + 1
        return a, b, c, torch.ones(1) + x

    check(f, graphs=2, breaks=1)


def test_a_break_inside_two_device_contexts_that_are_left_after_it():
    def f(x):
        with torch.device("meta"):
            with torch.device("cpu"):
                y = torch.ones(1) + x
                framejit.graph_break()
                y = y + torch.ones(1)
            z = torch.ones(1)
            framejit.graph_break()
        return y, z, torch.ones(1)

    check(f, graphs=at_least(2), breaks=2)


def test_an_exception_leaves_the_device_context():
    def f(x):
        try:
            with torch.device("meta"):
                y = torch.ones(1)
                raise ValueError("left")
        except ValueError as error:
            return y, str(error), torch.ones(1) + x

    check(f, graphs=at_least(1), breaks=None, fallbacks=None)


def test_a_return_leaves_the_device_context():
    def made():
        with torch.device("meta"):
            return torch.ones(1)

    check(lambda x: (made(), torch.ones(1) + x))


def test_functions_of_torch_run_outside_of_the_device_context():
    def f(x):
        with torch.device("meta"):
            return (
                torch.nn.functional.softmax(x, -1), torch.nn.functional.dropout(x, 0.5, training=False), 1 - x,
                torch.nn.functional.layer_norm(x, (3,)), torch.meshgrid(x[0], x[1], indexing="ij")[0], x.norm(),
                torch.einsum("ij,kj->ik", x, x),
            )  # fmt: skip

    check(f)


def test_a_decorated_function_runs_in_its_device_context():
    @torch.utils._device.set_device("meta")
    def made(n):
        return torch.ones(n)

    check(lambda x: (made(3), torch.ones(3) + x), graphs=at_least(1), breaks=None, fallbacks=None)


def test_a_module_is_made_on_meta():
    def f(x):
        with torch.device("meta"):
            weight = torch.empty(4, 3)
        return x.to("meta") @ weight.t()

    check(f)


def test_functions_that_ask_for_modes_see_the_device_context():
    attention = torch.nn.MultiheadAttention(4, 2, batch_first=True).eval()
    x = torch.randn(1, 3, 4)

    def f(x):
        with torch.no_grad(), torch.device("cpu"):
            return attention(x, x, x)[0]

    check(f, x, graphs=at_least(1), breaks=None, fallbacks=None)


def test_set_default_device_inside_breaks():
    def f(x):
        y = x + 1
        torch.set_default_device("meta")
        z = torch.ones(1)
        torch.set_default_device(None)
        return y * 2, z, torch.ones(1)

    check(f, graphs=at_least(2), breaks=at_least(2))


def test_other_modes_are_no_device_context():
    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    compiled = framejit.to_static(lambda x: torch.ones(1) + x)
    with torch.device("meta"), Mode():
        expected = torch.ones(1).device
        assert outcome(compiled, meta23()).device == expected
    assert compiled(x23()).equal(x23() + 1)


# Modules


def test_a_module_is_moved_inside():
    def f(x):
        layer = torch.nn.Linear(3, 2)
        y = x + 1
        layer.to("meta")
        return y * 2, layer.weight.device, layer.weight.shape

    check(f, graphs=at_least(1), breaks=None, fallbacks=None, warm=False)


def test_a_module_on_meta_computes_shapes():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)
            self.layer = torch.nn.Linear(4, 2)

        def forward(self, x):
            return self.layer(torch.relu(self.norm(self.conv(x))).mean((2, 3)))

    with torch.device("meta"):
        net, x = Net(), torch.empty(2, 3, 8, 8)
    compiled = framejit.to_static(net)
    for _ in range(2):
        result = compiled(x)
        assert result.shape == (2, 2) and result.device.type == "meta" and result.stride() == net(x).stride()
    result.sum().backward()
    assert net.conv.weight.grad.device.type == "meta"


# Failures


def test_a_failing_graph_that_draws_on_meta_is_undone():
    def f(x, index, log):
        log.append(1)
        noise = torch.rand(2, device="meta")
        return x[index], noise

    with pytest.raises(IndexError):
        f(x23(), torch.tensor([5]), [])
    check(
        f, x23(), torch.tensor([5]), [], raises=IndexError, miss=None, graphs=at_least(1), fallbacks=None, breaks=None
    )

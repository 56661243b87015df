"""What the recorder says of tensors on CUDA devices, on a machine that needs to have none: sizes, strides, types and
placement of results, copies as nodes, gradients. The tensors claim their device and have no memory; nothing runs."""

import pathlib
import re

import pytest
import torch

import framejit
from framejit import _C

CUDA0, CUDA1 = torch.device("cuda", 0), torch.device("cuda", 1)
CPU, META = torch.device("cpu"), torch.device("meta")


@pytest.fixture(autouse=True)
def two_cuda_devices():
    _C._testing.pretend_cuda(2)
    yield
    _C._testing.pretend_cuda(0)


class on:
    """A tensor that claims the device. It is made late: to print one would be to read its memory."""

    def __init__(self, device, *shape, dtype=torch.float32, strides=None, requires_grad=False):
        self.device, self.shape, self.dtype = device, shape, dtype
        self.strides, self.requires_grad = strides, requires_grad

    def tensor(self):
        if self.strides is None:
            like = torch.empty(self.shape, dtype=self.dtype, device="meta")
        else:
            like = torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device="meta")
        return _C._testing.placed(like, str(self.device)).requires_grad_(self.requires_grad)


def facts(value):
    if isinstance(value, (tuple, list)):
        return [facts(item) for item in value]
    if not isinstance(value, torch.Tensor):
        return value
    return tuple(value.shape), value.stride(), value.dtype, value.device


def recorded(fn, *tensors):
    """The facts of what fn gives, and the program."""
    results = []

    def run(*fakes):
        result = fn(*fakes)
        results.append(facts(result))
        return result if isinstance(result, (tuple, torch.Tensor)) else ()

    program = _C._testing.record(run, tuple(each.tensor() for each in tensors))
    return results[0], program


def device_of(fn, *tensors):
    return recorded(fn, *tensors)[0][3]


def copies(program):
    return [
        name for name in program.ops if name in ("aten::_to_copy", "aten::copy_", "aten::clone", "aten::_pin_memory")
    ]


def refused(fn, *tensors):
    """The reason why the recorder stops."""
    with pytest.raises(RuntimeError) as stopped:
        recorded(fn, *tensors)
    return str(stopped.value)


# Moves


@pytest.mark.parametrize(
    "move, device",
    [
        (lambda x: x.cuda(), CUDA0),
        (lambda x: x.cuda(1), CUDA1),
        (lambda x: x.cuda(non_blocking=True), CUDA0),
        (lambda x: x.to("cuda"), CUDA0),
        (lambda x: x.to("cuda:1"), CUDA1),
        (lambda x: x.to(device="cuda:1", dtype=torch.float16), CUDA1),
        (lambda x: x.to(torch.device("cuda", 1), non_blocking=True), CUDA1),
        (lambda x: torch.ops.aten._to_copy(x, device=CUDA1), CUDA1),
    ],
)
def test_a_move_is_one_node(move, device):
    result, program = recorded(move, on(CPU, 2, 3))
    assert result[:2] == ((2, 3), (3, 1)) and result[3] == device
    assert copies(program) == ["aten::_to_copy"]
    assert str(device) in program.text


def test_there_and_back_are_two_copies():
    def f(x):
        return (x.cuda() * 2).cpu() + x

    result, program = recorded(f, on(CPU, 2, 3))
    assert result == ((2, 3), (3, 1), torch.float32, CPU)
    assert program.ops == ["aten::_to_copy", "aten::mul.Tensor", "aten::_to_copy", "aten::add.Tensor"]


def test_what_is_there_already_is_not_copied():
    def f(x):
        return x.cuda(), x.to("cuda"), x.to("cuda:0"), x.to(x.device), x.cuda(0), x.to(x), x.type_as(x)

    results, program = recorded(f, on(CUDA0, 4))
    assert {result[3] for result in results} == {CUDA0} and copies(program) == []


def test_a_move_keeps_the_layout():
    result, program = recorded(lambda x: x.cuda(), on(CPU, 2, 3, strides=(1, 2)))
    assert result[1] == (1, 2)
    result, program = recorded(lambda x: x.to("cuda", memory_format=torch.channels_last), on(CPU, 2, 3, 4, 5))
    assert result[1] == (60, 1, 15, 3)
    assert copies(program) == ["aten::_to_copy"]


def test_a_move_to_another_tensor():
    assert device_of(lambda x, y: x.to(y), on(CPU, 2), on(CUDA1, 1, dtype=torch.float64)) == CUDA1
    result, program = recorded(lambda x, y: x.type_as(y), on(CPU, 2), on(CUDA1, 1, dtype=torch.int32))
    assert result[2:] == (torch.int32, CUDA1) and copies(program) == ["aten::_to_copy"]


def test_a_copy_into_a_tensor_of_another_device():
    for target, source in ((CUDA0, CPU), (CPU, CUDA0), (CUDA0, CUDA1)):
        result, program = recorded(lambda x, y: x.copy_(y, non_blocking=True), on(target, 2, 3), on(source, 3))
        assert result[3] == target and program.ops == ["aten::copy_"]
        assert "non_blocking=true" in program.text.lower() or "true" in program.text.lower()


def test_pinned_memory_is_a_node():
    def f(x):
        y = (x + 1).pin_memory()
        return y.cuda(non_blocking=True), y.is_pinned(), y.pin_memory() is y

    results, program = recorded(lambda x: f(x)[0], on(CPU, 2, 3))
    assert results == ((2, 3), (3, 1), torch.float32, CUDA0)
    assert copies(program) == ["aten::_pin_memory", "aten::_to_copy"]
    answers = []
    recorded(lambda x: answers.append(f(x)[1:]), on(CPU, 2, 3))
    assert answers == [(True, True)]


def test_whether_memory_from_outside_is_pinned_is_not_known():
    assert "pinned memory" in refused(lambda x: x.is_pinned(), on(CPU, 2))
    assert "not on the CPU" in refused(lambda x: torch.ops.aten._pin_memory(x), on(CUDA0, 2))


def test_attributes_tell_the_device():
    seen = []
    recorded(lambda x: seen.append((x.device, x.is_cuda, x.is_cpu, x.get_device(), x.type())), on(CUDA1, 2))
    assert seen == [(CUDA1, True, False, 1, "torch.cuda.FloatTensor")]


def test_guards_tell_devices_apart():
    def matches(left, right):
        return _C._testing.matches(left.tensor(), right.tensor())

    assert matches(on(CUDA0, 2), on(CUDA0, 2)) and not matches(on(CUDA0, 2), on(CUDA1, 2))
    assert not matches(on(CPU, 2), on(CUDA0, 2)) and not matches(on(CUDA0, 2), on(META, 2))


# Factories


@pytest.mark.parametrize(
    "make",
    [
        lambda x, d: torch.zeros(2, 3, device=d),
        lambda x, d: torch.full((2, 3), 1.0, device=d),
        lambda x, d: torch.randn(2, 3, device=d),
        lambda x, d: torch.arange(6, device=d).view(2, 3),
        lambda x, d: torch.eye(2, 3, device=d),
        lambda x, d: torch.zeros_like(x, device=d),
        lambda x, d: torch.rand_like(x, device=d),
        lambda x, d: x.new_ones((2, 3), device=d),
        lambda x, d: x.new_empty((2, 3), device=d),
    ],
)
def test_a_factory_makes_it_there(make):
    for device, expected in (("cuda", CUDA0), ("cuda:1", CUDA1), (CUDA1, CUDA1), ("meta", META)):
        result, program = recorded(lambda x: make(x, device), on(CPU, 2, 3))
        assert result[0] == (2, 3) and result[3] == expected
        assert copies(program) == []
        assert re.search(r"\bcuda\b(?!:)", program.text) is None  # which device that is may change before a run


def test_a_factory_follows_its_tensor():
    for make in (torch.zeros_like, torch.randn_like, lambda x: x.new_zeros(2)):
        assert device_of(make, on(CUDA1, 2, 3)) == CUDA1


# Operators

OPERATORS = {
    "add": (lambda x, y: x + y, (2, 3), (3,)),
    "in place": (lambda x, y: x.add_(y), (2, 3), (3,)),
    "promotion": (lambda x, y: x * 2.5 + y.long() + True, (2, 3), (3,)),
    "matmul": (lambda x, y: x @ y, (2, 3), (3, 4)),
    "bmm": (lambda x, y: x @ y, (5, 2, 3), (5, 3, 4)),
    "linear": (lambda x, y: torch.nn.functional.linear(x, y), (5, 2, 3), (4, 3)),
    "addmm": (lambda x, y: torch.addmm(x[0, :1], x, y), (2, 3), (3, 4)),
    "sum": (lambda x, y: (x.sum(), x.mean(-1), x.var(0), y.amax(0), x.argmax(-1)), (2, 3), (3,)),
    "softmax": (lambda x, y: (x.softmax(-1), torch.log_softmax(x, 0)), (2, 3), (3,)),
    "cat": (lambda x, y: torch.cat([x, y], 1), (2, 3), (2, 4)),
    "stack": (lambda x, y: torch.stack([x, y], 1), (2, 3), (2, 3)),
    "views": (lambda x, y: (x.t(), x[0], x.view(-1), x.unsqueeze(0).expand(5, 2, 3), x[:, ::2]), (2, 3), (3,)),
    "reshape": (lambda x, y: x.t().reshape(-1), (2, 3), (3,)),
    "sort": (lambda x, y: (x.sort(-1), x.topk(2)), (2, 3), (3,)),
    "cumsum": (lambda x, y: x.cumsum(0), (2, 3), (3,)),
    "gelu": (lambda x, y: torch.nn.functional.gelu(x), (2, 3), (3,)),
    "layer_norm": (lambda x, y: torch.nn.functional.layer_norm(x, (3,), y, y), (2, 3), (3,)),
    "group_norm": (lambda x, y: torch.nn.functional.group_norm(x, 2), (2, 4, 5), (3,)),
    "convolution": (lambda x, y: torch.nn.functional.conv2d(x, y, padding=1), (2, 3, 8, 8), (4, 3, 3, 3)),
    "max_pool": (lambda x, y: torch.nn.functional.max_pool2d(x, 2), (2, 3, 8, 8), (3,)),
    "avg_pool": (lambda x, y: torch.nn.functional.adaptive_avg_pool2d(x, 1), (2, 3, 8, 8), (3,)),
    "embedding": (lambda x, y: torch.nn.functional.embedding(x.long(), y), (2, 3), (7, 5)),
    "where": (lambda x, y: torch.where(x > 0, x, y), (2, 3), (3,)),
    "masked_fill": (lambda x, y: x.masked_fill(x > 0, 1.0), (2, 3), (3,)),
    "gather": (lambda x, y: x.gather(1, x.long()), (2, 3), (3,)),
    "index": (lambda x, y: x[y.long()], (2, 3), (4,)),
    "pad": (lambda x, y: torch.nn.functional.pad(x, (1, 1)), (2, 3), (3,)),
    "interpolate": (lambda x, y: torch.nn.functional.interpolate(x, scale_factor=2.0), (2, 3, 4, 4), (3,)),
    "cross_entropy": (lambda x, y: torch.nn.functional.cross_entropy(x, y.long()), (2, 3), (2,)),
    "roll": (lambda x, y: x.t().roll(1, 0), (2, 3), (3,)),
    "dropout": (lambda x, y: torch.nn.functional.dropout(x, 0.5), (2, 3), (3,)),
    "random": (lambda x, y: (torch.randn_like(x), x.uniform_(), torch.bernoulli(x)), (2, 3), (3,)),
}


@pytest.mark.parametrize("which", OPERATORS)
def test_results_are_on_the_device_of_the_operands(which):
    """Sizes, strides and types are those of LibTorch's own Meta kernels."""
    fn, left, right = OPERATORS[which]
    result, program = recorded(fn, on(CUDA1, *left), on(CUDA1, *right))
    expected = facts(fn(torch.empty(left, device="meta"), torch.empty(right, device="meta")))
    assert str(result).replace("cuda:1", "?").replace("device(type='cuda', index=1)", "?") == str(expected).replace(
        "device(type='meta')", "?"
    )
    assert "cpu" not in re.sub(r'".*?"', "", program.text)
    assert program.ops


def test_half_precision_statistics_are_those_of_the_device():
    """Of half precision the CPU keeps the mean in the type of the input, CUDA in single precision."""

    def f(x, w):
        return torch.native_layer_norm(x, (3,), w, w, 1e-5)[1]

    half = dict(dtype=torch.bfloat16)
    assert recorded(f, on(CUDA0, 2, 3, **half), on(CUDA0, 3, **half))[0][2] == torch.float32
    assert recorded(f, on(CPU, 2, 3, **half), on(CPU, 3, **half))[0][2] == torch.bfloat16


# Mixed devices


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, n: x + n,
        lambda x, n: n - x,
        lambda x, n: x > n,
        lambda x, n: x**n,
        lambda x, n: torch.maximum(x, n),
        lambda x, n: x.mul_(n),
        lambda x, n: torch.where(x > 0, x, n),
    ],
)
def test_a_number_on_the_cpu_goes_with_a_tensor_of_any_device(fn):
    result, program = recorded(fn, on(CUDA1, 2, 3), on(CPU))
    assert result[0] == (2, 3) and result[3] == CUDA1
    assert copies(program) == []


def test_indices_on_the_cpu_go_with_a_tensor_of_any_device():
    index = on(CPU, 4, dtype=torch.int64)
    assert recorded(lambda x, i: x[i], on(CUDA1, 2, 3), index)[0] == ((4, 3), (3, 1), torch.float32, CUDA1)
    assert recorded(lambda x, i: x[i, i], on(CUDA1, 2, 3), index)[0][3] == CUDA1
    result, program = recorded(lambda x, i: x.index_put_((i,), x[:1] + 1), on(CUDA1, 2, 3), index)
    assert result[3] == CUDA1 and copies(program) == []


@pytest.mark.parametrize(
    "fn, left, right",
    [
        (lambda x, y: x + y, on(CUDA0, 2, 3), on(CPU, 2, 3)),
        (lambda x, y: x + y, on(CPU, 2, 3), on(CUDA0)),
        (lambda x, y: x + y, on(CUDA0, 2, 3), on(CUDA1, 2, 3)),
        (lambda x, y: x + y, on(CUDA0, 2, 3), on(CUDA1)),
        (lambda x, y: x + y, on(CUDA0, 2, 3), on(META, 2, 3)),
        (lambda x, y: y.add_(x), on(CUDA0), on(CPU)),
        (lambda x, y: torch.addcmul(x, y, y), on(CUDA0, 3), on(CPU)),
        (lambda x, y: torch.lerp(x, x, y), on(CUDA0, 3), on(CPU)),
        (lambda x, y: torch.clamp(x, min=y), on(CUDA0, 3), on(CPU)),
        (lambda x, y: x @ y, on(CUDA0, 2, 3), on(CPU, 3, 2)),
        (lambda x, y: torch.cat([x, y]), on(CUDA0, 3), on(CPU, 3)),
        (lambda x, y: torch.nn.functional.linear(x, y), on(CUDA0, 2, 3), on(CPU, 4, 3)),
        (lambda x, y: torch.nn.functional.conv1d(x, y), on(CUDA0, 1, 3, 4), on(CPU, 4, 3, 1)),
        (lambda x, y: torch.nn.functional.embedding(y.long(), x), on(CUDA0, 2, 3), on(CPU, 3)),
        (lambda x, y: x.gather(0, y.long()), on(CUDA0, 3), on(CPU, 3)),
        (lambda x, y: y[x.long()], on(CUDA0, 3), on(CPU, 3)),
        (lambda x, y: x.index_put_((x.long(),), y), on(CUDA0, 3), on(CPU, 3)),
        (lambda x, y: x.masked_fill(y > 0, 0.0), on(CUDA0, 3), on(CPU, 3)),
        (lambda x, y: torch.where(y > 0, x, x), on(CUDA0, 3), on(CPU, 3)),
    ],
)
def test_other_mixtures_are_left_to_eager(fn, left, right):
    reason = refused(fn, left, right)
    assert re.fullmatch(r"OperatorFailed: aten::\S+ is given tensors on .* and .*", reason), reason


def test_data_does_not_come_out_of_meta():
    assert "no data" in refused(lambda x: x.to("cuda"), on(META, 2))
    assert "refuses" in refused(lambda x, y: x.copy_(y), on(CUDA0, 2), on(META, 2))


# Training


def trained(fn, *tensors):
    try:
        return recorded(fn, *tensors)
    except ValueError as refused:
        if "hasPrimaryContext" not in str(refused):
            raise
        pytest.skip("this torch is built with CUDA, and its autograd engine asks the driver, which is not there")


def test_the_gradient_of_a_move_moves_back():
    def f(x, w):
        return ((x @ w.cuda()).relu()).sum()

    result, program = trained(f, on(CUDA0, 2, 3), on(CPU, 3, 4, requires_grad=True))
    assert result[3] == CUDA0 and copies(program) == ["aten::_to_copy"]
    backward = program.backward_text
    assert (
        len(re.findall(r"aten\._to_copy\(.*\bcpu\b.*\) : tensor<3x4xf32, cpu>", backward))
        == backward.count("_to_copy")
        == 1
    )


def test_a_model_is_recorded_with_its_backward():
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(), torch.nn.Linear(4, 2),
    )  # fmt: skip
    names = [name for name, _ in list(net.named_parameters()) + list(net.named_buffers())]
    tensors = [
        on(CUDA0, *t.shape, dtype=t.dtype, requires_grad=t.requires_grad)
        for t in list(net.parameters()) + list(net.buffers())
    ]

    def f(x, *tensors):
        return torch.func.functional_call(net, dict(zip(names, tensors)), (x,)).sum()

    result, program = trained(f, on(CUDA0, 2, 3, 8, 8), *tensors)
    assert result == ((), (), torch.float32, CUDA0)
    assert "cpu" not in program.text and "cpu" not in program.backward_text
    assert copies(program) == []


def test_what_stays_on_the_cpu_stays_there_in_the_backward():
    def f(x, w):
        return (x * w).sum().cuda() * 2

    result, program = trained(f, on(CPU, 3), on(CPU, 3, requires_grad=True))
    assert result[3] == CUDA0
    assert program.backward_text.count("_to_copy") == 1


# What a run is held against


def test_results_elsewhere_than_on_the_cpu_are_held_against_what_was_inferred():
    def f(x):
        return x.add(1).mul(2)

    contiguous = torch.empty(2, 3, device="meta")
    program = _C._testing.record(f, (contiguous,))
    with pytest.raises(RuntimeError, match=r"aten::add.Tensor gave .*meta.* where .*meta.* was inferred"):
        program(torch.empty(3, 2, device="meta").t())
    assert program(contiguous)[0].shape == (2, 3)
    program(torch.empty(3, 2, device="meta").t())  # a first run that went well stands for those that follow


# The rules of inference

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Two kernels that return the same.
ALIKE = {
    "dot", "empty.memory_format", "empty_strided", "masked_fill_.Scalar", "masked_fill_.Tensor", "masked_scatter_",
    "native_dropout", "zero_", "_pin_memory",
}  # fmt: skip


def kernels_by_device():
    """{operator: (CPU kernel, CUDA kernel)} where torch has one for each, by its own table."""
    torchgen = pytest.importorskip("torchgen")
    yaml = pytest.importorskip("yaml")
    path = pathlib.Path(torchgen.__file__).parent / "packaged" / "ATen" / "native" / "native_functions.yaml"
    found = {}
    for function in yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if function.get("structured") or function.get("structured_delegate"):
            continue
        kernels = {k.strip(): name for keys, name in function.get("dispatch", {}).items() for k in keys.split(",")}
        if kernels.get("CPU") != kernels.get("CUDA"):
            found[function["func"].split("(")[0]] = kernels.get("CPU"), kernels.get("CUDA")
    return found


def test_rules_for_kernels_that_differ_by_device_are_rules_of_the_cpu():
    table = (ROOT / "graph" / "generated" / "op_table.cpp").read_text()
    rows = re.findall(r'\{"aten::([\w.]+)",\n\s+".*",\n\s+(.*?), (nullptr|\[\])', table)
    native = {name: flags for name, flags, rule in rows if rule != "nullptr"}
    assert len(native) > 400
    differ = kernels_by_device()
    unmarked = {name: differ[name] for name in differ if name in native and "kOpCpuRule" not in native[name]}
    assert set(unmarked) <= ALIKE, unmarked


def test_a_compiled_function_is_not_served_to_another_device():
    compiled = framejit.to_static(lambda x: x + 1)
    assert compiled(torch.ones(2)).device == CPU and compiled(torch.ones(2, device="meta")).device == META
    assert len(compiled.graphs) == 2

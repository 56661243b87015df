"""framejit.ops: what it computes, that it is captured, what its names and its stub say."""

import ast
import importlib.util
import inspect
import os
import pathlib
import subprocess
import sys

import pytest
import torch

import framejit
from framejit import _C, ops
from support.same_as_eager import assert_same_as_eager

STUB = pathlib.Path(os.path.realpath(ops.__file__)).with_suffix(".pyi")
X = torch.tensor([[0.5, -1.5, 2.0], [4.0, 0.25, -3.0]])
Y = torch.tensor([[1.5, 2.5, -2.0], [0.5, 3.0, 1.0]])
W = torch.tensor([[0.5, 1.0], [2.0, -1.0], [1.5, 0.0]])
NUMBERS = torch.tensor([[3, 0, 2], [1, 5, 4]])
IMAGE = torch.arange(64.0).reshape(1, 2, 4, 8).sin()

# The call by framejit.ops and the one that users know.
CALLS = {
    "add": (lambda: ops.add(X, Y, alpha=2), lambda: torch.add(X, Y, alpha=2)),
    "add with a number": (lambda: ops.add(X, 1.5), lambda: X + 1.5),
    "sub, names": (lambda: ops.sub(self=X, other=Y), lambda: X - Y),
    "rsub": (lambda: ops.rsub(X, 3), lambda: 3 - X),
    "mul by a complex number": (lambda: ops.mul(X, 2j), lambda: X * 2j),
    "div": (lambda: ops.div(NUMBERS, 2), lambda: NUMBERS / 2),
    "div, rounding_mode": (lambda: ops.div(X, Y, rounding_mode="floor"), lambda: torch.div(X, Y, rounding_mode="floor")),
    "floor_divide": (lambda: ops.floor_divide(X, Y), lambda: X // Y),
    "remainder": (lambda: ops.remainder(X, Y), lambda: X % Y),
    "pow": (lambda: ops.pow(X, 2), lambda: X**2),
    "pow of a number": (lambda: ops.pow(2, X), lambda: 2**X),
    "pow of tensors": (lambda: ops.pow(NUMBERS, NUMBERS), lambda: NUMBERS**NUMBERS),
    "maximum": (lambda: ops.maximum(X, Y), lambda: torch.maximum(X, Y)),
    "bitwise_and": (lambda: ops.bitwise_and(NUMBERS, 3), lambda: NUMBERS & 3),
    "eq": (lambda: ops.eq(X, 0.5), lambda: X == 0.5),
    "lt": (lambda: ops.lt(X, Y), lambda: X < Y),
    "logical_not": (lambda: ops.logical_not(NUMBERS), lambda: torch.logical_not(NUMBERS)),
    "neg": (lambda: ops.neg(X), lambda: -X),
    "abs": (lambda: ops.abs(X), lambda: abs(X)),
    "exp": (lambda: ops.exp(NUMBERS), lambda: NUMBERS.exp()),
    "sigmoid": (lambda: ops.sigmoid(X), lambda: torch.sigmoid(X)),
    "relu": (lambda: ops.relu(X), lambda: torch.relu(X)),
    "gelu": (lambda: ops.gelu(X, approximate="tanh"), lambda: torch.nn.functional.gelu(X, approximate="tanh")),
    "clamp": (lambda: ops.clamp(X, min=0, max=1), lambda: X.clamp(0, 1)),
    "clamp by tensors": (lambda: ops.clamp(X, None, Y), lambda: X.clamp(max=Y)),
    "where": (lambda: ops.where(X > 0, X, Y), lambda: torch.where(X > 0, X, Y)),
    "masked_fill": (lambda: ops.masked_fill(X, X > 0, -1.0), lambda: X.masked_fill(X > 0, -1.0)),
    "lerp": (lambda: ops.lerp(X, Y, 0.25), lambda: torch.lerp(X, Y, 0.25)),
    "addcmul": (lambda: ops.addcmul(X, X, Y, value=3), lambda: torch.addcmul(X, X, Y, value=3)),
    "round": (lambda: ops.round(X, decimals=0), lambda: X.round(decimals=0)),
    "sum": (lambda: ops.sum(NUMBERS), lambda: NUMBERS.sum()),
    "sum over dimensions": (lambda: ops.sum(X, [0, 1], keepdim=True), lambda: X.sum((0, 1), keepdim=True)),
    "sum, dtype": (lambda: ops.sum(X, 1, dtype=torch.float64), lambda: X.sum(1, dtype=torch.float64)),
    "mean": (lambda: ops.mean(X, [1]), lambda: X.mean(1)),
    "max": (lambda: ops.max(X), lambda: X.max()),
    "max over a dimension": (lambda: ops.max(X, 1), lambda: tuple(X.max(1))),
    "var": (lambda: ops.var(X, [1], correction=0), lambda: X.var(1, correction=0)),
    "argmax": (lambda: ops.argmax(X, dim=1), lambda: X.argmax(1)),
    "cumsum": (lambda: ops.cumsum(X, 0), lambda: X.cumsum(0)),
    "_softmax": (lambda: ops._softmax(X, -1, False), lambda: X.softmax(-1)),
    "sort": (lambda: ops.sort(X, dim=0, descending=True), lambda: tuple(X.sort(0, True))),
    "sort, stable": (lambda: ops.sort(X, stable=True), lambda: tuple(X.sort(stable=True))),
    "topk": (lambda: ops.topk(X, 2), lambda: tuple(X.topk(2))),
    "mm": (lambda: ops.mm(X, W), lambda: X @ W),
    "addmm": (lambda: ops.addmm(W[0], X, W, beta=2), lambda: torch.addmm(W[0], X, W, beta=2)),
    "view": (lambda: ops.view(X, [3, 2]), lambda: X.view(3, 2)),
    "permute": (lambda: ops.permute(X, (1, 0)), lambda: X.permute(1, 0)),
    "slice": (lambda: ops.slice(X, 1, 0, None, 2), lambda: X[:, ::2]),
    "select": (lambda: ops.select(X, 0, 1), lambda: X[1]),
    "split": (lambda: ops.split(X, 2, dim=1), lambda: list(X.split(2, 1))),
    "unbind": (lambda: ops.unbind(X), lambda: list(X.unbind())),
    "cat": (lambda: ops.cat([X, Y], 1), lambda: torch.cat([X, Y], 1)),
    "stack": (lambda: ops.stack((X, Y)), lambda: torch.stack((X, Y))),
    "constant_pad_nd": (lambda: ops.constant_pad_nd(X, [1, 1], 7), lambda: torch.nn.functional.pad(X, (1, 1), value=7)),
    "index": (lambda: ops.index(X, [None, NUMBERS[0] % 3]), lambda: X[:, NUMBERS[0] % 3]),
    "gather": (lambda: ops.gather(X, 1, NUMBERS % 3), lambda: X.gather(1, NUMBERS % 3)),
    "embedding": (lambda: ops.embedding(W, NUMBERS % 3), lambda: torch.nn.functional.embedding(NUMBERS % 3, W)),
    "scatter": (lambda: ops.scatter(X, 1, NUMBERS % 3, 9.0), lambda: X.scatter(1, NUMBERS % 3, 9.0)),
    "scatter, reduce": (
        lambda: ops.scatter(X, 1, NUMBERS[:, :1] % 3, Y, reduce="add"),
        lambda: X.scatter(1, NUMBERS[:, :1] % 3, Y, reduce="add"),
    ),
    "masked_select": (lambda: ops.masked_select(X, X > 0), lambda: X[X > 0]),
    "zeros": (lambda: ops.zeros([2], dtype=torch.int32), lambda: torch.zeros(2, dtype=torch.int32)),
    "full": (lambda: ops.full((2, 2), True), lambda: torch.full((2, 2), True)),
    "arange": (lambda: ops.arange(1, 7, 2), lambda: torch.arange(1, 7, 2)),
    "ones_like": (lambda: ops.ones_like(X, device="cpu"), lambda: torch.ones_like(X)),
    "native_layer_norm": (
        lambda: ops.native_layer_norm(X, [3], None, None, 1e-5)[0],
        lambda: torch.nn.functional.layer_norm(X, [3]),
    ),
    "convolution": (
        lambda: ops.convolution(IMAGE, IMAGE[:, :, :2, :2], None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
        lambda: torch.nn.functional.conv2d(IMAGE, IMAGE[:, :, :2, :2]),
    ),
    "max_pool2d_with_indices": (
        lambda: ops.max_pool2d_with_indices(IMAGE, 2),
        lambda: torch.nn.functional.max_pool2d(IMAGE, 2, return_indices=True),
    ),
    "mse_loss": (lambda: ops.mse_loss(X, Y, reduction=2), lambda: torch.nn.functional.mse_loss(X, Y, reduction="sum")),
    "equal": (lambda: ops.equal(X, X), lambda: torch.equal(X, X)),
}  # fmt: skip
GIVES_DATA = {"masked_select", "equal"}
# torch 2.4 tries the overload for numbers first, and reads a number from the fake: a break there.
BREAKS_ON_OLD_TORCH = {"clamp by tensors"}


def parts(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


@pytest.mark.parametrize("call", CALLS)
def test_gives_what_torch_gives(call):
    through, known = CALLS[call]
    results, expected = parts(through()), parts(known())
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected):
        if not isinstance(wanted, torch.Tensor):
            assert result is wanted
            continue
        assert (result.dtype, result.stride()) == (wanted.dtype, wanted.stride())
        assert torch.equal(result, wanted)


@pytest.mark.parametrize("call", sorted(set(CALLS) - GIVES_DATA - BREAKS_ON_OLD_TORCH))
def test_is_captured_without_a_break(call):
    through, _ = CALLS[call]

    def program(x):
        return x + 1, through()

    assert_same_as_eager(program, X.clone())


def test_names_of_arguments_are_the_schemas():
    def program(x, y):
        return ops.add(self=x, other=y, alpha=0.5), ops.clamp(x, max=1), ops.mean(self=x, dim=[0], keepdim=True)

    compiled = assert_same_as_eager(program, X, Y, ops=3)
    assert "aten.add.Tensor(%0, %1, 0.5)" in str(compiled.graphs[0])


def test_in_place_operators_write_and_return_their_first_argument():
    x = X.clone()
    assert ops.mul_(ops.add_(x, 1), Y) is x
    assert torch.equal(x, (X + 1) * Y)
    assert torch.equal(ops.random_(x, 3), x) and set(x.flatten().tolist()) <= {0, 1, 2}

    def program(x):
        same = ops.relu_(ops.sub_(x, 1))
        return same is x, ops.fill_(x[0], 7.0)

    assert_same_as_eager(program, X.clone(), ops=4)


def test_gradients_flow_as_through_torch():
    x = X.clone().requires_grad_()
    ops.sum(ops.mul(ops.tanh(x), Y)).backward()
    expected = X.clone().requires_grad_()
    (expected.tanh() * Y).sum().backward()
    assert torch.equal(x.grad, expected.grad)


def test_the_same_function_computes_and_is_recorded():
    def program(x, w):
        return ops.relu(ops.mm(x, w))

    recorded = _C._testing.record(lambda *fakes: (program(*fakes),), (X, W))
    assert [line.split("=")[1].split("(")[0].strip() for line in recorded.text.splitlines() if "aten." in line] == [
        "aten.mm", "aten.relu",
    ]  # fmt: skip
    assert torch.equal(recorded(X, W)[0], program(X, W))


@pytest.mark.parametrize("call", [
    lambda: ops.mm(X, X),
    lambda: ops.add(X, "two"),
    lambda: ops.view(X, [4]),
    lambda: ops.softplus(NUMBERS),
    lambda: ops.relu(),
], ids=["sizes", "type", "view", "dtype", "missing"])  # fmt: skip
def test_errors_are_those_of_the_operator(call):
    with pytest.raises((RuntimeError, NotImplementedError, TypeError)) as raised:
        call()

    def program(x):
        x = x + 1
        return call()

    assert_same_as_eager(program, X.clone(), raises=raised.type, graphs=None, breaks=None, fallbacks=None)


def entries():
    """{name: its schemas} of the generator's rows."""
    found = {}
    for name in STUB_NAMES:
        text = getattr(ops, name).__doc__ if hasattr(ops, name) else ""
        found[name] = [line.strip() for line in text.splitlines() if line.strip()]
    return found


STUB_NAMES = list(dict.fromkeys(n.name for n in ast.parse(STUB.read_text()).body if isinstance(n, ast.FunctionDef)))


def test_every_name_resolves_or_is_said_to_be_missing():
    assert len(STUB_NAMES) > 400
    for name in STUB_NAMES:
        if hasattr(torch.ops.aten, name):
            assert callable(getattr(ops, name))
            assert name in dir(ops) and (name in ops.__all__) == (name[0] != "_")
        else:
            with pytest.raises(AttributeError, match=f"^framejit.ops.{name}: the installed torch .* has no operator aten::{name}$"):
                getattr(ops, name)


def test_docstrings_are_the_schemas_and_the_stub_has_an_overload_for_each():
    stub = {}
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            stub.setdefault(node.name, []).append(node)
    for name, schemas in entries().items():
        if not schemas:
            continue
        assert all(schema.startswith(f"aten::{name}") and ") -> " in schema for schema in schemas), name
        assert 1 <= len(stub[name]) <= len(schemas)
        marked = [any(d.id == "overload" for d in node.decorator_list) for node in stub[name]]
        assert all(marked) if len(marked) > 1 else not any(marked)


def test_stub_has_the_types_and_defaults_of_the_schema():
    text = STUB.read_text()
    assert "def add(self: Tensor, other: Tensor, *, alpha: _Number = 1) -> Tensor: ...\n" in text
    assert "def max(self: Tensor, dim: int, keepdim: bool = False) -> Tuple[Tensor, Tensor]: ...\n" in text
    assert "def random_(self: Tensor, from_: int, /, to: Optional[int], *, generator: Optional[torch.Generator] = None)" in text


def test_unknown_name_is_one_clear_error():
    with pytest.raises(AttributeError, match="module 'framejit.ops' has no attribute 'no_such_operator'"):
        ops.no_such_operator  # noqa: B018


def test_an_operator_that_torch_lacks_is_one_clear_error(tmp_path):
    text = pathlib.Path(ops.__file__).read_text()
    copy = tmp_path / "older_ops.py"
    row = '"relu": ("relu", '
    assert text.count(row) == 1
    copy.write_text(text.replace(row, '"of_a_later_torch": ("of_a_later_torch", '))
    spec = importlib.util.spec_from_file_location("older_ops", copy)
    older = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(older)
    with pytest.raises(AttributeError, match="framejit.ops.of_a_later_torch: the installed torch .* has no operator"):
        older.of_a_later_torch  # noqa: B018
    assert not hasattr(older, "of_a_later_torch") and "of_a_later_torch" not in older.__all__
    assert torch.equal(older.relu_(X.clone()), X.relu())


def in_a_new_process(code):
    env = dict(os.environ, PYTHONPATH=os.path.dirname(os.path.dirname(framejit.__file__)))
    code = "import torch, framejit\nx = torch.ones(3)\nknown = vars(torch.ops.aten)\n" + code
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout


def test_operators_are_looked_up_when_they_are_called():
    code = "print('ger' in known)\nframejit.ops.ger(x, x)\nprint('ger' in known)"
    assert in_a_new_process(code).split() == ["False", "True"]


def test_an_operator_nobody_has_looked_up_is_captured():
    code = """
def program(x):
    return framejit.ops.addr_(framejit.ops.ger(x, x), x, x)
print([name in known for name in ("ger", "addr_")])
stats = framejit.stats
compiled = framejit.to_static(program)(x)
print(torch.equal(compiled, program(x)), stats()["graphs"], stats()["breaks"], stats()["fallbacks"])
"""
    assert in_a_new_process(code).splitlines() == ["[False, False]", "True 1 0 0"]


def test_functions_are_plain_and_belong_to_the_module():
    assert inspect.isfunction(ops.add) and ops.add.__module__ == "framejit.ops" and ops.add.__name__ == "add"

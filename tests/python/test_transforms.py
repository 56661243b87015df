"""torch.func inside of captured functions: results, gradients and random numbers are eager's, each in one graph."""

import pytest
import torch
from torch import nn
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)
from torch.utils._pytree import tree_flatten

import framejit
from support import counts

NET = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1))
PARAMETERS = {name: value.detach().clone() for name, value in NET.named_parameters()}
MODELS = [nn.Linear(4, 2) for _ in range(3)]
WEIGHT = torch.randn(4)


def x34():
    return torch.linspace(-2, 2, 12).view(3, 4)


def loss(parameters, sample):
    return functional_call(NET, parameters, (sample,)).pow(2).sum()


def ensemble(x):
    stacked = {name: torch.stack([getattr(model, name).detach() for model in MODELS]) for name in ("weight", "bias")}
    return vmap(lambda p, a: functional_call(MODELS[0], p, (a,)), in_dims=(0, None))(stacked, x)


def keyword_arguments(x):
    return vmap(lambda a, *, scale: a * scale)(x, scale=torch.tensor(3.0))


def in_place(x):
    def f(a):
        b = a.clone()
        b.add_(1).mul_(a)
        return b

    return vmap(f)(x)


def writes_its_argument(x):
    vmap(lambda a: a.mul_(2))(x)
    return x + 1


def without_gradients_inside(x):
    def f(a):
        with torch.no_grad():
            c = a**2
        return (a.sin() * c).sum()

    return grad(f)(x)


def catches_an_error(x):
    try:
        return vmap(lambda a: a + torch.randn(4))(x)
    except RuntimeError as error:
        return x * len(str(error))


def reads_a_global(x):
    return vmap(lambda a: a @ WEIGHT)(x), grad(lambda a: (a * WEIGHT).sum())(x)


def loops_inside(x):
    def f(a):
        out = []
        for i in range(3):
            out.append(a.sin() * i)
        return torch.stack(out).sum(0)

    return vmap(f)(x)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return vmap(grad(lambda a: (a * self.scale).sin().sum()))(x)


SCALED = Scaled()

ONE_GRAPH = {
    "vmap": lambda x: vmap(lambda a: a.sin().sum())(x) * 2,
    "vmap with dims": lambda x: vmap(lambda a, b: {"s": a + b["k"], "t": (a,)}, (1, {"k": 0}), 1)(x, {"k": x.t()}),
    "vmap with None": lambda x: vmap(torch.mul, (0, None))(x, torch.tensor(2.0)),
    "vmap in chunks": lambda x: vmap(lambda a: a.sin(), chunk_size=2)(x),
    "vmap of vmap": lambda x: vmap(vmap(lambda a: a * 2 + 1))(x),
    "vmap of a convolution": lambda x: vmap(lambda a: nn.functional.conv1d(a[None, None], torch.ones(1, 1, 2)))(x),
    "vmap of matmul": lambda x: vmap(torch.matmul, (None, 1))(x, x.t()),
    "vmap with a slow rule": lambda x: vmap(lambda a: torch.histc(a, 3, -2, 2))(x),
    "grad": lambda x: grad(lambda a: a.sin().sum())(x) * 2,
    "grad of two": lambda x: grad(lambda a, b: (a * b.cos()).sum(), argnums=(0, 1))(x, x + 1),
    "grad with aux": lambda x: grad(lambda a: (a.sin().sum(), {"cos": a.cos()}), has_aux=True)(x),
    "grad and value": lambda x: grad_and_value(lambda a: a.sin().sum())(x),
    "grad of grad": lambda x: vmap(grad(grad(lambda a: a.sin())))(x[0]),
    "grad of vmap": lambda x: grad(lambda a: vmap(torch.sin)(a).sum())(x),
    "vmap of grad": lambda x: vmap(grad(lambda a: a.sin().sum()))(x),
    "grads of samples": lambda x: vmap(grad(loss), (None, 0))(PARAMETERS, x),
    "vjp": lambda x: vjp(torch.sin, x)[1](torch.ones(3, 4)),
    "vjp of two": lambda x: (lambda out, back: (out, back(out)))(*vjp(lambda a, b: a * b, x, x + 1)),
    "jvp": lambda x: jvp(torch.sin, (x,), (torch.ones(3, 4),)),
    "jvp with aux": lambda x: jvp(lambda a: (a.sin(), a + 1), (x,), (torch.ones(3, 4),), has_aux=True),
    "jvp of grad": lambda x: jvp(grad(lambda a: a.sin().sum()), (x,), (torch.ones(3, 4),)),
    "jacrev": lambda x: jacrev(torch.sin)(x[0]),
    "jacfwd": lambda x: jacfwd(torch.sin)(x[0]),
    "hessian": lambda x: hessian(lambda a: a.sin().prod())(x[0]),
    "functional_call": lambda x: functional_call(NET, PARAMETERS, (x,)),
    "ensemble": ensemble,
    "keyword arguments": keyword_arguments,
    "in place": in_place,
    "writes its argument": writes_its_argument,
    "no_grad inside": without_gradients_inside,
    "a global": reads_a_global,
    "loops inside": loops_inside,
    "a module": lambda x: SCALED(x),
    "different random numbers": lambda x: vmap(lambda a: a + torch.randn(4), randomness="different")(x),
    "same random numbers": lambda x: vmap(lambda a: a + torch.randn(4), randomness="same")(x),
    "dropout": lambda x: vmap(lambda a: nn.functional.dropout(a, 0.5), randomness="different")(x),
}


def outcome(function, *args):
    """What the call gives or raises, with the seed set before and the state of the generator after it."""
    torch.manual_seed(3)
    try:
        result = function(*args)
    except Exception as error:
        return [], (type(error), str(error)), torch.get_rng_state()
    leaves, spec = tree_flatten(result)
    return leaves, spec, torch.get_rng_state()


def assert_equal_outcomes(got, expected):
    assert got[1] == expected[1]
    assert torch.equal(got[2], expected[2])
    for mine, theirs in zip(got[0], expected[0]):
        if not isinstance(theirs, torch.Tensor):
            assert mine == theirs
            continue
        assert torch.equal(mine, theirs) and mine.stride() == theirs.stride() and mine.dtype == theirs.dtype
        assert mine.requires_grad == theirs.requires_grad and type(mine) is type(theirs)


def check(function, make=x34, graphs=1, breaks=0):
    outcome(function, make())  # imports what torch.func imports at its first call
    expected = outcome(function, make())
    compiled = framejit.to_static(function)
    with counts.expect_counts("cold", graphs=graphs, breaks=breaks, fallbacks=0):
        assert_equal_outcomes(outcome(compiled, make()), expected)
    with counts.expect_counts("warm", captures=0, hits=counts.at_least(1)):
        assert_equal_outcomes(outcome(compiled, make()), expected)
    assert_equal_outcomes(outcome(compiled, make().double()), outcome(function, make().double()))  # after a guard miss
    assert_equal_outcomes(outcome(compiled, make()), expected)
    return compiled


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("name", sorted(ONE_GRAPH))
def test_is_one_graph(name):
    check(ONE_GRAPH[name])


def gradients(run, x, weight):
    x, weight = x.clone().requires_grad_(), weight.clone().requires_grad_()
    result = run(x, weight)
    leaves = [leaf for leaf in tree_flatten(result)[0] if leaf.requires_grad]
    torch.autograd.backward(leaves, [torch.ones_like(leaf) for leaf in leaves])
    return [*leaves, x.grad, weight.grad]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: vmap(lambda a: (a * w).sin().sum())(x),
        lambda x, w: grad(lambda a: (a * w).sin().sum())(x),
        lambda x, w: vmap(grad(lambda a: (a * w).sin().sum()))(x),
        lambda x, w: jvp(lambda a: (a * w).sin(), (x,), (x.cos(),)),
        lambda x, w: vjp(lambda a: (a * w).sin(), x)[1](x.cos()),
        lambda x, w: jacrev(lambda a: (a * w).sin())(x[0]),
        lambda x, w: functional_call(NET, {"0.weight": torch.stack([w] * 5)}, (x,)),
    ],
    ids=["vmap", "grad", "vmap of grad", "jvp", "vjp", "jacrev", "functional_call"],
)
def test_gradients_of_the_result(function):
    function(x34(), WEIGHT)
    expected = gradients(function, x34(), WEIGHT)
    compiled = framejit.to_static(function)
    for _ in range(3):
        for mine, theirs in zip(gradients(compiled, x34(), WEIGHT), expected):
            assert (mine is None) == (theirs is None)
            assert mine is None or torch.equal(mine, theirs)
    assert len(compiled.graphs) == 1


def test_transform_made_outside():
    per_sample = vmap(grad(loss), (None, 0))
    check(lambda x: per_sample(PARAMETERS, x))


def test_a_changed_global_is_noticed():
    scale = [2.0]

    def f(x):
        return vmap(lambda a: a * scale[0])(x)

    compiled = framejit.to_static(f)
    for scale[0] in (2.0, 3.0, 2.0):
        assert torch.equal(compiled(x34()), x34() * scale[0])
    assert len(compiled.graphs) == 2


def test_stacked_parameters_require_gradients_of_their_own():
    def f(x):
        parameters, buffers = stack_module_state(MODELS)
        return vmap(lambda p, b, a: functional_call(MODELS[0], (p, b), (a,)), in_dims=(0, 0, None))(parameters, buffers, x)

    expected = f(x34())
    compiled = framejit.to_static(f)
    for _ in range(3):
        assert torch.equal(compiled(x34()), expected)


def prints_inside(x):
    def f(a):
        print("inside")
        return a * 2

    return vmap(f)(x + 1) * 3


def reads_a_value_inside(x):
    return grad(lambda a: (a * a.sum().item()).sum())(x + 1) * 3


def branches_inside(x):
    return grad(lambda a: a.sum() if a.sum() > 0 else a.prod())(x + 1) * 3


def keeps_a_tensor_of_a_level(x):
    kept = []
    y = vmap(lambda a: (kept.append(a), a * 2)[1])(x + 1)
    return y * 3, len(kept)


def leaves_with_the_function(x):
    out, back = vjp(torch.sin, x + 1)
    framejit.graph_break()
    return back(out)[0] * 3


@pytest.mark.parametrize(
    "function", [prints_inside, reads_a_value_inside, branches_inside, leaves_with_the_function], ids=lambda f: f.__name__
)
def test_a_break_inside_lies_before_the_transform(function, capsys):
    function(x34())
    expected = function(x34())
    said = capsys.readouterr().out
    compiled = framejit.to_static(function)
    for _ in range(3):
        assert torch.equal(compiled(x34()), expected)
        assert capsys.readouterr().out == said[: len(said) // 2]
    graphs = [str(graph) for graph in compiled.graphs]
    assert any("aten.add" in graph for graph in graphs) and any("aten.mul" in graph for graph in graphs), graphs


def test_a_tensor_of_a_level_that_is_left_over():
    expected = keeps_a_tensor_of_a_level(x34())
    compiled = framejit.to_static(keeps_a_tensor_of_a_level)
    for _ in range(2):
        got = compiled(x34())
        assert torch.equal(got[0], expected[0]) and got[1] == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: vmap(lambda a: a + torch.randn(4))(x),
        lambda x: vmap(lambda a: a, in_dims=5)(x),
        lambda x: vmap(lambda a: "text")(x),
        lambda x: grad(lambda a: a)(x),
        lambda x: grad(lambda a: a.sum(), argnums=3)(x),
        lambda x: vmap(lambda a: a[7])(x),
        lambda x: jvp(torch.sin, (x,), (torch.ones(2),)),
        lambda x: vmap(lambda a: torch.zeros(4).add_(a))(x),
    ],
)
def test_errors_are_those_of_eager(function):
    expected = outcome(function, x34())
    assert isinstance(expected[1], tuple)
    compiled = framejit.to_static(function)
    for _ in range(3):
        assert_equal_outcomes(outcome(compiled, x34()), expected)
    assert_equal_outcomes(outcome(framejit.to_static(ONE_GRAPH["vmap"]), x34()), outcome(ONE_GRAPH["vmap"], x34()))


def test_an_error_that_the_program_catches():
    expected = outcome(catches_an_error, x34())
    compiled = framejit.to_static(catches_an_error)
    for _ in range(3):
        assert_equal_outcomes(outcome(compiled, x34()), expected)


def test_a_function_called_by_a_transform_runs_eagerly():
    inner = framejit.to_static(lambda a: a.sin() + torch.zeros(4))
    for transform in (vmap, lambda f: grad(lambda a: f(a).sum())):
        for _ in range(2):
            assert torch.equal(transform(inner)(x34()[:, :4]), transform(lambda a: a.sin() + torch.zeros(4))(x34()))
    before = len(inner.graphs)
    assert torch.equal(inner(x34()), x34().sin())
    assert len(inner.graphs) == before + 1


def test_under_no_grad_and_in_inference_mode():
    function = ONE_GRAPH["grads of samples"]
    for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad):
        with mode():
            expected = outcome(function, x34())
            compiled = framejit.to_static(function)
            for _ in range(2):
                assert_equal_outcomes(outcome(compiled, x34()), expected)


def test_nothing_of_a_transform_is_left_on_the_thread():
    framejit.to_static(prints_inside)(x34())
    framejit.to_static(reads_a_value_inside)(x34())
    assert torch._C._functorch.maybe_current_level() is None if hasattr(torch._C._functorch, "maybe_current_level") else True
    assert torch._C._functorch.peek_interpreter_stack() is None
    with torch.autograd.forward_ad.dual_level():
        pass

"""backward() and torch.autograd.grad in a captured function: part of its graph, gradients as eager's."""

import copy

import pytest
import torch
import torch.utils.checkpoint
from torch import nn

import framejit
from support import counts


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
        self.unused = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return self.layers(x)


def inputs():
    torch.manual_seed(3)
    return torch.randn(5, 6)


def facts(tensor):
    """What a program sees of a gradient."""
    if tensor is None:
        return None
    return tensor.detach().clone(), tensor.stride(), tensor._is_view(), tensor.requires_grad, tensor._version, tensor.dtype


def assert_same(a, b):
    if isinstance(a, (tuple, list)):
        assert type(a) is type(b) and len(a) == len(b)
        for left, right in zip(a, b):
            assert_same(left, right)
    elif isinstance(a, torch.Tensor):
        assert a.shape == b.shape and torch.equal(a, b), (a, b)
    else:
        assert a == b, (a, b)


def history(make, step, compiled, calls):
    """Results and gradients after each call."""
    torch.manual_seed(0)
    net = make()
    run = framejit.to_static(lambda x: step(net, x)) if compiled else lambda x: step(net, x)
    seen = []
    for _ in range(calls):
        torch.manual_seed(1)
        result = run(inputs())
        seen.append((result, [facts(p.grad) for p in net.parameters()], [p.detach().clone() for p in net.parameters()]))
    shared = [p.grad.untyped_storage().data_ptr() for p in net.parameters() if p.grad is not None]
    return seen, [shared.index(pointer) for pointer in shared]


def check(step, make=Net, calls=4, breaks=0):
    eager = history(make, step, False, calls)
    with counts.counting() as counted:
        compiled = history(make, step, True, calls)
    assert_same(eager, compiled)
    assert counted.graphs > 0
    assert counted.breaks == breaks or breaks is None, counted.break_reasons
    return counted


def loss_of(net, x):
    return net(x).pow(2).mean()


def accumulates(net, x):
    loss_of(net, x).backward()


def twice(net, x):
    loss_of(net, x).backward()
    (net(x + 1).sum() * 0.5).backward()


def set_to_none(net, x):
    for p in net.parameters():
        p.grad = None
    loss = loss_of(net, x)
    loss.backward()
    return loss.detach()


def zero_grad(net, x):
    net.zero_grad()
    loss_of(net, x).backward()


def zero_grad_in_place(net, x):
    net.zero_grad(set_to_none=False)
    loss_of(net, x).backward()


def through_torch(net, x):
    torch.autograd.backward([loss_of(net, x), net(x).sum()])


def with_gradient(net, x):
    net(x).backward(torch.full((5, 1), 0.5))


def retained(net, x):
    loss = loss_of(net, x)
    loss.backward(retain_graph=True)
    loss.backward()


def by_hand(net, x):
    net.zero_grad()
    loss_of(net, x).backward()
    with torch.no_grad():
        for p in net.parameters():
            if p.grad is not None:
                p -= 0.1 * p.grad
    return x


def clipped(net, x):
    net.zero_grad()
    loss_of(net, x).backward()
    return nn.utils.clip_grad_norm_(net.parameters(), 0.1)


def reads_gradients(net, x):
    loss_of(net, x).backward()
    return [p.grad * 2 for p in net.layers.parameters()], net.unused.grad is None


def own_gradients(net, x):
    loss_of(net, x).backward()
    for p in net.layers.parameters():
        p.grad = p.grad * 2


def in_no_grad(net, x):
    loss = loss_of(net, x)
    with torch.no_grad():
        loss.backward()


def autocast(net, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = net(x).float().pow(2).mean()
    loss.backward()


def asks_for_grad(net, x):
    weights = list(net.layers.parameters())
    return torch.autograd.grad(loss_of(net, x), weights)


def asks_for_unused(net, x):
    return torch.autograd.grad(loss_of(net, x), [net.unused, net.layers[0].bias], allow_unused=True)


def asks_inside(net, x):
    hidden = net.layers[0](x)
    return torch.autograd.grad(net.layers[1:](hidden).sum(), hidden)


def penalty(net, x):
    """Gradients that are themselves part of what is returned."""
    (gradient,) = torch.autograd.grad(loss_of(net, x), net.layers[0].weight)
    return (gradient * gradient).sum()


def penalised(net, x):
    """Gradients of gradients."""
    score = net(x).sum()
    (gradient,) = torch.autograd.grad(score, net.layers[0].weight, create_graph=True)
    (score + gradient.norm()).backward()


def penalised_outside(net, x):
    (gradient,) = torch.autograd.grad(loss_of(net, x), net.layers[0].weight, create_graph=True)
    return (gradient * gradient).sum()


WHOLE = [
    accumulates,
    twice,
    set_to_none,
    zero_grad,
    zero_grad_in_place,
    through_torch,
    with_gradient,
    retained,
    by_hand,
    reads_gradients,
    own_gradients,
    in_no_grad,
    autocast,
    asks_for_grad,
    asks_for_unused,
    asks_inside,
    penalty,
    penalised,
]


@pytest.mark.parametrize("step", WHOLE, ids=lambda step: step.__name__)
def test_is_part_of_the_graph(step):
    check(step)


def test_gradients_are_clipped():
    check(clipped, breaks=None)


class Normalised(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)

    def forward(self, x):
        return self.last(nn.functional.dropout(self.norm(self.first(x)).relu(), 0.3))


class Shared(nn.Module):
    """Both gradients are the same tensor to autograd."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.ones(5, 6)), nn.Parameter(torch.full((5, 6), 2.0))

    def forward(self, x):
        return (self.a + self.b).sum() + (self.a - x).view(6, 5).t().sum()


class Expanded(nn.Module):
    """Gradients that are expanded, transposed or not dense."""

    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.ones(6, 5).t())
        self.b = nn.Parameter(torch.ones(5, 6)[:, ::2].detach())
        self.c = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return self.a.sum() + (self.b.t() @ x).sum() + (x * self.c).sum()


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(self.a(x).sin())


@pytest.mark.parametrize("make", [Normalised, Shared, Expanded, Tied])
@pytest.mark.parametrize("step", [accumulates, set_to_none, by_hand])
def test_kinds_of_gradients(make, step):
    check(step, make)


def assert_error(eager, compiled):
    with pytest.raises(RuntimeError) as expected:
        eager()
    with pytest.raises(RuntimeError, match=str(expected.value)[:40].replace("(", r"\(")):
        compiled()


def test_a_second_backward_of_the_result_raises():
    net = Net()
    step = lambda x: [loss := loss_of(net, x), loss.backward()][0]  # noqa: E731
    with counts.counting() as counted:
        loss = framejit.to_static(step)(inputs())
    assert counted.breaks == 0 and loss.requires_grad and not loss.is_leaf
    assert_error(step(inputs()).backward, loss.backward)


def test_history_without_saved_tensors_stays():
    w = torch.ones(4, requires_grad=True)

    def step(x):
        loss = (w + x).sum()
        loss.backward()
        return loss

    compiled = framejit.to_static(step)
    for run in (step, compiled, compiled):
        w.grad = None
        run(torch.ones(4)).backward()
        assert torch.equal(w.grad, torch.full((4,), 2.0))
    assert len(compiled.graphs) == 1


def test_gradients_of_gradients_outside():
    net = Net()
    compiled = framejit.to_static(lambda x: penalised_outside(net, x))
    seen = []
    for run in (lambda x: penalised_outside(net, x), compiled, compiled):
        net.zero_grad()
        run(inputs()).backward()
        seen.append([facts(p.grad) for p in net.parameters()])
    assert_same(seen[0], seen[1])
    assert_same(seen[0], seen[2])
    assert len(compiled.graphs) == 1


def test_a_retained_history_serves_again():
    net = Net()

    def step(x):
        loss = loss_of(net, x)
        loss.backward(retain_graph=True)
        return loss

    compiled = framejit.to_static(step)
    seen = []
    for run in (step, compiled, compiled):
        net.zero_grad()
        run(inputs()).backward()
        seen.append([facts(p.grad) for p in net.parameters()])
    assert_same(seen[0], seen[1])
    assert_same(seen[0], seen[2])


def test_a_retained_history_of_what_is_written():
    """Eager's error, where a saved parameter changed after it was saved."""
    net = Net()

    def step(x):
        loss = loss_of(net, x)
        loss.backward(retain_graph=True)
        with torch.no_grad():
            net.layers[4].weight.mul_(0.5)
        return loss

    compiled = framejit.to_static(step)
    for _ in range(2):
        assert_error(step(inputs()).backward, compiled(inputs()).backward)


def test_anomaly_mode_is_asked_again():
    w = torch.zeros(2, requires_grad=True)

    def step(x):
        (w / x).sum().backward()

    compiled = framejit.to_static(step)
    compiled(torch.ones(2))
    with pytest.warns(UserWarning, match="nomaly"), torch.autograd.detect_anomaly():
        with pytest.raises(RuntimeError, match="nan"):
            compiled(torch.full((2,), float("nan")))


def test_another_result_keeps_its_history():
    net = Net()

    def step(x):
        loss = loss_of(net, x)
        other = net(x * 2)
        loss.backward()
        return loss, other

    compiled = framejit.to_static(step)
    seen = []
    for run in (step, compiled, compiled):
        net.zero_grad()
        loss, other = run(inputs())
        other.sum().backward()
        seen.append([facts(p.grad)[0] for p in net.layers.parameters()])
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
    assert_same(seen[0], seen[1])
    assert_same(seen[0], seen[2])
    assert len(compiled.graphs) == 1


def test_two_backwards_inside_raise_where_they_do():
    net = Net()

    def step(x):
        loss = loss_of(net, x)
        loss.backward()
        try:
            loss.backward()
        except RuntimeError as error:
            return str(error)[:40]

    net.zero_grad()
    assert framejit.to_static(step)(inputs()) == step(inputs())


@pytest.mark.parametrize("step", [lambda net, x: net(x).backward(), lambda net, x: net(x).detach().sum().backward()], ids=["no scalar", "no history"])
def test_errors_are_those_of_eager(step):
    net = Net()
    compiled = framejit.to_static(lambda x: step(net, x))
    for _ in range(2):
        assert_error(lambda: step(net, inputs()), lambda: compiled(inputs()))


def test_saved_tensors_that_were_changed():
    net = Net()

    def step(x):
        hidden = net.layers[0](x).exp()
        loss = (hidden * hidden).sum()
        hidden.add_(1)
        loss.backward()

    assert_error(lambda: step(inputs()), lambda: framejit.to_static(step)(inputs()))


def with_create_graph(net, x):
    loss_of(net, x).backward(create_graph=True)
    for p in net.layers.parameters():
        p.grad = p.grad.detach()


def with_inputs(net, x):
    loss_of(net, x).backward(inputs=[net.layers[0].weight])


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def with_a_function(net, x):
    Scale.apply(net(x)).sum().backward()


def with_a_checkpoint(net, x):
    torch.utils.checkpoint.checkpoint(net, x, use_reentrant=False).sum().backward()


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True:UserWarning")
@pytest.mark.parametrize("step", [with_create_graph, with_inputs, with_a_function, with_a_checkpoint], ids=lambda step: step.__name__)
def test_breaks(step):
    counted = check(step, breaks=None)
    assert counted.break_reasons["GradientInside"] > 0, counted.break_reasons


def test_a_history_from_outside():
    w = torch.ones(6, requires_grad=True)

    def step(h):
        (h * 3).sum().backward()

    compiled = framejit.to_static(step)
    for run in (step, compiled, compiled):
        w.grad = None
        run(w.exp())
        assert torch.equal(w.grad, 3 * w.detach().exp())


def test_an_argument_that_is_a_leaf():
    compiled = framejit.to_static(lambda x: (x * x).sum().backward())
    x = torch.ones(4, requires_grad=True)
    for n in range(1, 4):
        compiled(x)
        assert torch.equal(x.grad, torch.full((4,), 2.0 * n))
    assert len(compiled.graphs) == 2  # without a gradient at first, then with one


def test_guards_grow_with_the_leaves():
    """One for each leaf says that it is another than the rest, not one for each pair."""
    leaves = [torch.ones(2, requires_grad=True) for _ in range(40)]
    compiled = framejit.to_static(lambda x: (sum(leaves) * x).sum().backward())
    compiled(torch.ones(2))
    text = str(framejit.explain(compiled, torch.ones(2)))
    assert text.count("those before it are different objects") == 2 * 40 + 1  # with gradients and the argument
    assert text.count(" is not ") < 40


def hooked_cases():
    def tensor_hook(p, seen):
        p.register_hook(lambda g: seen.append(g.clone()))

    def accumulate_hook(p, seen):
        p.register_post_accumulate_grad_hook(lambda q: seen.append(q.grad.clone()))

    def node_hook(p, seen):
        node = p.view_as(p).grad_fn.next_functions[0][0]
        node.register_hook(lambda *gradients: seen.append(p.grad.clone()))
        seen.append(node)  # it lives as long as somebody holds it

    return [tensor_hook, accumulate_hook, node_hook]


@pytest.mark.parametrize("early", [False, True], ids=["after the capture", "before"])
@pytest.mark.parametrize("add", hooked_cases(), ids=lambda add: add.__name__)
def test_hooks_are_called(add, early):
    """A hook that comes later is seen by the guards."""

    def run(compiled):
        net = copy.deepcopy(NETS[0])
        step = lambda x: loss_of(net, x).backward()  # noqa: E731
        if compiled:
            step = framejit.to_static(step)
        seen = []
        for i in range(4):
            if i == (0 if early else 2):
                add(net.layers[0].weight, seen)
            step(inputs())
        return [item for item in seen if isinstance(item, torch.Tensor)], facts(net.layers[0].weight.grad)

    assert len(run(False)[0]) == (4 if early else 2)
    assert_same(run(False), run(True))


NETS = [Net()]


def backward_of(a, b, c, x):
    ((a + 2 * b + 3 * c) * x).sum().backward()


def grad_of_one(a, b, c, x):
    return torch.autograd.grad(((a + 2 * b + 3 * c) * x).sum(), [b])


@pytest.mark.parametrize("step", [backward_of, grad_of_one])
@pytest.mark.parametrize("gradient", [None, 1.0], ids=["without gradients", "with"])
@pytest.mark.parametrize("history", [False, True], ids=["leaves", "no leaves"])
def test_leaves_that_become_one(step, gradient, history):
    """What is differentiated apart today may be one object tomorrow."""
    leaves = [torch.ones(3, requires_grad=True) for _ in range(3)]
    compiled = framejit.to_static(step)
    for names in ("abc", "abc", "aac", "bcb", "abc"):
        results = []
        for run in (step, compiled):
            for leaf in leaves:
                leaf.grad = gradient and torch.full((3,), gradient)
            tensors = dict(zip("abc", [leaf * 1 for leaf in leaves] if history else leaves))
            results.append((run(*(tensors[name] for name in names), torch.arange(3.0)), [facts(leaf.grad) for leaf in leaves]))
        assert_same(*results)


@pytest.mark.parametrize("step", [accumulates, set_to_none, by_hand, asks_for_grad], ids=lambda step: step.__name__)
def test_with_kernels(step):
    torch.manual_seed(0)
    net = Net()
    other = copy.deepcopy(net)
    compiled = framejit.to_static(lambda x: step(net, x), backend="native")
    for _ in range(3):
        torch.testing.assert_close(compiled(inputs()), step(other, inputs()))
    for p, q in zip(net.parameters(), other.parameters()):
        torch.testing.assert_close(p, q)
        assert (p.grad is None) == (q.grad is None)
        if p.grad is not None:
            torch.testing.assert_close(p.grad, q.grad)
    assert compiled.graphs


def test_a_break_before_and_behind():
    """What a break behind a backward leaves is the state after it; one before leaves the history whole."""
    net = Net()

    def step(x):
        loss = loss_of(net, x)
        framejit.graph_break()
        loss.backward()
        framejit.graph_break()
        return [p.grad + 1 for p in net.layers.parameters()], loss.requires_grad

    compiled = framejit.to_static(step)
    results = []
    for run in (step, compiled, compiled):
        net.zero_grad()
        results.append(run(inputs()))
    assert_same(results[0], results[1])
    assert_same(results[0], results[2])

"""backward() and torch.autograd.grad in a captured function: part of its graph, gradients as eager's."""

import copy

import pytest
import torch
import torch.utils.checkpoint
from torch import nn

import framejit
from framejit import _C
from support import counts
from support.gradients import Net, assert_same, facts, inputs, loss_of
from support.native import needs_kernels


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


def into_named(net, x):
    loss_of(net, x).backward(inputs=[net.layers[0].weight])


def into_one(net, x):
    loss_of(net, x).backward(inputs=net.layers[0].bias)


def into_unused_and_twice(net, x):
    loss_of(net, x).backward(inputs=[net.unused, net.layers[0].weight, net.layers[0].weight])


def in_parts(net, x):
    loss = loss_of(net, x)
    loss.backward(inputs=list(net.layers[0].parameters()), retain_graph=True)
    loss.backward(inputs=list(net.layers[1:].parameters()))


def part_and_whole(net, x):
    loss_of(net, x).backward(inputs=[net.layers[0].weight])
    loss_of(net, x).backward()


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


WHOLE = [
    accumulates,
    twice,
    set_to_none,
    zero_grad,
    zero_grad_in_place,
    through_torch,
    with_gradient,
    retained,
    into_named,
    into_one,
    into_unused_and_twice,
    in_parts,
    part_and_whole,
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
    """The function that groups gradients by device is unknown; what is before it has the backward."""
    counted = check(clipped, breaks=None)
    assert "GradientInside" not in counted.break_reasons, counted.break_reasons


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


def with_create_graph(net, x):
    loss_of(net, x).backward(create_graph=True)
    for p in net.layers.parameters():
        p.grad = p.grad.detach()


def into_what_is_no_leaf(net, x):
    hidden = net.layers[0](x)
    net.layers[1:](hidden).sum().backward(inputs=[hidden, net.layers[0].bias])


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
@pytest.mark.parametrize(
    "step",
    [with_create_graph, into_what_is_no_leaf, with_a_function, with_a_checkpoint],
    ids=lambda step: step.__name__,
)
def test_breaks(step):
    counted = check(step, breaks=None)
    assert counted.break_reasons["GradientInside"] > 0, counted.break_reasons


def test_history_that_a_named_backward_frees():
    """The first frees what it goes over; the second needs some of that, or none."""

    def step(net, x, second):
        hidden = net.layers[0](x)
        loss = net.layers[1:](hidden.tanh()).pow(2).sum()
        loss.backward(inputs=list(net.layers[1:].parameters()))
        try:
            loss.backward(inputs=second(net))
        except RuntimeError as error:
            return str(error)[:40]

    for second in (lambda net: [net.layers[0].weight], lambda net: list(net.layers[1:].parameters())):
        check(lambda net, x, second=second: step(net, x, second), breaks=None)


def sums_apart(net, x):
    """Of the loss's own history nothing is saved: one branch's is freed, the other's is not."""
    hidden = net.layers[0](x)
    loss = hidden.tanh().sum() + net.layers[2].weight.exp().sum()
    loss.backward(inputs=[net.layers[2].weight])
    return loss


def test_a_backward_that_frees_history_in_part_breaks():
    torch.manual_seed(0)
    net, other = Net(), Net()
    other.load_state_dict(net.state_dict())
    compiled = framejit.to_static(lambda x: sums_apart(net, x))
    with counts.counting() as counted:
        for _ in range(3):
            assert_same(sums_apart(other, inputs()).detach(), compiled(inputs()).detach())
            assert_same([facts(p.grad) for p in other.parameters()], [facts(p.grad) for p in net.parameters()])
    assert counted.graphs > 0
    assert counted.break_reasons["GradientInside"] > 0, counted.break_reasons


def test_history_that_is_freed_in_part():
    def differentiated(compile_it):
        torch.manual_seed(0)
        net = Net()
        run = framejit.to_static(lambda x: sums_apart(net, x)) if compile_it else lambda x: sums_apart(net, x)
        seen = []
        for _ in range(3):
            loss = run(inputs())
            loss.backward(inputs=list(net.layers[0].parameters()))
            with pytest.raises(RuntimeError, match="a second time"):
                loss.backward(inputs=[net.layers[2].weight])
            seen.append([facts(p.grad) for p in net.parameters()])
        return seen

    with counts.counting() as counted:
        assert_same(differentiated(False), differentiated(True))
    assert counted.graphs > 0


def test_a_freed_result_knows_what_it_reaches():
    """A gradient for what it does not reach is no second backward."""

    def step(w, v):
        loss = (w * w).sum()
        loss.backward()
        return loss

    def outcomes(run):
        w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        loss = run(w, v)
        seen = [torch.autograd.grad(loss, v, allow_unused=True)[0]]
        for question in (
            lambda: torch.autograd.grad(loss, w),
            lambda: loss.backward(inputs=[w]),
            lambda: loss.backward(),
        ):
            with pytest.raises(RuntimeError, match="a second time"):
                question()
        return seen, w.grad

    compiled = framejit.to_static(step)
    assert_same(outcomes(step), outcomes(compiled))
    assert len(compiled.graphs) == 1


def test_loss_after_a_named_backward():
    """What the backward did not go over can still be differentiated, from outside."""

    def differentiated(compile_it):
        torch.manual_seed(0)
        net = Net()

        def step(x):
            loss = loss_of(net, x)
            loss.backward(inputs=[net.layers[0].bias], retain_graph=True)
            return loss

        run = framejit.to_static(step) if compile_it else step
        seen = []
        for _ in range(3):
            run(inputs()).backward()
            seen.append([facts(p.grad) for p in net.parameters()])
        assert not compile_it or len(run.graphs) == 2  # without gradients that are there, and with them
        return seen

    assert_same(differentiated(False), differentiated(True))


# Those whose backward reads what an elementwise operator made, and is the only one.
COMPUTED_AGAIN = [
    accumulates,
    set_to_none,
    zero_grad,
    zero_grad_in_place,
    through_torch,
    with_gradient,
    by_hand,
    reads_gradients,
    own_gradients,
    in_no_grad,
    asks_for_grad,
]


@needs_kernels
@pytest.mark.parametrize("step", WHOLE, ids=lambda step: step.__name__)
def test_with_kernels(step):
    """With all that can be computed again in the backward, however small."""
    torch.manual_seed(0)
    net = Net()
    other = copy.deepcopy(net)
    compiled = framejit.to_static(lambda x: step(net, x), backend="native")
    was, before = _C._testing.set_small(0), _C.kernel_stats()["recomputing"]
    try:
        for _ in range(3):
            torch.testing.assert_close(compiled(inputs()), step(other, inputs()))
    finally:
        _C._testing.set_small(was)
    for p, q in zip(net.parameters(), other.parameters()):
        torch.testing.assert_close(p, q)
        assert (p.grad is None) == (q.grad is None)
        if p.grad is not None:
            torch.testing.assert_close(p.grad, q.grad)
            assert facts(p.grad)[1:] == facts(q.grad)[1:]
    assert compiled.graphs
    assert step not in COMPUTED_AGAIN or _C.kernel_stats()["recomputing"] > before


def through_another(t, h):
    return torch.autograd.grad((t * h).sum(), h)[0]


def of_what_came(t, h):
    return torch.autograd.grad(t, h, torch.ones(3), allow_unused=True)[0]


def of_both(t, h):
    return torch.autograd.grad((t * h).sum(), [t, h])


def after_a_break(t, h):
    t = h.cos() * t.detach()
    framejit.graph_break()
    return torch.autograd.grad((t * h).sum(), h)[0]


@pytest.mark.parametrize(
    "function", [through_another, of_what_came, of_both, after_a_break], ids=lambda function: function.__name__
)
def test_gradients_through_history_from_outside(function):
    """A part of the gradient comes through what was computed before the graph, which the graph does not hold."""
    compiled = framejit.to_static(function)
    for _ in range(3):
        results = []
        for call in (function, compiled):
            h = torch.tensor([0.5, 1.0, 2.0], requires_grad=True)
            results.append(call(h.sin(), h))
        torch.testing.assert_close(results[1], results[0], rtol=0, atol=0)


@pytest.mark.parametrize("made_inside", [False, True])
def test_gradient_of_a_tensor_with_history_from_outside_is_in_the_graph(made_inside):
    """What lies behind the only tensor that is asked for has no part in its gradient."""

    def penalty(t, h):
        if made_inside:
            t = t * 2
        return torch.autograd.grad((t.sin() * h).sum(), t)[0]

    compiled = framejit.to_static(penalty, full_graph=True)
    for _ in range(3):
        h = torch.tensor([0.5, 1.0, 2.0], requires_grad=True)
        torch.testing.assert_close(compiled(h.sin(), h), penalty(h.sin(), h), rtol=0, atol=0)
    assert len(compiled.graphs) == 1


def test_gradients_where_torchs_function_is_a_frame_of_its_own():
    """torch.autograd.grad is Python code: called by a frame that runs eagerly, it is captured alone."""
    weight = torch.full((1,), 0.5, requires_grad=True)

    def inside(x):
        return x + torch.autograd.grad((x * weight).sin().sum(), [weight])[0]

    def in_a_generator(x):
        def steps():
            h = x.sin().detach().requires_grad_()
            yield torch.autograd.grad(h.sin().sum(), h, allow_unused=True)[0]

        for gradient in steps():
            return gradient

    x = torch.ones(3)
    with torch.no_grad(), pytest.raises(RuntimeError, match="does not require grad"):
        framejit.to_static(inside)(x)
    for _ in range(2):
        assert torch.equal(framejit.to_static(lambda x: in_a_generator(x))(x), in_a_generator(x))
        framejit.reset()


@needs_kernels
def test_what_is_computed_again_is_not_what_a_write_through_another_argument_made_of_it():
    """Of two arguments over one memory the second is written between forward and backward."""

    def step(x, y, weight, other):
        loss = (torch.sin(x) * weight + x * other).sum()
        y.add_(1)
        loss.backward()
        return loss

    compiled = framejit.to_static(step, backend="native")
    was, before = _C._testing.set_small(0), _C.kernel_stats()["recomputing"]
    try:
        for shared in (False, True, False, True):
            gradients = []
            for run in (step, compiled):
                weights = [torch.ones(5, 6, requires_grad=True) for _ in range(2)]
                memory = inputs().numpy()  # tensors over it have a version each
                x, y = torch.from_numpy(memory), torch.from_numpy(memory if shared else memory.copy())
                run(x, y, *weights)
                gradients.append([weight.grad for weight in weights])
            torch.testing.assert_close(gradients[1], gradients[0])
    finally:
        _C._testing.set_small(was)
    assert _C.kernel_stats()["recomputing"] > before


@needs_kernels
@pytest.mark.parametrize("returned", [True, False])
def test_a_step_of_convolutions(returned):
    torch.manual_seed(0)
    net = nn.Sequential(*[nn.Conv2d(16, 16, 1, bias=False), nn.SiLU()] * 3, nn.Conv2d(16, 16, 3, bias=False))
    other, x = copy.deepcopy(net), torch.randn(2, 16, 40, 40)

    def step(net):
        net.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        return loss if returned else None

    compiled, before = framejit.to_static(step, backend="native"), _C.kernel_stats()["recomputing"]
    for _ in range(3):
        torch.testing.assert_close(compiled(net), step(other))
        for p, q in zip(net.parameters(), other.parameters()):
            torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-6)
    assert _C.kernel_stats()["recomputing"] > before

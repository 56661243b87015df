"""Hooks of several leaves of one graph are called in eager's order, each before later leaves have their gradient."""

import pytest
import torch
import torch.utils.checkpoint
from torch import nn

import framejit
from support.gradients import assert_same

BACKENDS = pytest.mark.parametrize("backend", ["aten", "native"])


class Log:
    """What hooks of leaves see: the gradient, and which leaves have theirs."""

    def __init__(self, leaves):
        self.leaves, self.entries, self.kept = leaves, [], []

    def note(self, what, name, gradient):
        have = [name for name, leaf in self.leaves.items() if leaf.grad is not None]
        self.entries.append((what, name, have, None if gradient is None else gradient.detach().clone()))

    def tensor_hooks(self):
        for name, leaf in self.leaves.items():
            leaf.register_hook(lambda gradient, name=name: self.note("hook", name, gradient))

    def accumulated_hooks(self):
        for name, leaf in self.leaves.items():
            leaf.register_post_accumulate_grad_hook(
                lambda leaf, name=name: self.note("accumulated", name, leaf.grad),
            )

    def node_hooks(self):
        for name, leaf in self.leaves.items():
            node = leaf.view_as(leaf).grad_fn.next_functions[0][0]
            node.register_prehook(lambda gradients, name=name: self.note("before", name, gradients[0]))
            node.register_hook(lambda unused, gradients, name=name: self.note("after", name, gradients[0]))
            self.kept.append(node)

    def one_hook(self):
        name = sorted(self.leaves)[len(self.leaves) // 2]
        self.leaves[name].register_hook(lambda gradient: self.note("hook", name, gradient))


KINDS = pytest.mark.parametrize("kind", ["tensor_hooks", "accumulated_hooks", "node_hooks", "one_hook"])


def mlp():
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3))
    return dict(net.named_parameters()), lambda x: net(x).exp().sum()


def checkpointed():
    first, last = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh()), nn.Linear(8, 3)
    leaves = dict(nn.ModuleList([first, last]).named_parameters())
    return leaves, lambda x: last(torch.utils.checkpoint.checkpoint(first, x, use_reentrant=False)).exp().sum()


def transformer_layer():
    layer = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True)
    return dict(layer.named_parameters()), lambda x: layer(x[None]).pow(2).sum()


def numbered(count):
    leaves = {f"leaf {i}": torch.randn(6, requires_grad=True) for i in range(count)}
    return leaves, list(leaves.values())


def used_twice():
    leaves, (a, b, c, d) = numbered(4)
    return leaves, lambda x: ((((x * a).sin() * b) + c).cos() * a * d + c.exp()).sum()


def tied():
    leaves = {name: nn.Parameter(torch.randn(6, 6)) for name in ("tied", "between", "last")}
    tied, between, last = leaves.values()
    return leaves, lambda x: (((x @ tied).tanh() @ between).sin() @ tied.t() * last[0]).sum()


def many_at_one_operation():
    leaves, (a, *others) = numbered(9)
    return leaves, lambda x: (torch.stack(others).exp() * x.sum() * a).sum()


def many_beside_others():
    leaves, (a, b, c, *others) = numbered(9)
    return leaves, lambda x: ((x * a).sin() * b + torch.stack(others).exp().sum(0) * (x * c).cos()).sum()


def branches():
    leaves, (a, b, c, d) = numbered(4)

    def forward(x):
        left, right = x * a, x * b
        left, right = left.sin() * c, right.cos() * d
        return (left * right).sum()

    return leaves, forward


def views_of_leaves():
    leaves, (a, b, c, d) = numbered(4)

    def forward(x):
        left, right = a.view(2, 3), b.view(2, 3)
        return ((left * right).sin().view(6) * c + x * d).sum()

    return leaves, forward


def results_within():
    leaves, (a, b, c, d) = numbered(4)

    def forward(x):
        inner = (x * a).sin() + b
        middle = (inner * c).cos()
        return (middle * d + inner * b).sum(), inner, middle

    return leaves, forward


def two_losses():
    leaves, (a, b, c, d, e) = numbered(5)

    def forward(x):
        trunk = (x * a).sin()
        left, right = trunk * b, trunk * c
        left, right = (left.exp() * d).sum(), (right.cos() * e).sum()
        return left, right

    return leaves, forward


def view_that_is_seen():
    leaves, (a, b, c, d) = numbered(4)

    def forward(x):
        first = x * c
        view = a.view(2, 3)
        return ((first * d).sin().view(-1, 2, 3) * view * b.view(2, 3)).sum(), view

    return leaves, forward


PROGRAMS = [mlp, checkpointed, transformer_layer, used_twice, tied, many_at_one_operation, many_beside_others, branches,
            views_of_leaves, results_within, two_losses, view_that_is_seen]  # fmt: skip
each_program = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)


def whole(result):
    """One number that rests on all results with a history of the call's own."""
    results = result if isinstance(result, tuple) else (result,)
    return sum(each.sum() for each in results if each.requires_grad)


def observe(program, backend, register, times=2, late=False):
    torch.manual_seed(5)
    leaves, forward = program()
    log = Log(leaves)
    called = framejit.to_static(forward, backend=backend) if backend else forward
    if not late:
        register(log)
    for _ in range(times):
        x = torch.randn(5, 6)
        for leaf in leaves.values():
            leaf.grad = None
        loss = whole(called(x))
        if late:
            register(log)
            late = False
        loss.backward()
        log.entries.append(("end", "", [], sum(leaf.grad.sum() for leaf in leaves.values() if leaf.grad is not None)))
    if backend:
        assert len(called.graphs) == 1
    return log.entries


def assert_alike(program, backend, *args, **options):
    expected, got = observe(program, None, *args, **options), observe(program, backend, *args, **options)
    assert [entry[:3] for entry in got] == [entry[:3] for entry in expected]
    if backend == "aten":
        assert_same(expected, got)
    torch.testing.assert_close([entry[3] for entry in got], [entry[3] for entry in expected])


@BACKENDS
@KINDS
@each_program
def test_order(program, kind, backend):
    assert_alike(program, backend, lambda log: getattr(log, kind)())


@BACKENDS
@each_program
def test_hooks_of_all_kinds(program, backend):
    def register(log):
        log.node_hooks()
        log.accumulated_hooks()
        log.tensor_hooks()

    assert_alike(program, backend, register)


@BACKENDS
@pytest.mark.parametrize("kind", ["tensor_hooks", "accumulated_hooks"])
@pytest.mark.parametrize("program", [mlp, transformer_layer, used_twice, tied, branches, many_at_one_operation],
                         ids=lambda program: program.__name__)  # fmt: skip
def test_hooks_that_come_after_the_forward(program, kind, backend):
    assert_alike(program, backend, lambda log: getattr(log, kind)(), late=True)


def train(backend, run, register, steps=3):
    """Parameters after some steps of a program that may have hooks, and what these have noted."""
    torch.manual_seed(6)
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 3))
    log = Log(dict(net.named_parameters()))
    register(log)
    loss = lambda x: net(x).exp().sum()  # noqa: E731
    called = framejit.to_static(loss, backend=backend) if backend else loss
    for _ in range(steps):
        run(called, torch.randn(5, 6), log)
    if backend:
        assert len(called.graphs) == 1
    return log, [parameter.detach().clone() for parameter in net.parameters()]


def assert_trains_alike(run, register, backend="aten"):
    (expected, theirs), (got, mine) = train(None, run, register), train(backend, run, register)
    assert [entry[:3] for entry in got.entries] == [entry[:3] for entry in expected.entries]
    if backend == "aten":
        assert_same([expected.entries, theirs], [got.entries, mine])
    torch.testing.assert_close(mine, theirs)


def backward(loss, x, log):
    loss(x).backward()


@BACKENDS
def test_optimizer_in_hooks(backend):
    def register(log):
        optimizers = {name: torch.optim.SGD([leaf], lr=0.1, momentum=0.9) for name, leaf in log.leaves.items()}

        def step(name, leaf):
            log.note("step", name, leaf.grad)
            optimizers[name].step()
            optimizers[name].zero_grad()

        for name, leaf in log.leaves.items():
            leaf.register_post_accumulate_grad_hook(lambda leaf, name=name: step(name, leaf))

    assert_trains_alike(backward, register, backend)


@BACKENDS
def test_gradients_that_hooks_replace(backend):
    def register(log):
        log.tensor_hooks()
        for leaf in log.leaves.values():
            leaf.register_hook(lambda gradient: gradient * len(log.entries))

    def run(loss, x, log):
        loss(x).backward()
        for name, leaf in log.leaves.items():
            log.note("after", name, leaf.grad)

    assert_trains_alike(run, register, backend)


def test_hook_that_raises():
    def register(log):
        log.tensor_hooks()

        def fail(gradient):
            raise ValueError("enough")

        log.leaves["2.weight"].register_hook(fail)

    def run(loss, x, log):
        with pytest.raises(ValueError, match="enough"):
            loss(x).backward()
        log.note("end", "", None)

    assert_trains_alike(run, register)


@pytest.mark.parametrize("kind", ["tensor_hooks", "accumulated_hooks", "node_hooks"])
def test_two_calls_that_share_leaves(kind):
    def run(loss, x, log):
        (loss(x) + loss(x.sin()).exp()).backward()

    assert_trains_alike(run, lambda log: getattr(log, kind)())


def test_calls_in_a_loop_with_operations_between():
    def run(loss, x, log):
        total = torch.zeros(())
        for _ in range(3):
            total = total * log.leaves["0.bias"].sum() + loss(x) * log.leaves["4.bias"].sum()
        total.sin().backward()

    assert_trains_alike(run, Log.tensor_hooks)


def test_history_that_is_kept():
    def run(loss, x, log):
        result = loss(x)
        result.backward(retain_graph=True)
        result.backward()

    assert_trains_alike(run, Log.accumulated_hooks)


def test_named_gradients():
    def run(loss, x, log):
        some = [log.leaves[name] for name in ("0.bias", "4.weight", "2.weight")]
        result = loss(x)
        for gradient in torch.autograd.grad(result, some, retain_graph=True):
            log.note("captured", "", gradient)
        result.backward(inputs=some)
        with pytest.raises(RuntimeError, match="second time"):
            result.backward()

    assert_trains_alike(run, Log.tensor_hooks)


def test_all_gradients_as_results():
    def run(loss, x, log):
        for gradient in torch.autograd.grad(loss(x), list(log.leaves.values())):
            log.note("captured", "", gradient)

    assert_trains_alike(run, Log.tensor_hooks)


def test_gradients_of_gradients():
    def run(loss, x, log):
        leaves = list(log.leaves.values())
        gradients = torch.autograd.grad(loss(x), leaves, create_graph=True)
        sum(gradient.pow(2).sum() for gradient in gradients).backward()
        for name, leaf in log.leaves.items():
            log.note("second", name, leaf.grad)

    torch.manual_seed(6)
    (expected, _), (got, _) = train(None, run, Log.one_hook), train("aten", run, Log.one_hook)
    for theirs, mine in zip(expected.entries, got.entries):
        assert theirs[:3] == mine[:3]
        torch.testing.assert_close(mine[3], theirs[3])


def test_anomaly_mode():
    def run(loss, x, log):
        with torch.autograd.detect_anomaly(check_nan=True):
            loss(x).backward()

    with pytest.warns(UserWarning, match="Anomaly"):
        assert_trains_alike(run, Log.tensor_hooks)


def test_what_a_history_shows():
    """A leaf with hooks is behind a node with the name of eager's last operation before it."""
    leaf, other = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    leaf.register_hook(lambda gradient: None)
    compiled = framejit.to_static(lambda x: ((x + leaf) * other).sum())
    nodes = [edge[0] for edge in compiled(torch.ones(3)).grad_fn.next_functions]
    assert sorted(node.name() for node in nodes) == ["AddBackward0", "MulBackward0"]
    assert {node.next_functions[0][0].variable for node in nodes} == {leaf, other}
    assert len(compiled.graphs) == 1


@BACKENDS
@pytest.mark.parametrize("kind", ["tensor_hooks", "accumulated_hooks", "node_hooks"])
def test_backward_inside(kind, backend):
    """The graph ends before the backward: hooks look at gradients."""

    def observe(backend):
        torch.manual_seed(6)
        leaves, forward = mlp()
        log = Log(leaves)
        getattr(log, kind)()

        def step(x):
            for leaf in leaves.values():
                leaf.grad = None
            forward(x).backward()

        called = framejit.to_static(step, backend=backend) if backend else step
        for _ in range(3):
            called(torch.randn(5, 6))
        if backend:
            (graph,) = (graph for graph in called.graphs if graph.location.endswith(" in step"))
            assert graph.reason == "GradientInside"
        return log.entries

    expected, got = observe(None), observe(backend)
    assert [entry[:3] for entry in got] == [entry[:3] for entry in expected]
    torch.testing.assert_close([entry[3] for entry in got], [entry[3] for entry in expected])

"""What a backward in a captured function leaves: histories of results, errors, hooks, leaves that may become one."""

import copy
import subprocess
import sys

import pytest
import torch

import framejit
from support import counts
from support.gradients import Net, assert_error, assert_same, facts, inputs, loss_of


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


def penalised_outside(net, x):
    (gradient,) = torch.autograd.grad(loss_of(net, x), net.layers[0].weight, create_graph=True)
    return (gradient * gradient).sum()


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


@pytest.mark.parametrize(
    "step",
    [lambda net, x: net(x).backward(), lambda net, x: net(x).detach().sum().backward()],
    ids=["no scalar", "no history"],
)
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
            results.append(
                (run(*(tensors[name] for name in names), torch.arange(3.0)), [facts(leaf.grad) for leaf in leaves])
            )
        assert_same(*results)


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


FIRST_BACKWARD = """
import torch, framejit
w = torch.ones(3, requires_grad=True)
compiled = framejit.to_static(lambda x: (w * x).sum().backward())
compiled(torch.arange(3.0))
assert torch.equal(w.grad, torch.arange(3.0)), w.grad
stats = framejit.stats()
assert (stats["graphs"], stats["breaks"], stats["captures"]) == (1, 0, 1), stats
"""


def test_the_first_backward_of_a_process():
    """torch imports modules of its own in it."""
    subprocess.run([sys.executable, "-c", FIRST_BACKWARD], check=True, timeout=120)

"""Results of one graph whose gradients have nothing in common are differentiated one by one, as eager's are."""

import gc
import weakref

import pytest
import torch
from torch import nn

import framejit
from support.gradients import assert_same, facts

BACKENDS = pytest.mark.parametrize("backend", ["aten", "native"])


def weights():
    torch.manual_seed(2)
    return [torch.randn(3, requires_grad=True) for _ in range(3)]


def two_losses(x, a, b, c):
    return (x * a).sin().sum(), (x * b).exp().sum() + (b * c).sum()


def over_detached(x, a, b, c):
    made = (x * a).tanh()
    judged = (made.detach() * b).exp()
    return (judged * made.detach()).sum(), ((made * c) * judged.detach()).sum()


def with_what_lies_between(x, a, b, c):
    hidden = (x * a).exp()
    return hidden.sin().sum(), (x * b).cos().sum(), hidden


def run(function, order, backend, **how):
    """Gradients, and which backwards were refused, after differentiating the results in this order."""
    leaves = weights()
    compiled = framejit.to_static(function, backend=backend) if backend else function
    seen = []
    for _ in range(2):
        results = compiled(torch.arange(3.0), *leaves)
        for i in order:
            try:
                results[i].sum().backward(**how)
            except RuntimeError as error:
                seen.append(str(error)[:40])
        seen.append([facts(leaf.grad) for leaf in leaves])
    assert not backend or len(compiled.graphs) == 1
    return seen


def assert_as_eager(function, order, backend, **how):
    expected, got = run(function, order, None, **how), run(function, order, backend, **how)
    if backend == "aten":
        return assert_same(expected, got)
    for a, b in zip(expected, got):
        assert isinstance(a, str) == isinstance(b, str)
        for left, right in zip(a, b) if not isinstance(a, str) else ():
            assert (left is None) == (right is None)
            if left is not None:
                torch.testing.assert_close(left[0], right[0])


@BACKENDS
@pytest.mark.parametrize("order", [(0, 1), (1, 0), (0,), (1,), (0, 1, 0), (0, 0)], ids=str)
@pytest.mark.parametrize("function", [two_losses, over_detached])
def test_one_after_the_other(function, order, backend):
    assert_as_eager(function, order, backend)


@BACKENDS
@pytest.mark.parametrize("order", [(0, 1), (1, 0, 2), (2, 1), (0, 1, 2)], ids=str)
def test_what_lies_between_goes_with_its_result(order, backend):
    assert_as_eager(with_what_lies_between, order, backend)


@BACKENDS
def test_kept_history(backend):
    assert_as_eager(two_losses, (0, 1, 0, 1), backend, retain_graph=True)


@BACKENDS
def test_together(backend):
    def run_both(compiled):
        leaves = weights()
        first, second = compiled(torch.arange(3.0), *leaves)
        return torch.autograd.grad(first * second, leaves)

    expected = run_both(two_losses)
    for left, right in zip(expected, run_both(framejit.to_static(two_losses, backend=backend))):
        torch.testing.assert_close(left, right)


def test_gradients_of_gradients():
    def second_derivative(compiled):
        a, b, c = weights()
        first, second = compiled(torch.arange(3.0), a, b, c)
        (grad,) = torch.autograd.grad(second, [b], create_graph=True)
        first.backward()
        return [a.grad, *torch.autograd.grad(grad.sum(), [b])]

    assert_same(second_derivative(two_losses), second_derivative(framejit.to_static(two_losses)))


def test_a_leaf_that_has_no_part_is_not_heard_of():
    """Not even that there is no gradient: hooks would be called with None."""
    heard = []
    compiled = framejit.to_static(two_losses)
    a, b, c = weights()
    a.register_hook(lambda grad: heard.append(grad.clone()))
    first, second = compiled(torch.arange(3.0), a, b, c)
    second.backward()
    assert not heard and a.grad is None
    first.backward()
    assert len(heard) == 1


def test_history_before_the_call_stays_whole():
    def losses(x, hidden, b):
        return (hidden * x).sum(), (x * b).exp().sum()

    def all_gradients(compiled):
        a, b, _ = weights()
        hidden = a.exp()
        hidden.sum().backward()  # what made it is gone
        first, second = compiled(torch.arange(3.0), hidden, b)
        second.backward()
        with pytest.raises(RuntimeError, match="second time"):
            first.backward()
        return a.grad, b.grad

    assert_same(all_gradients(losses), all_gradients(framejit.to_static(losses)))


def assert_equal(function, gradients, graphs=1):
    """What `gradients` gives of the function and of its graphs."""
    compiled = framejit.to_static(function)
    assert_same(gradients(function), gradients(compiled))
    assert len(compiled.graphs) == graphs


def after_what_is_gone(losses):
    """The second loss's gradient, where the first would go over history that is freed."""

    def gradients(compiled):
        a, b, _ = weights()
        hidden = a.exp()
        hidden.sum().backward()
        _, second = compiled(torch.arange(3.0), hidden, b)
        second.backward()
        return b.grad

    assert_equal(losses, gradients)


def test_history_before_the_call_stays_whole_beside_a_shared_leaf():
    after_what_is_gone(lambda x, hidden, b: ((hidden * b).sum(), (x * b).exp().sum()))


def test_history_before_the_call_stays_whole_beside_a_leaf_used_often():
    after_what_is_gone(lambda x, hidden, b: ((hidden * b + b.sin()).sum(), (x * b).exp().sum()))


def inner_and_outer(x, a, b):
    inner = (x * a).sin()
    return inner, (inner * inner.cos() + inner * b).exp().sum()


def test_a_leaf_of_the_outer_result_alone_is_not_heard_of():
    def heard(compiled):
        heard = []
        a, b, _ = weights()
        b.register_hook(lambda grad: heard.append(grad))
        compiled(torch.arange(3.0), a, b)[0].sum().backward()
        return [grad for grad in heard if grad is None]

    assert heard(framejit.to_static(inner_and_outer)) == heard(inner_and_outer) == []


def test_gradients_that_a_backward_gives_before_it_raises():
    def gradients(compiled):
        a, b, _ = weights()
        inner, outer = compiled(torch.arange(3.0), a, b)
        outer.backward()
        _, outer = compiled(inner, a, b)
        with pytest.raises(RuntimeError, match="second time"):
            outer.backward()
        return b.grad

    assert_equal(inner_and_outer, gradients, graphs=2)


@BACKENDS
@pytest.mark.parametrize("order", [(0, 1), (1, 0), (0,), (1,)], ids=str)
def test_a_leaf_in_common(order, backend):
    assert_as_eager(lambda x, a, b, c: ((x * a).exp() + b.sin(), (x * c).exp() + b.cos()), order, backend)


def test_sums_over_results_in_eagers_order():
    """Bit-equal: a leaf that gets gradients from each of two results, and one that gets several."""

    def results(x, a, b, c):
        return (x * a).sin() * b, (x * b).exp(), ((x + 1) * c).tanh() * b.cos() * c

    def gradients(compiled, chosen):
        leaves = weights()
        found = compiled(torch.arange(3.0), *leaves)
        sum(found[i].sum() for i in chosen).backward()
        return [leaf.grad for leaf in leaves]

    compiled = framejit.to_static(results)
    for chosen in (0, 1), (1, 2), (0, 2), (2, 1, 0):
        assert_same(gradients(results, chosen), gradients(compiled, chosen))
    assert len(compiled.graphs) == 1


@pytest.mark.parametrize("turned", [False, True])
def test_layout_of_a_sum_over_results(turned):
    """That of the gradient which comes first: of the operation that ran last, in whatever order results are given."""

    def results(x, w):
        early, late = (w.t() * x).sum(), (w * x).sum()
        return (late, early) if turned else (early, late)

    def gradients(compiled):
        w = torch.ones(3, 3, requires_grad=True)
        (grad,) = torch.autograd.grad(sum(compiled(torch.arange(9.0).reshape(3, 3), w)), w)
        return facts(grad)

    assert_equal(results, gradients)


def test_a_history_that_a_later_backward_needs():
    """The loss and what is returned beside it have nothing in common but the engine's walk."""

    def step(x, hidden, b):
        return hidden * x, (x * b).exp().sum()

    def gradients(compiled):
        a, b, _ = weights()
        kept, loss = compiled(torch.arange(3.0), a.exp(), b)
        loss.backward()
        kept.sum().backward()
        return a.grad, b.grad

    assert_equal(step, gradients)


@BACKENDS
def test_a_result_read_by_another_without_its_history(backend):
    """It is saved by both, and one may go first."""

    def step(x, a, b):
        made = (x * a).exp()
        return made, (made.detach() * b).sum()

    for order in (0, 1), (1, 0):

        def gradients(compiled):
            a, b, _ = weights()
            results = compiled(torch.arange(3.0), a, b)
            for i in order:
                results[i].sum().backward()
            return a.grad, b.grad

        compiled = framejit.to_static(step, backend=backend)
        for left, right in zip(gradients(step), gradients(compiled)):
            torch.testing.assert_close(left, right)
        assert len(compiled.graphs) == 1


def test_a_changed_result_is_noticed_by_the_other_too():
    def step(x, a, b):
        made = (x * a).exp()
        return made, (made.detach() * b).sum()

    def outcome(compiled):
        a, b, _ = weights()
        made, loss = compiled(torch.arange(3.0), a, b)
        with torch.no_grad():
            made.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
        return b.grad

    assert_equal(step, outcome)


def test_second_derivatives_begin_with_what_their_result_needs():
    """Inputs of the other result may be gone by then."""

    def step(x, y, a, b):
        return (x * a).exp().sum(), (y * b).exp().sum()

    def second_derivative(compiled):
        a, b, _ = weights()
        x = torch.arange(3.0)
        _, second = compiled(x, torch.arange(3.0) + 1, a, b)
        del x, a, _
        gc.collect()
        (grad,) = torch.autograd.grad(second, [b], create_graph=True)
        return torch.autograd.grad(grad.sum(), [b])

    assert_equal(step, second_derivative)


def test_many_results_apart():
    def squares(weights):
        return [weight * weight for weight in weights]

    def gradients(compiled):
        torch.manual_seed(3)
        leaves = [torch.randn(2, requires_grad=True) for _ in range(40)]
        results = compiled(leaves)
        results[7].sum().backward()
        sum(result.sum() for result in results[:7] + results[8:]).backward()
        return [leaf.grad for leaf in leaves]

    assert_equal(squares, gradients)


@pytest.mark.parametrize("which", [0, 1])
def test_only_what_reads_a_changed_tensor_refuses(which):
    def losses(x, a, b, kept):
        return (kept[0] * a).sum(), (kept[1] * b).sum()

    def outcomes(compiled):
        a, b, _ = weights()
        kept = [torch.ones(3), torch.ones(3)]
        results = compiled(torch.arange(3.0), a, b, kept)
        kept[which].add_(1)
        seen = []
        for result in results:
            try:
                result.backward()
                seen.append("done")
            except RuntimeError as error:
                seen.append(str(error)[:60])
        return seen

    assert outcomes(losses) == outcomes(framejit.to_static(losses))


def test_nothing_holds_what_ended():
    compiled = framejit.to_static(over_detached)
    for _ in range(2):
        x = torch.arange(3.0)
        alive = weakref.ref(x)
        results = compiled(x, *weights())
        results[0].backward()  # the other's history keeps what it has saved
        del results, x
        gc.collect()
        assert alive() is None


def test_a_step_of_two_networks():
    """What trains a generator and its judge."""

    def train(compile_it):
        torch.manual_seed(5)
        maker, judge = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))

        def losses(noise, real):
            made = maker(noise)
            return (judge(made.detach()) - judge(real)).mean(), -judge(made).mean()

        step = framejit.to_static(losses) if compile_it else losses
        for _ in range(3):
            for of_judge in (True, False):
                torch.manual_seed(7)
                mine, other = step(torch.randn(6, 4), torch.randn(6, 4))
                (mine if of_judge else other).backward()
            with torch.no_grad():
                for parameter in [*maker.parameters(), *judge.parameters()]:
                    parameter -= 0.1 * parameter.grad
                    parameter.grad = None
        return [parameter.detach() for parameter in [*maker.parameters(), *judge.parameters()]]

    assert_same(train(False), train(True))

"""Random programs with several results, views among them, and what a program may do with their gradients: as eager, to the
bit where no result is a view and nothing is differentiated twice.

FRAMEJIT_RANDOM_HISTORIES is how many programs run, 60 if it is not set.
"""

import re

import torch
from hypothesis import given
from hypothesis import strategies as st

import framejit
from support.examples import random_examples

LEAVES = 3
UNARY = [torch.sin, torch.cos, torch.tanh, torch.exp, lambda x: x * 0.5, lambda x: x + 1, lambda x: x.sum(0, keepdim=True)]
BINARY = [torch.add, torch.sub, torch.mul, lambda x, y: x * y.detach(), lambda x, y: x + x * y]
VIEWS = [lambda x: x.view(x.shape), lambda x: x.t(), lambda x: x[:1], lambda x: x.unbind(0)[0], lambda x: x.expand(3, 3)]
TABLES = {"unary": UNARY, "binary": BINARY, "views": VIEWS}

numbers = st.integers(0, 99)
steps = st.lists(
    st.tuples(st.sampled_from(["unary", "unary", "binary", "binary", "binary", "views"]), numbers, numbers, numbers),
    min_size=2,
    max_size=12,
)
actions = st.lists(
    st.tuples(
        st.sampled_from(
            ["backward", "backward", "keep", "named", "grad", "second", "double hook", "retain", "again", "write"]
        ),
        st.lists(numbers, min_size=1, max_size=3),
        st.lists(numbers, min_size=1, max_size=2),
    ),
    min_size=1,
    max_size=6,
)


def made_program(steps, results):
    def program(x, *leaves):
        values = [x, *leaves]
        for kind, function, first, second in steps:
            table = TABLES[kind]
            operands = [values[first % len(values)], values[second % len(values)]][: 2 if kind == "binary" else 1]
            value = table[function % len(table)](*operands)
            values.append(value if value.dim() == 2 else value.reshape(1, -1))
        return [values[4 + i] for i in results]

    return program


def copy(value):
    return value.detach().clone().requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value


def assert_alike(expected, got, exact):
    if isinstance(expected, (list, tuple)):
        assert len(expected) == len(got)
        for a, b in zip(expected, got):
            assert_alike(a, b, exact)
    elif isinstance(expected, torch.Tensor) and isinstance(got, torch.Tensor):
        assert expected.requires_grad == got.requires_grad
        assert not exact or expected.stride() == got.stride()
        torch.testing.assert_close(got, expected, **({"rtol": 0, "atol": 0} if exact else {}), equal_nan=True)
    else:
        assert expected == got


class Watcher:
    """Does what a list of actions says with the results of a program, and writes down what it sees."""

    def __init__(self, program):
        torch.manual_seed(5)
        self.program = program
        self.seen, self.heard = [], []
        self.leaves = [torch.randn(3, 3, requires_grad=True) for _ in range(LEAVES)]
        for i, leaf in enumerate(self.leaves):
            leaf.register_hook(self.hook(f"leaf {i}"))
        self.start = torch.linspace(-1, 1, 9).reshape(3, 3)
        self.call(self.start)

    def hook(self, name):
        return lambda grad: self.heard.append((name, copy(grad)))

    def call(self, x):
        self.results = list(self.program(x, self.leaves[0] * 1, *self.leaves[1:]))

    def picked(self, which):
        with_history = [result for result in self.results if result.requires_grad]
        return [with_history[i % len(with_history)] for i in dict.fromkeys(which)] if with_history else []

    def do(self, action, which, others):
        picked = self.picked(which)
        if not picked:
            return None
        loss = sum((result * 2).sum() for result in picked)
        if action in ("backward", "keep"):
            return loss.backward(retain_graph=action == "keep")
        if action == "named":
            return loss.backward(inputs=[self.leaves[i % LEAVES] for i in dict.fromkeys(others)], retain_graph=True)
        if action == "grad":
            wanted = [*self.picked(others), self.leaves[others[0] % LEAVES]]
            return torch.autograd.grad(loss, wanted, allow_unused=True, retain_graph=True)
        if action == "second":
            return self.second_derivatives(loss, [*self.picked(others), self.leaves[others[0] % LEAVES]])
        if action == "double hook":
            return picked[0].register_hook(lambda grad: grad * 2) and None
        if action == "retain":
            return picked[0].retain_grad()
        if action == "write":
            return picked[0].mul_(3) and None
        return self.call(picked[0].sum() * self.start)

    def second_derivatives(self, loss, wanted):
        first = torch.autograd.grad(loss, wanted, allow_unused=True, create_graph=True)
        pairs = [(grad, tensor) for grad, tensor in zip(first, wanted) if grad is not None]
        penalty = loss + sum((grad * grad * tensor).sum() for grad, tensor in pairs)
        return [*first, *torch.autograd.grad(penalty, [*wanted, *self.leaves], allow_unused=True, retain_graph=True)]

    def run(self, actions):
        for action, which, others in actions:
            try:
                result = self.do(action, which, others)
                self.seen.append([copy(part) for part in result] if isinstance(result, (tuple, list)) else result)
            except RuntimeError as error:  # blocks of a graph run as wholes: others may have given gradients by now
                said = re.sub(r"(Output \d+ of) \w+", r"\1 a node", str(error))
                return [*self.seen, said.split("[")[0].split(":")[0]]
            self.seen.append(sorted(self.heard, key=lambda heard: heard[0]))  # and their order is another
            self.heard.clear()
            self.seen.append([copy(leaf.grad) for leaf in self.leaves])
            self.seen.append([copy(r.grad) for r in self.results if r.requires_grad and r.retains_grad])
        return self.seen


@random_examples("FRAMEJIT_RANDOM_HISTORIES", 60)
@given(steps, st.sets(st.integers(0, 11), min_size=1, max_size=5), actions)
def test_random_histories(steps, results, actions):
    results = sorted(i % len(steps) for i in results)
    program = made_program(steps, results)
    # Views are made behind a graph, where gradients may be added up in another order.
    exact = all(steps[i][0] != "views" for i in results) and all(action != "second" for action, *_ in actions)
    expected = Watcher(program).run(actions)
    framejit.reset()
    compiled = framejit.to_static(program)
    for _ in range(2):
        assert_alike(expected, Watcher(compiled).run(actions), exact)
    assert compiled.graphs

"""Numbers that are another in each call: after some captures what looks at them is left to the interpreter, and the
rest is served from graphs, where a guard on each value would have captured until the function ran eagerly for good."""

import pytest
import torch

import framejit
from framejit import _C
from support import counts

CALLS = 60
ENOUGH = 52  # calls after which nothing is captured any more: 16 for each place where a number is looked at
SOON = 4  # captures of what an instruction made of a number that changes


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


class Counted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.calls, self.rate, self.table, self.items = 0, 1.0, {"n": 0}, [0]

    def forward(self, x):
        raise NotImplementedError


class Counter(Counted):
    def forward(self, x):
        self.calls += 1
        return self.linear(x).relu()


class CounterInBetween(Counted):
    def forward(self, x):
        y = self.linear(x).relu()
        self.calls += 1
        return self.linear(y)


class CounterThatIsRead(Counted):
    def forward(self, x):
        y = self.linear(x)
        self.calls += 1
        y = y * self.calls
        return y.tanh() + self.linear(x)


class CounterInABranch(Counted):
    def forward(self, x):
        self.calls += 1
        y = self.linear(x)
        if self.calls % 4 == 0:
            y = y.tanh()
        return y + 1


class Rate(Counted):
    def forward(self, x):
        self.rate *= 0.9
        return self.linear(x) * self.rate


class CounterInADict(Counted):
    def forward(self, x):
        self.table["n"] += 1
        return self.linear(x).relu()


class CounterInAList(Counted):
    def forward(self, x):
        self.items[0] += 1
        return self.linear(x).relu()


class CounterOfACallee(Counted):
    def forward(self, x):
        return self.step(self.linear(x)) * 2

    def step(self, y):
        self.calls += 1
        return y.relu()


class LoopOverBreaks(Counted):
    def forward(self, x):
        for n in range(12):
            framejit.graph_break()
            x = self.linear(x) + n
        return x


def counter_of_its_class():
    class Counts(Counted):
        total = 0

        def forward(self, x):
            y = self.linear(x)
            type(self).total += 1
            return y.relu()

        def state(self):
            return self.total

    return Counts()


def number_of_the_class_that_is_read():
    class Counts(Counted):
        total = 0

        def forward(self, x):
            return self.linear(x) + self.total

        def state(self):
            type(self).total += 1

    return Counts()


def number_of_a_base_that_super_reads():
    class Base(Counted):
        total = 0

    class Counts(Base):
        def forward(self, x):
            return self.linear(x) + super().total

        def state(self):
            Base.total += 1

    return Counts()


def rate_of_a_class():
    class Settings:
        rate = 1.0

    class Scales(Counted):
        def forward(self, x):
            return self.linear(x) * Settings.rate

        def state(self):
            Settings.rate *= 0.9
            return Settings.rate

    return Scales()


MODELS = [
    counter_of_its_class,
    number_of_the_class_that_is_read,
    number_of_a_base_that_super_reads,
    rate_of_a_class,
    Counter,
    CounterInBetween,
    CounterThatIsRead,
    CounterInABranch,
    Rate,
    CounterInADict,
    CounterInAList,
    CounterOfACallee,
    LoopOverBreaks,
]


def state(model):
    if hasattr(model, "state"):
        return model.state()
    return model.calls, model.rate, model.table, model.items


@pytest.mark.runs_once("a shadowed call is made twice, and counts how often what it holds is captured")
@pytest.mark.parametrize("kind", MODELS)
def test_model_that_counts_is_served_from_graphs(kind):
    torch.manual_seed(0)
    eager, compiled = kind(), kind()
    compiled.load_state_dict(eager.state_dict())
    framejit.to_static(compiled)
    for call in range(CALLS):
        with counts.counting() as counted:
            got = compiled(x3())
        assert torch.equal(got, eager(x3())), call
        assert state(compiled) == state(eager), call
        assert not counted.fallbacks, call
        if call >= ENOUGH:
            assert not counted.captures and counted.hits, (call, counted.as_dict())


@pytest.mark.runs_once("a shadowed call is made twice, and counts how often what it holds is captured")
@pytest.mark.parametrize("number", [lambda call: call, lambda call: call * 0.5, lambda call: float("nan") if call % 2 else call])
def test_argument_that_is_another_number_in_each_call(number):
    def program(x, n):
        return torch.sin(x) * n + 1

    compiled = framejit.to_static(program)
    for call in range(CALLS):
        with counts.counting() as counted:
            got = compiled(x3(), number(call))
        assert torch.equal(got.nan_to_num(7), program(x3(), number(call)).nan_to_num(7)), call
        assert not counted.fallbacks
    assert not counted.captures and counted.hits


def captures_until_served(program, numbers):
    """How many captures calls with these numbers make; the last call makes none."""
    compiled, captures = framejit.to_static(program), 0
    for n in numbers:
        with counts.counting() as counted:
            assert torch.equal(compiled(x3(), n), program(x3(), n)), n
        captures += counted.captures
        assert not counted.fallbacks
    assert not counted.captures and counted.hits
    return captures


@pytest.mark.runs_once("a shadowed call is made twice, and counts how often what it holds is captured")
def test_what_is_made_of_a_number_that_changes_is_known_to_change_soon():
    # Each operator of the expression runs in the interpreter, and the next one looks at what it made.
    def program(x, n):
        y = x.tanh()
        return y * (((n + 1) * 3 - 2) * 5 + 4) + y

    captures = captures_until_served(program, range(CALLS))
    # The whole function and a segment behind each of the six operators, once more for what was learnt of it.
    assert captures <= 16 + 6 * (SOON + 1) + 1


@pytest.mark.runs_once("a shadowed call is made twice, and counts how often what it holds is captured")
def test_number_out_of_a_tensor_is_known_to_change_soon():
    def program(x, n):
        y = x.tanh()
        return y * ((n.tolist() * 3 - 2) * 5 + 4) + y

    captures = captures_until_served(program, map(torch.tensor, range(CALLS)))
    # One up to the number, and a segment behind it and behind each of the five operators.
    assert captures <= 1 + 6 * (SOON + 1)


@pytest.mark.runs_once("a shadowed call is made twice, and counts how often what it holds is captured")
def test_what_a_callee_makes_of_a_number_that_changes_is_known_to_change_soon():
    def scaled(y, n):
        return y * ((n + 1) * 3 - 2) + y

    def program(x, n):
        return scaled(x.tanh(), n).sin()

    captures = captures_until_served(program, range(CALLS))
    # The whole function, a segment behind each of the callee's four operators, once more for what was learnt of it.
    assert captures <= 16 + 4 * (SOON + 1) + 1


@pytest.mark.runs_once("a shadowed call is made twice, and counts how often what it holds is captured")
def test_graphs_from_before_it_is_known_to_change_are_kept():
    def program(x, n, kind):
        number = n.tolist()
        y = x.tanh() + len(kind)
        return y * (number * 3 - 2)

    # The last kind is the one for which the number is known to change.
    compiled = framejit.to_static(program)
    for _ in range(2):
        with counts.counting() as counted:
            for n in range(SOON + 2):
                arguments = torch.tensor(n), "k" * (n // 2)
                assert torch.equal(compiled(x3(), *arguments), program(x3(), *arguments)), n
    assert not counted.captures and counted.hits


def test_few_values_that_are_made_of_a_number_that_changes_have_a_graph_each():
    compiled = framejit.to_static(lambda x, n: x * (n % 3))
    for n in range(CALLS):
        with counts.counting() as counted:
            assert torch.equal(compiled(x3(), n), x3() * (n % 3)), n
    assert not counted.captures and counted.hits
    assert sum("mul" in str(graph) for graph in compiled.graphs) >= 3


def test_sixteen_values_have_a_graph_each():
    compiled = framejit.to_static(lambda x, n: x * n)
    for _ in range(2):
        with counts.counting() as counted:
            for n in range(16):
                assert torch.equal(compiled(x3(), n), x3() * n)
    assert counted.hits == 16 and not counted.captures and not counted.breaks


def test_other_shapes_are_captured_beside_a_number_that_changes():
    model = Counter()
    eager = Counter()
    model.load_state_dict(eager.state_dict())
    framejit.to_static(model)
    for call in range(CALLS):
        x = torch.ones(1 + call % 5, 3)
        with counts.counting() as counted:
            assert torch.equal(model(x), eager(x)), call
        assert not counted.fallbacks, call
    assert not counted.captures and counted.hits


def test_a_whole_graph_is_captured_for_each_value_until_there_are_too_many():
    compiled = framejit.to_static(lambda x, n: x * n, full_graph=True)
    for n in range(16):
        assert torch.equal(compiled(x3(), n), x3() * n)
    with pytest.raises(framejit.GraphBreakError) as caught:
        compiled(x3(), 16)
    for part in _C.stop_reasons()["ChangingNumber"]:
        assert part in str(caught.value)


@pytest.mark.runs_once("a shadowed call is made twice, and counts how often what it holds is captured")
def test_what_served_a_number_before_others_came_goes_on_serving_it():
    def f(x):
        k = int(x.sum())
        y = x * k
        return y.tanh() + k

    compiled = framejit.to_static(f)
    alone = torch.tensor([1.0, 0.0])
    for _ in range(2):
        with counts.counting() as before:
            compiled(alone)
    for k in range(2, 12):
        x = torch.tensor([k, 0.0])
        assert torch.equal(compiled(x), f(x))
    with counts.counting() as among_others:
        compiled(x)
    with counts.counting() as after:
        assert torch.equal(compiled(alone), f(alone))
    assert not after.captures and after.hits == before.hits < among_others.hits


@pytest.mark.runs_once("a shadowed call is made twice, and counts how often what it holds is captured")
def test_what_served_no_number_goes_after_many_calls():
    def f(x):
        k = int(x.sum())
        y = x * k
        return y.tanh() + k

    compiled = framejit.to_static(f)
    for k in range(10):
        compiled(torch.tensor([k, 0.0]))
    many = len(framejit._inspect.captures(compiled))
    for k in range(10, 100):
        x = torch.tensor([k, 0.0])
        assert torch.equal(compiled(x), f(x))
    with counts.counting() as counted:
        compiled(x)
    assert not counted.captures and not counted.fallbacks
    assert len(framejit._inspect.captures(compiled)) < many


class Five(int):
    pass


BECOMES = [6, True, 5.0, -0.0, 0.0, float("nan"), 10**30, Five(5), property(lambda self: 7), torch.tensor(2.0), None, 5]


@pytest.mark.parametrize("value", BECOMES, ids=lambda value: type(value).__name__ + str(value)[:4])
@pytest.mark.parametrize("looks", [True, False])
def test_number_of_a_class_may_become_anything(value, looks):
    class Has:
        number = 5

    has = Has()

    def function(x):
        return (x + 1, x * has.number if looks else has.number)

    def result(run):
        try:
            return repr([(type(item), item) for item in run(x3())])
        except (TypeError, OverflowError) as error:
            return repr(error)

    compiled = framejit.to_static(function)
    for number in (5, value, 5, value):
        Has.number = number
        for _ in range(2):
            assert result(compiled) == result(function)
    vars(has)["number"] = 8  # hidden where the class has a property
    assert result(compiled) == result(function)
    vars(has).clear()
    del Has.number
    with pytest.raises(AttributeError, match="number"):
        compiled(x3())


def test_number_of_a_class_is_the_object_that_is_there():
    class Has:
        number = 1000.5

    compiled = framejit.to_static(lambda x: (x + 1, Has.number))
    for number in (Has.number, float("1000.5"), float("1000.5")):
        Has.number = number
        assert compiled(x3())[1] is number
    assert framejit.stats()["captures"] == 1

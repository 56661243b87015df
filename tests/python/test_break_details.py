"""Breaks in harder positions: what is on the stack, in cells, in iterators and in handlers survives them."""

import sys

import pytest
import torch

import framejit
from support.counts import at_least, check_captured, check_equal
from support.same_as_eager import assert_same_as_eager
from support.source import define_function

LOG = []


def x4():
    return torch.tensor([0.3, -1.2, 2.5, 0.7])


def check(fn, *args, graphs=at_least(2), breaks=at_least(1), **options):
    return assert_same_as_eager(fn, *args, graphs=graphs, breaks=breaks, **options)


def item_of(y):
    return y.sum().tolist()


def test_two_breaks_in_one_expression():
    check(lambda x: x.sin() * x.sum().tolist() + x.cos() * x.max().tolist(), x4(), graphs=3, breaks=2)


def test_operands_below_a_break_stay_on_the_stack():
    check(lambda x: [x.sin(), (x.cos(), x.sum().tolist()), x.exp()], x4(), graphs=2, breaks=1)


def test_callee_and_null_slots_below_a_break_stay_on_the_stack():
    check(lambda x: torch.add(x.sin(), torch.mul(x.cos(), x.sum().tolist())), x4(), graphs=2, breaks=1)


def test_break_between_keyword_arguments():
    def f(x):
        def callee(a, *, b, c=3):
            return a * b + c

        return callee(x.sin(), c=x.cos(), b=x.sum().tolist())

    check(f, x4())


def test_break_in_a_star_argument():
    check(lambda x: torch.stack([*x.sin().unbind(), *[x.sum() + x.max().tolist()]]), x4())


def test_break_in_an_f_string():
    check(lambda x: (x.sin(), f"sum {x.sum().tolist():.3f} of {len(x)} in {x.dtype}", x.cos()), x4())


def test_break_in_a_subscript_store():
    def f(x):
        values = {"n": 1, "y": x.sin()}
        values["y"] *= x.sum().tolist()
        values[str(values["n"])] = x.cos()
        return values

    check(f, x4())


def test_break_in_an_attribute_update():
    class Holder:
        pass

    def f(x):
        holder = Holder()
        holder.y = x.sin()
        holder.y += x.sum().tolist()
        return holder.y.cos(), holder

    check(f, x4())


def test_break_in_a_conditional_expression():
    check(lambda x: (x.sin() if x.sum() > 0 else x.cos()) + 1, x4(), graphs=2, breaks=1)


@pytest.mark.parametrize("scale", [1.0, -1.0, 100.0])
def test_chained_comparison_of_tensors(scale):
    check(lambda x: x.sin() if -3 < x.sum() < 10 else x.cos(), x4() * scale)


@pytest.mark.parametrize("first", [1.0, -1.0])
@pytest.mark.parametrize("second", [1.0, -1.0])
def test_and_or_not_of_tensors(first, second):
    def f(x, y):
        a = x.sum() > 0 and y.sum() > 0
        b = x.sum() > 0 or y.sum() > 0
        c = not (x.sum() > 0)
        return x * a, y + b, c

    check(f, torch.ones(2) * first, torch.ones(2) * second)


def test_both_branches_get_their_graph():
    def f(x):
        y = x.sin()
        if y.sum() > 0:
            return y.exp()
        return y.cos()

    compiled = check(f, x4(), graphs=2, breaks=1)
    negative = -x4()
    assert torch.equal(compiled(negative), f(negative))
    check_captured(compiled, "sin", "exp", "cos")


def test_data_dependent_while_with_else():
    def f(x):
        steps = 0
        while x.abs().sum() < 100:
            x = x * 2
            steps += 1
            if steps > 50:
                break
        else:
            x = x.sin()
        return x, steps

    check(f, x4())


def test_while_true_left_by_a_data_dependent_break():
    def f(x):
        steps = 0
        while True:
            x = x * 2
            steps += 1
            if x.abs().sum() > 100:
                break
            if steps == 2:
                continue
            x = x + 1
        return x.sin(), steps

    check(f, x4())


def test_break_and_continue_in_a_for_loop():
    def f(x):
        out = []
        for i in range(6):
            y = x.sin() + i
            if i == 1:
                continue
            print("step", i)
            if i == 4:
                break
            out.append(y.cos())
        else:
            out.append("no break")
        return out, i

    check(f, x4())


def test_nested_for_loops():
    def f(x):
        total = x.sin()
        for i in range(2):
            for j in (1.5, 2.5):
                total = total + i * j
                LOG.append((i, j))
                framejit.graph_break()
                total = total.cos()
            total = total * 2
        return total

    check(f, x4())


@pytest.mark.parametrize(
    "iterable",
    ["[1, 2, 3]", "(1, 2, 3)", "{'a': 1, 'b': 2}", "{'a': 1, 'b': 2}.items()", "enumerate([5, 6])", "zip([1, 2], 'ab')"]
    + ["reversed([1, 2])", "map(str, [1, 2])", "filter(None, [0, 1, 2])", "'abc'", "iter([1, 2])", "{7}", "x.sin()"],
)
def test_iterator_goes_on_after_a_break(iterable):
    source = f"""
    def f(x):
        out = []
        for item in {iterable}:
            y = x.sin()
            framejit.graph_break()
            out.append((item, y.cos()))
        return out
    """
    check(define_function(source, framejit=framejit), x4())


def test_iterator_of_a_caller_is_shared():
    def f(iterator, x):
        out = []
        for item in iterator:
            out.append(x.sin() + item)
            framejit.graph_break()
            out.append(next(iterator) + x.cos())
        return out, list(iterator)

    check(f, make=lambda: ((iter([1, 2, 3, 4]), x4()), {}), miss=None)


def test_generator_runs_on_across_breaks():
    def numbers(x):
        for i in range(3):
            LOG.append(i)
            yield x + i

    def f(x):
        total = x.sin()
        for y in numbers(x):
            total = total + y
            print("at", len(LOG))
            total = total.cos()
        return total

    check(f, x4(), graphs=at_least(1))


def test_nested_try_finally_runs_in_order():
    def f(x):
        y = x.sin()
        try:
            try:
                y = y + 1
                framejit.graph_break()
                y = y.cos()
            finally:
                LOG.append("inner")
                y = y * 2
        finally:
            LOG.append("outer")
            y = y.tanh()
        return y

    check(f, x4())


def test_return_inside_try_runs_finally():
    def f(x):
        for i in range(3):
            try:
                y = x.sin() + i
                framejit.graph_break()
                if i == 1:
                    return y.cos()
            finally:
                LOG.append(i)
                print("finally", i)
        return None

    check(f, x4())


def test_return_in_finally_drops_the_exception():
    check(define_function(
        """
        def f(x):
            try:
                y = x.sin()
                framejit.graph_break()
                raise ValueError("dropped")
            finally:
                return y.cos()
        """,
        framejit=framejit,
    ), x4())


def test_reraise_after_a_break_in_the_handler():
    def f(x):
        y = x.sin()
        try:
            {}["missing"]
        except KeyError:
            framejit.graph_break()
            y = y.cos()
            LOG.append(y)
            raise

    check(f, x4(), raises=KeyError, graphs=at_least(1))


def test_exception_chains_across_a_break():
    def f(x):
        try:
            {}["missing"]
        except KeyError as error:
            y = x.sin()
            framejit.graph_break()
            y = y.cos()
            LOG.append(y)
            raise ValueError("new") from error

    check(f, x4(), raises=ValueError)


def test_context_of_an_exception_raised_after_a_break():
    def f(x):
        try:
            {}["missing"]
        except KeyError:
            y = x.sin()
            framejit.graph_break()
            LOG.append(y.cos())
            raise ValueError("new")

    check(f, x4(), raises=ValueError)


def test_current_exception_is_visible_after_a_break():
    def f(x):
        y = x.sin()
        try:
            raise ValueError("seen")
        except ValueError:
            framejit.graph_break()
            y = y.cos()
            kind, value, _ = sys.exc_info()
            LOG.append((kind, value.args))
        return y, sys.exc_info()

    check(f, x4())


def test_handler_order_and_tuple_of_types():
    def f(x, which):
        y = x.sin()
        try:
            framejit.graph_break()
            y = y.cos()
            raise which("w")
        except (KeyError, IndexError) as error:
            return y, "lookup", repr(error)
        except ValueError:
            return y.exp(), "value"

    for which in (KeyError, IndexError, ValueError):
        check(f, x4(), which)
    check(f, x4(), TypeError, raises=TypeError)


def test_name_bound_by_except_is_deleted():
    def f(x):
        try:
            raise ValueError
        except ValueError as error:
            y = x.sin()
            framejit.graph_break()
        y = y.cos()
        LOG.append(y)
        return error  # noqa: F821

    check(f, x4(), raises=UnboundLocalError)


class Entered:
    def __init__(self, name, suppress=False):
        self.name, self.suppress = name, suppress

    def __enter__(self):
        LOG.append(("enter", self.name))
        return self

    def __exit__(self, kind, value, traceback):
        LOG.append(("exit", self.name, kind))
        return self.suppress


def test_two_context_managers_with_a_break_inside():
    def f(x):
        with Entered("a") as a, Entered("b", suppress=True) as b:
            y = x.sin()
            framejit.graph_break()
            y = y.cos()
            raise ValueError(a.name + b.name)
        return y * 2

    check(f, x4())


def test_context_manager_whose_enter_breaks():
    class Breaks:
        def __enter__(self):
            framejit.graph_break()
            LOG.append("enter")
            return 3

        def __exit__(self, *unused):
            framejit.graph_break()
            LOG.append("exit")

    def f(x):
        y = x.sin()
        with Breaks() as three:
            y = y * three
        return y.cos()

    check(f, x4())


def test_no_grad_stays_inside_and_ends_outside():
    def f(x):
        y = x.sin()
        with torch.no_grad():
            a = y * 2
            framejit.graph_break()
            b = y * 3
        return y * 4, a, b

    check(f, x4().requires_grad_())


def test_set_grad_enabled_lasts_across_a_break():
    def f(x):
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        try:
            y = x.sin()
            framejit.graph_break()
            return y.cos(), torch.is_grad_enabled()
        finally:
            torch.set_grad_enabled(before)

    check(f, x4().requires_grad_())


def test_autocast_lasts_across_a_break():
    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
            framejit.graph_break()
            z = x @ x + y
        return y, z, x @ x

    check(f, torch.eye(4) + 1)


def test_fresh_list_is_one_list_on_both_sides():
    def f(x):
        values = [x.sin()]
        other = values
        framejit.graph_break()
        other.append(x.cos())
        return values, other

    check(f, x4())


def test_object_made_before_a_break_keeps_its_identity():
    def f(x):
        entered = Entered("kept")
        entered.y = x.sin()
        pair = (entered, [entered])
        framejit.graph_break()
        entered.y = entered.y.cos()
        return pair, entered

    check(f, x4())


def test_alias_of_tensors_survives_a_break():
    def f(x):
        y = x.sin()
        view = y[1:]
        framejit.graph_break()
        view.add_(1)
        return y.cos(), view, y

    check(f, x4())


def test_mutated_arguments_on_both_sides():
    def f(x, items, table):
        items.append(x.sin())
        table["before"] = 1
        framejit.graph_break()
        table["after"] = len(items)
        items[0] = x.cos()
        x.add_(1)
        return items

    check(f, x4(), [0], {})


def test_nonlocal_shared_by_two_closures_across_a_break():
    def f(x):
        count = 0

        def up():
            nonlocal count
            count += 1
            return count

        def read():
            return count

        y = x.sin() + up()
        framejit.graph_break()
        y = y.cos() + up()
        return y, read(), up, read

    check(f, x4(), after=lambda result: (result[2](), result[3]()))


def test_deleted_and_unbound_locals():
    def f(x, late):
        y = x.sin()
        if late:
            z = y + 1
        framejit.graph_break()
        y = y.cos()
        del x
        LOG.append(y)
        return z

    check(f, x4(), True)
    check(f, x4(), False, raises=UnboundLocalError)


def test_locals_sees_every_variable():
    def f(x):
        y = x.sin()
        n = 3
        framejit.graph_break()
        seen = sorted(locals())
        return y.cos() * n, seen

    check(f, x4())


def test_lambda_key_that_breaks():
    check(lambda x: sorted([x.sin(), x.cos() * 2, x.exp()], key=lambda y: y.sum().tolist()), x4(), graphs=at_least(1))


def test_map_with_a_function_that_breaks():
    check(lambda x: list(map(lambda y: y.cos() + item_of(y), [x.sin(), x.exp()])), x4(), graphs=at_least(1))


def test_break_in_a_property():
    class Model:
        def __init__(self, w):
            self.w = w

        @property
        def scale(self):
            return self.w.sum().tolist()

    model = Model(torch.ones(3))
    check(lambda x: x.sin() * model.scale + x.cos(), x4())


def test_break_in_a_module_forward():
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)
            self.calls = 0

        def forward(self, x):
            y = self.linear(x).sin()
            self.calls += 1
            print("calls", self.calls)
            return y.cos()

    block = torch.nn.Sequential(Block(), torch.nn.ReLU(), Block())
    check(lambda x: block(x) + 1, x4())


def test_break_in_a_forward_hook():
    linear = torch.nn.Linear(4, 4)
    linear.register_forward_hook(lambda module, args, output: output * (1 if output.sum() > 0 else 2))
    check(lambda x: linear(x.sin()).cos(), x4())


def test_break_in_a_recursive_function():
    def power(x, n):
        if n == 0:
            return x.sin()
        framejit.graph_break()
        return power(x, n - 1).cos() + n

    check(lambda x: power(x, 3), x4())


def test_break_at_the_first_and_at_the_last_instruction():
    def f(x):
        framejit.graph_break()
        y = x.sin()
        framejit.graph_break()
        return y

    check(f, x4(), graphs=1, breaks=at_least(1))


def test_many_breaks_in_one_function():
    source = "def f(x):\n" + "".join(f"    x = x.sin() + {i}\n    framejit.graph_break()\n" for i in range(30)) + "    return x.cos()\n"
    check(define_function(source, framejit=framejit), x4(), graphs=31, breaks=30)


def test_value_of_item_is_not_baked_in():
    def f(x):
        return x * x.sum().tolist()

    compiled = check(f, x4(), graphs=at_least(1))
    for shift in (1.0, 2.0, -5.0):
        y = x4() + shift
        assert torch.equal(compiled(y), f(y))


def test_item_of_each_dtype():
    def f(x):
        value = x.max().tolist()
        return x + value, value, type(value)

    for dtype in (torch.float32, torch.float64, torch.float16, torch.int64, torch.int8, torch.bool, torch.complex64):
        x = torch.tensor([1, 0, 1]).to(dtype)
        if dtype == torch.complex64:
            check(lambda x: x * x[0].tolist(), x, graphs=at_least(1))
        else:
            check(f, x, graphs=at_least(1))


@pytest.mark.parametrize("expression", ["int(s)", "float(s)", "bool(s)", "complex(s)", "s.__index__()", "range(s)[-1]"])
def test_conversion_of_a_tensor_to_a_number(expression):
    source = f"""
    def f(x):
        s = x.sin().sum().long() + 3
        n = {expression}
        return x.cos() + n, n
    """
    check(define_function(source, torch=torch), x4())


@pytest.mark.parametrize("expression", ["[10, 20, 30][s]", "'abc' * s", "(1, 2, 3)[:s]", "list(range(s, 5))"])
def test_tensor_used_as_an_index(expression):
    source = f"""
    def f(x):
        s = (x.sin().sum() * 0).long() + 2
        n = {expression}
        return x.cos(), n
    """
    check(define_function(source, torch=torch), x4())


def test_membership_and_equality_of_tensors_break():
    check(lambda x: (x.sin(), x.sum() in [x.sum(), 3], x.cos()), x4())
    check(lambda x: (x.sin(), bool((x == x).all()), x.cos()), x4())


def test_nonzero_and_boolean_mask():
    check(lambda x: (x.sin()[x > 0].cos(), x.nonzero(), torch.where(x > 0)), x4(), graphs=at_least(1), breaks=None)


def test_print_with_several_arguments_and_a_file():
    def f(x):
        y = x.sin()
        print("a", 1, y.shape, sep="-", end="!\n")
        print(f"{y.mean():.4f}", y.dtype)
        return y.cos()

    check(f, x4())


def test_repr_and_str_of_a_tensor():
    check(lambda x: (x.sin(), str(x.exp()), repr(x), f"{x}", "%s" % (x,), x.cos()), x4())


def test_numpy_round_trip():
    numpy = pytest.importorskip("numpy")

    def f(x):
        array = x.sin().numpy()
        return torch.from_numpy(numpy.sqrt(numpy.abs(array))).cos(), numpy.asarray(x).sum(), x.__array__().shape

    check(f, x4())


def test_break_inside_the_standard_library_is_a_break_at_its_call():
    import textwrap

    def f(x):
        y = x.sin()
        return textwrap.wrap("word " * len(LOG), 8), y.cos()

    compiled = check(f, x4())
    captured = {record["location"].partition(":")[0] for record in framejit._C.captures(compiled)}
    check_equal("files that captures begin in", captured, {__file__})


def test_break_in_a_function_that_the_standard_library_calls():
    import contextlib

    class Entered(contextlib.ContextDecorator):
        def __enter__(self):
            LOG.append("enter")

        def __exit__(self, *unused):
            LOG.append("exit")

    @Entered()
    def inner(x):
        y = x.sin()
        print("inner")
        return y.cos()

    def f(x):
        return inner(x.tan()).exp()

    compiled = check(f, x4())
    check_captured(compiled, "tan", "sin", "cos", "exp")


def test_copy_and_pickle_of_a_tensor_break():
    import copy
    import pickle

    def f(x):
        y = x.sin()
        return copy.deepcopy(y).cos(), pickle.loads(pickle.dumps(y)), copy.copy(y), y.tolist()

    check(f, x4())

"""What an entry depends on: a change recaptures and is right, going back hits the old entry."""

import collections
import copy
import enum
import threading

import pytest
import torch

import framejit
from support import counts
from support.guarded import Guarded

SCALE = 2
TABLE = {"scale": 2, "unused": 0}
ITEMS = [1, 2]


def there_and_back(fn, first, second):
    """Call with the first arguments (a capture, then a hit), the second (likewise), and the first again."""
    guarded = Guarded(fn)
    guarded.captures(*first)
    guarded.hits(*first)
    guarded.captures(*second)
    guarded.hits(*second)
    guarded.hits(*first)
    guarded.hits(*second)
    return guarded


def change_and_back(fn, args, change, back):
    """Like `there_and_back`, where calling `change()` and `back()` makes the difference."""
    guarded = Guarded(fn)
    guarded.captures(*args)
    guarded.hits(*args)
    change()
    try:
        guarded.captures(*args)
        guarded.hits(*args)
    finally:
        back()
    guarded.hits(*args)
    return guarded


def plus_one(x):
    return x + 1


# Tensors


def test_shape():
    there_and_back(plus_one, [torch.ones(2, 3)], [torch.ones(4, 3)])


def test_number_of_dimensions():
    there_and_back(plus_one, [torch.ones(6)], [torch.ones(2, 3)])


def test_size_read_by_the_program():
    there_and_back(lambda x: x * x.shape[0] + len(x), [torch.ones(2, 3)], [torch.ones(4, 3)])


def test_dtype():
    there_and_back(plus_one, [torch.ones(3)], [torch.ones(3, dtype=torch.int64)])


def test_strides():
    there_and_back(lambda x: x.reshape(-1) + 1, [torch.ones(3, 3)], [torch.arange(9.0).reshape(3, 3).t()])


def test_storage_offset_alone_is_right():
    base = torch.arange(8.0)
    guarded = Guarded(plus_one)
    guarded.captures(base[:4])
    guarded.agrees(base[4:])


def test_device():
    there_and_back(plus_one, [torch.ones(3)], [torch.ones(3, device="meta")])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_device():
    there_and_back(plus_one, [torch.ones(3)], [torch.ones(3, device="cuda")])


def test_requires_grad():
    there_and_back(lambda x: x * 2, [torch.ones(3)], [torch.ones(3, requires_grad=True)])


def test_leaf_and_result_of_an_operation_are_both_right():
    guarded = Guarded(lambda x: x * 2)
    leaf = torch.ones(3, requires_grad=True)
    guarded.captures(leaf)
    guarded.agrees(leaf * 1)


def test_parameter_instead_of_tensor():
    there_and_back(lambda x: (x + 1, type(x)), [torch.ones(3)], [torch.nn.Parameter(torch.ones(3), requires_grad=False)])


def test_tensor_subclass_instead_of_tensor():
    class Named(torch.Tensor):
        pass

    guarded = Guarded(lambda x: x + 1)
    guarded.captures(torch.ones(3))
    guarded.agrees(torch.ones(3).as_subclass(Named))
    guarded.hits(torch.ones(3))


def test_layout():
    guarded = Guarded(lambda x: (x * 2).sum())
    guarded.captures(torch.eye(3))
    guarded.agrees(torch.eye(3).to_sparse())
    guarded.hits(torch.eye(3))


def test_conjugate_and_negative_bits():
    z = torch.tensor([1 + 2j, 3 - 1j])
    guarded = Guarded(lambda x: x * 2)
    guarded.captures(z)
    guarded.agrees(z.conj())
    guarded.hits(z)


def test_zero_dimensional_tensor_instead_of_number():
    there_and_back(lambda x, s: x * s, [torch.ones(3), torch.tensor(2.0)], [torch.ones(3), 2.0])


def test_none_instead_of_tensor():
    there_and_back(lambda x, m: x if m is None else x + m, [torch.ones(3), None], [torch.ones(3), torch.ones(3)])


def test_tensor_attribute():
    def f(x):
        return x + x.scale

    x, y = torch.ones(3), torch.ones(3)
    x.scale, y.scale = 2, 3
    there_and_back(f, [x], [y])


# Aliasing of arguments


def test_same_tensor_passed_twice():
    def f(a, b):
        a.add_(1)
        return a * b

    x, y = torch.ones(3), torch.ones(3)
    there_and_back(f, [x, y], [x, x])


def test_identity_test_of_arguments():
    x, y = torch.ones(3), torch.ones(3)
    there_and_back(lambda a, b: a + 1 if a is b else b + 2, [x, y], [x, x])


def test_overlapping_views_as_arguments():
    def f(a, b):
        a.add_(1)
        return a + b

    base = torch.zeros(6)
    guarded = Guarded(f)
    guarded.captures(torch.zeros(4), torch.ones(4))
    guarded.agrees(base[:4], base[2:])
    guarded.agrees(base[2:], base[:4])


def test_same_list_passed_twice():
    def f(x, a, b):
        a.append(1)
        return x * len(b)

    there_and_back(f, [torch.ones(2), [], []], [torch.ones(2), *[[0]] * 2])


def test_argument_that_is_also_a_global():
    global ALIASED
    ALIASED = torch.zeros(3)

    def f(x):
        ALIASED.add_(1)
        return x * 2

    guarded = Guarded(f)
    guarded.captures(torch.ones(3))
    guarded.agrees(ALIASED)
    guarded.agrees(torch.ones(3))


# Numbers, strings and other constants


@pytest.mark.parametrize(
    "first, second",
    [(1, 2), (1, 1.0), (1, True), (0.0, -0.0), (1.5, 2.5), (1, 2**70), (True, False), (2, 2j), (float("inf"), 1.0)],
)
def test_number(first, second):
    there_and_back(lambda x, n: (x * n, n, type(n)), [torch.ones(3), first], [torch.ones(3), second])


def test_nan_does_not_recapture_for_ever():
    guarded = Guarded(lambda x, n: x * n)
    guarded.captures(torch.ones(3), float("nan"))
    guarded.hits(torch.ones(3), float("nan"))


@pytest.mark.parametrize(
    "first, second",
    [("sum", "mean"), (b"a", b"b"), (None, 0), (torch.float32, torch.float64), ((1, 2), (1, 3)), ((1,), (1, 2)), (..., None)]
    + [(slice(0, 1), slice(0, 2)), (range(2), range(3)), (frozenset([1]), frozenset([2])), ("a", "a\0")],
)
def test_constant(first, second):
    def f(x, c):
        return x + hash(str(c)) % 7, c == first, c

    there_and_back(f, [torch.ones(3), first], [torch.ones(3), second])


def test_enum_member():
    class Mode(enum.Enum):
        SUM = 1
        MEAN = 2

    there_and_back(lambda x, m: x.sum() if m is Mode.SUM else x.mean(), [torch.ones(3), Mode.SUM], [torch.ones(3), Mode.MEAN])


def test_function_argument():
    there_and_back(lambda x, fn: fn(x), [torch.ones(3), torch.sin], [torch.ones(3), torch.cos])
    there_and_back(lambda x, fn: fn(x), [torch.ones(3), lambda x: x + 1], [torch.ones(3), lambda x: x - 1])


def test_class_argument():
    there_and_back(lambda x, kind: (x, isinstance(1, kind), kind()), [torch.ones(3) + 1, int], [torch.ones(3) + 1, str])


# Containers and objects


def test_list_length():
    there_and_back(lambda xs: sum(xs) + 1, [[torch.ones(2)] * 2], [[torch.ones(2)] * 3])


def test_list_item():
    there_and_back(lambda x, ns: x * ns[1], [torch.ones(2), [1, 2]], [torch.ones(2), [1, 3]])


def test_tuple_instead_of_list():
    there_and_back(lambda xs: (xs[0] + 1, type(xs)), [[torch.ones(2)]], [(torch.ones(2),)])


def test_dict_keys():
    def f(d):
        return sum(d.values()) + 1, list(d), d.get("b")

    there_and_back(f, [{"a": torch.ones(2)}], [{"a": torch.ones(2), "b": torch.ones(2)}])


def test_dict_key_read_with_a_default():
    there_and_back(lambda x, d: x + d.get("n", 5), [torch.ones(2), {}], [torch.ones(2), {"n": 1}])


def test_dict_membership():
    there_and_back(lambda x, d: x + 1 if "n" in d else x, [torch.ones(2), {}], [torch.ones(2), {"n": 1}])


def test_order_of_dict_keys():
    there_and_back(lambda d: list(d) + [sum(d.values())], [{"a": torch.ones(2), "b": torch.ones(2)}], [{"b": torch.ones(2), "a": torch.ones(2)}])


def test_ordered_dict_and_default_dict():
    first = collections.OrderedDict(n=2)
    second = collections.defaultdict(int, n=2)
    there_and_back(lambda x, d: (x * d["n"], type(d)), [torch.ones(2), first], [torch.ones(2), second])


def test_set_contents():
    there_and_back(lambda x, s: x * len(s) + (3 in s), [torch.ones(2), {1}], [torch.ones(2), {1, 3}])


def test_deque_contents():
    first, second = collections.deque([1, 2]), collections.deque([1, 2, 3])
    there_and_back(lambda x, d: x * len(d) + d[-1], [torch.ones(2), first], [torch.ones(2), second])


def test_nested_container():
    first = {"layers": [{"n": 1}, {"n": 2}]}
    second = {"layers": [{"n": 1}, {"n": 3}]}
    there_and_back(lambda x, c: x * c["layers"][1]["n"], [torch.ones(2), first], [torch.ones(2), second])


class Config:
    kind = "config"

    def __init__(self, n, inner=None):
        self.n, self.inner = n, inner

    def apply(self, x):
        return x * self.n


class OtherConfig(Config):
    def apply(self, x):
        return x - self.n


def test_type_of_an_object():
    there_and_back(lambda x, c: c.apply(x), [torch.ones(2), Config(2)], [torch.ones(2), OtherConfig(2)])


def test_attribute_of_an_object():
    there_and_back(lambda x, c: c.apply(x), [torch.ones(2), Config(2)], [torch.ones(2), Config(3)])


def test_attribute_behind_an_attribute():
    there_and_back(lambda x, c: c.inner.apply(x), [torch.ones(2), Config(0, Config(2))], [torch.ones(2), Config(0, Config(3))])


def test_missing_attribute():
    first, second = Config(1), Config(1)
    second.extra = 4
    there_and_back(lambda x, c: x + getattr(c, "extra", 0), [torch.ones(2), first], [torch.ones(2), second])
    there_and_back(lambda x, c: x + 1 if hasattr(c, "extra") else x, [torch.ones(2), first], [torch.ones(2), second])


def test_instance_attribute_over_a_method():
    c = Config(2)
    change_and_back(lambda x: c.apply(x), [torch.ones(2)], lambda: setattr(c, "apply", torch.sin), lambda: delattr(c, "apply"))


def test_class_attribute():
    def f(x):
        return x + len(Config(1).kind)

    change_and_back(f, [torch.ones(2)], lambda: setattr(Config, "kind", "longer kind"), lambda: setattr(Config, "kind", "config"))


def test_method_replaced_on_the_class():
    original, c = Config.apply, Config(2)
    change_and_back(
        lambda x: c.apply(x),
        [torch.ones(2)],
        lambda: setattr(Config, "apply", lambda self, x: x - 7),
        lambda: setattr(Config, "apply", original),
    )


def test_unread_attribute_and_key_do_not_matter():
    c = Config(2)
    guarded = Guarded(lambda x: c.apply(x) * TABLE["scale"])
    guarded.captures(torch.ones(2))
    c.other = 5
    TABLE["unused"] += 1
    guarded.hits(torch.ones(2))


# Modules


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.drop = torch.nn.Dropout(0.5)
        self.scale = 2

    def forward(self, x):
        return self.drop(self.linear(x)) * self.scale


def with_net(change, back):
    torch.manual_seed(0)
    net = Net()
    change_and_back(lambda x: net(x), [torch.ones(2, 3)], lambda: change(net), lambda: back(net))


def test_training_flag():
    with_net(lambda net: net.eval(), lambda net: net.train())


def test_training_flag_of_a_submodule():
    with_net(lambda net: net.drop.eval(), lambda net: net.drop.train())


def test_module_attribute():
    with_net(lambda net: setattr(net, "scale", 3), lambda net: setattr(net, "scale", 2))


def test_replaced_submodule():
    old = []

    def change(net):
        old.append(net.linear)
        net.linear = torch.nn.Linear(3, 5)

    with_net(change, lambda net: setattr(net, "linear", old[0]))


def test_replaced_parameter_of_another_shape():
    old = []

    def change(net):
        old.extend([net.linear.weight, net.linear.bias])
        net.linear.weight = torch.nn.Parameter(torch.ones(4, 3))
        net.linear.bias = None

    def back(net):
        net.linear.weight, net.linear.bias = old

    with_net(change, back)


def test_frozen_parameter():
    with_net(lambda net: net.linear.weight.requires_grad_(False), lambda net: net.linear.weight.requires_grad_(True))


def test_module_moved_to_another_dtype():
    torch.manual_seed(0)
    net = Net()
    guarded = Guarded(lambda x: net(x.to(net.linear.weight.dtype)))
    guarded.captures(torch.ones(2, 3))
    net.double()
    guarded.captures(torch.ones(2, 3))
    net.float()
    guarded.hits(torch.ones(2, 3))


def test_added_and_removed_hook():
    handles = []

    def change(net):
        handles.append(net.linear.register_forward_hook(lambda module, args, output: output + 1))

    with_net(change, lambda net: handles.pop().remove())


def test_global_module_hook():
    torch.manual_seed(0)
    linear = torch.nn.Linear(3, 3)
    handles = []

    def change():
        handles.append(torch.nn.modules.module.register_module_forward_hook(lambda module, args, output: output * 2))

    change_and_back(lambda x: linear(x), [torch.ones(2, 3)], change, lambda: handles.pop().remove())


def test_values_of_parameters_do_not_matter():
    net = Net().eval()
    guarded = Guarded(lambda x: net(x))
    guarded.captures(torch.ones(2, 3))
    with torch.no_grad():
        net.linear.weight.mul_(2)
    net.load_state_dict(copy.deepcopy(net.state_dict()))
    guarded.hits(torch.ones(2, 3))


def test_one_function_for_several_modules():
    torch.manual_seed(0)
    first, second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    guarded = Guarded(lambda module, x: module(x))
    guarded.captures(first, torch.ones(2, 3))
    guarded.agrees(second, torch.ones(2, 3))
    guarded.hits(first, torch.ones(2, 3))
    guarded.hits(second, torch.ones(2, 3))


def test_list_of_modules_that_grows():
    layers = torch.nn.ModuleList([torch.nn.Linear(3, 3)])

    def f(x):
        for layer in layers:
            x = layer(x)
        return x

    guarded = Guarded(f)
    guarded.captures(torch.ones(2, 3))
    layers.append(torch.nn.Tanh())
    guarded.captures(torch.ones(2, 3))
    del layers[1]
    guarded.hits(torch.ones(2, 3))


# Names


def set_global(name, value):
    globals()[name] = value


def test_global_number():
    change_and_back(lambda x: x * SCALE, [torch.ones(2)], lambda: set_global("SCALE", 3), lambda: set_global("SCALE", 2))


def test_global_function():
    change_and_back(
        lambda x: plus_one(x), [torch.ones(2)], lambda: set_global("plus_one", torch.sin), lambda original=plus_one: set_global("plus_one", original)
    )


def test_global_dict_and_list_contents():
    def f(x):
        return x * TABLE["scale"] + ITEMS[-1]

    change_and_back(f, [torch.ones(2)], lambda: TABLE.update(scale=3), lambda: TABLE.update(scale=2))
    change_and_back(f, [torch.ones(2)], lambda: ITEMS.append(9), lambda: ITEMS.pop())


def test_global_that_shadows_a_builtin():
    change_and_back(lambda x: x * len(x), [torch.ones(2)], lambda: set_global("len", lambda x: 10), lambda: globals().pop("len"))


def test_global_defined_later():
    def f(x):
        try:
            return x + DEFINED_LATER  # noqa: F821
        except NameError:
            return x

    change_and_back(f, [torch.ones(2)], lambda: set_global("DEFINED_LATER", 3), lambda: globals().pop("DEFINED_LATER"))


def test_global_tensor():
    set_global("TENSOR", torch.ones(2))
    guarded = Guarded(lambda x: x + TENSOR)  # noqa: F821
    guarded.captures(torch.ones(2))
    set_global("TENSOR", torch.zeros(2))
    guarded.agrees(torch.ones(2))
    set_global("TENSOR", torch.zeros(2, dtype=torch.int32))
    guarded.captures(torch.ones(2))


def test_module_constant_of_another_module():
    import math

    change_and_back(lambda x: x * math.tau, [torch.ones(2)], lambda: setattr(math, "tau", 6), lambda tau=math.tau: setattr(math, "tau", tau))


def test_closure_cell():
    scale = 2

    def f(x):
        return x * scale

    def change(value):
        nonlocal scale
        scale = value

    change_and_back(f, [torch.ones(2)], lambda: change(3), lambda: change(2))


def test_cell_of_an_inlined_closure():
    def make(n):
        def get():
            return n

        def put(value):
            nonlocal n
            n = value

        return get, put

    get, put = make(2)
    change_and_back(lambda x: x * get(), [torch.ones(2)], lambda: put(3), lambda: put(2))


def test_default_argument():
    def f(x, scale=2, *, shift=1):
        return x * scale + shift

    change_and_back(f, [torch.ones(2)], lambda: setattr(f, "__defaults__", (3,)), lambda: setattr(f, "__defaults__", (2,)))
    change_and_back(f, [torch.ones(2)], lambda: setattr(f, "__kwdefaults__", {"shift": 5}), lambda: setattr(f, "__kwdefaults__", {"shift": 1}))


def test_default_argument_of_a_callee():
    def callee(x, scale=2):
        return x * scale

    change_and_back(
        lambda x: callee(x), [torch.ones(2)], lambda: setattr(callee, "__defaults__", (3,)), lambda: setattr(callee, "__defaults__", (2,))
    )


def test_code_of_a_callee():
    def callee(x):
        return x * 2

    def other(x):
        return x - 2

    first, second = callee.__code__, other.__code__
    change_and_back(
        lambda x: callee(x), [torch.ones(2)], lambda: setattr(callee, "__code__", second), lambda: setattr(callee, "__code__", first)
    )


def test_keyword_arguments_in_another_order():
    def f(x, **options):
        return x * options["a"] + options["b"], list(options)

    guarded = Guarded(f)
    guarded.captures(torch.ones(2), a=1, b=2)
    guarded.hits(torch.ones(2), a=1, b=2)
    guarded.agrees(torch.ones(2), b=2, a=1)
    guarded.captures(torch.ones(2), a=1, b=2, c=3)
    guarded.hits(torch.ones(2), a=1, b=2)


def test_argument_given_by_position_or_by_keyword():
    def f(x, scale=2):
        return x * scale

    guarded = Guarded(f)
    guarded.captures(torch.ones(2), 3)
    guarded.agrees(torch.ones(2), scale=3)
    guarded.agrees(x=torch.ones(2), scale=3)
    guarded.agrees(torch.ones(2))


def test_number_of_star_arguments():
    there_and_back(lambda *xs: sum(xs) + len(xs), [torch.ones(2)] * 2, [torch.ones(2)] * 3)


# Global switches


def test_grad_mode():
    x = torch.ones(3, requires_grad=True)
    guarded = Guarded(lambda x: (x * 2, torch.is_grad_enabled()))
    guarded.captures(x)
    with torch.no_grad():
        guarded.captures(x)
        guarded.hits(x)
    guarded.hits(x)


def test_inference_mode():
    guarded = Guarded(lambda x: x * 2)
    guarded.captures(torch.ones(3))
    with torch.inference_mode():
        guarded.captures(torch.ones(3))
    guarded.hits(torch.ones(3))


def test_default_dtype():
    change_and_back(
        lambda x: x + torch.zeros(3),
        [torch.ones(3)],
        lambda: torch.set_default_dtype(torch.float64),
        lambda: torch.set_default_dtype(torch.float32),
    )


def test_default_device():
    guarded = Guarded(lambda x: (x + 1, torch.zeros(3)))
    guarded.captures(torch.ones(3))
    with torch.device("meta"):
        guarded.agrees(torch.empty(3, device="meta"))
    guarded.hits(torch.ones(3))


def test_autocast():
    guarded = Guarded(lambda x: x @ x)
    guarded.captures(torch.eye(3))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        guarded.captures(torch.eye(3))
        guarded.hits(torch.eye(3))
    with torch.autocast("cpu", dtype=torch.float16):
        guarded.captures(torch.eye(3))
    guarded.hits(torch.eye(3))


def test_deterministic_algorithms():
    guarded = Guarded(lambda x: (x + 1, torch.are_deterministic_algorithms_enabled()))
    guarded.captures(torch.ones(3))
    torch.use_deterministic_algorithms(True)
    try:
        guarded.captures(torch.ones(3))
    finally:
        torch.use_deterministic_algorithms(False)
    guarded.hits(torch.ones(3))


def test_grad_mode_of_another_thread_does_not_matter():
    guarded = Guarded(lambda x: x * 2)
    x = torch.ones(3, requires_grad=True)
    guarded.captures(x)

    def in_thread():
        with torch.no_grad():
            guarded.compiled(x)

    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    guarded.hits(x)


# Many entries


def test_many_shapes_each_keep_their_entry():
    guarded = Guarded(lambda x: x * x.shape[0])
    for size in range(1, 9):
        guarded.captures(torch.ones(size, 2))
    for size in (8, 1, 5, 3):
        guarded.hits(torch.ones(size, 2))


def test_guards_hold_after_a_break():
    scale = 2

    def f(x):
        y = x.sin()
        print("break")
        return y * scale

    def change(value):
        nonlocal scale
        scale = value

    change_and_back(f, [torch.ones(2)], lambda: change(3), lambda: change(2))


def test_guard_changed_between_two_segments_of_one_call():
    def f(x, c):
        y = x * c.n
        print("break")
        c.n += 1
        return y * c.n

    guarded = Guarded(f)
    config = Config(1)
    guarded.captures(torch.ones(2), config)
    guarded.hits(torch.ones(2), config)
    config.n = 5
    guarded.captures(torch.ones(2), config)


def test_state_mutated_by_the_captured_code_itself():
    config = Config(1)

    def f(x):
        config.n += 1
        return x * config.n

    compiled = Guarded(f).compiled
    for expected in (2, 3, 4):
        assert compiled(torch.ones(2)).tolist() == [expected] * 2
    assert config.n == 4


def test_guard_text_names_what_is_checked():
    guarded = Guarded(lambda x: x * SCALE)
    guarded.captures(torch.ones(2, 7))
    from support import counts

    counts.check_text("guards", guarded.compiled.guards, "SCALE", "7")


@pytest.mark.parametrize(
    "relation",
    [
        "b in [a]",
        "b in (a, 3)",
        "(1, b) in [(1, a)]",
        "b in collections.deque([a])",
        "b in {1: a}.values()",
        "[a].count(b)",
        "[(1, a)].count((1, b))",
        "(a, 1) == (b, 1)",
        "{1: a} == {1: b}",
        "len({a, b})",
        "len({a: 1, b: 2})",
    ],
)
@pytest.mark.parametrize("make", [type("Thing", (), {}), lambda: lambda: 1], ids=["objects", "functions"])
def test_two_objects_that_may_be_one_tomorrow(relation, make):
    namespace = {"collections": collections}
    exec(f"def program(x, a, b):\n    return x + 1, {relation}\n", namespace)
    program = namespace["program"]
    compiled = framejit.to_static(program)
    one, two = make(), make()
    for a, b in [(one, two), (one, one), (two, one), (two, two)]:
        x = torch.ones(3)
        with counts.counting() as counted:
            assert compiled(x, a, b)[1] == program(x, a, b)[1]
        assert counted.graphs or counted.hits

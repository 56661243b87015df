"""Programs that once differed from eager: found by generated programs and by CPython's own tests, run captured."""

import array
import collections
import copy
import operator
import re
import types

import pytest
import torch

import framejit
from support import counts
from support.same_as_eager import assert_same_as_eager

LOG = []
OPEN = {"graphs": None, "breaks": None, "fallbacks": None}


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


def check(fn, *args, **options):
    return assert_same_as_eager(fn, *(args or (x3(),)), **{**OPEN, **options})


def put(d):
    framejit.graph_break()
    d["k"] = 1


def test_dictionary_of_a_module_is_the_modules_own():
    def program(x, owner):
        put(owner.__dict__)
        return x + owner.k

    check(program, x3(), types.ModuleType("made"))


class Searcher:
    def __init__(self, pattern):
        self.rx = re.compile(pattern)


def test_bound_c_method_waits_on_the_stack_of_a_break():
    def search(x, owner, error):
        owner.error = error.with_traceback(None)
        return x + 1 if owner.rx.search(str(error)) else x - 1

    compiled = framejit.to_static(search)
    for pattern in ("a", "b", "a"):
        assert torch.equal(compiled(x3(), Searcher(pattern), ValueError(pattern)), x3() + 1)


class Plain:
    pass


def test_arguments_of_a_class_without_init():
    def program(x):
        return x * 2, Plain(x)

    check(program, raises=TypeError)


class Meta(type):
    def __delattr__(cls, name):
        LOG.append(name)
        super().__delattr__(name)

    def __setattr__(cls, name, value):
        super().__setattr__(name, value)


def test_metaclass_changes_its_class():
    class Made(metaclass=Meta):
        pass

    def program(x):
        Made.first = 1
        del Made.first
        return x + hasattr(Made, "first")

    check(program)


def test_write_to_a_detached_alias_is_seen_by_its_base():
    def program(x):
        alias = x.detach()
        framejit.graph_break()
        alias.mul_(0.75)

    for run in (program, framejit.to_static(program)):
        x = x3()
        run(x)
        assert x._version == 1


def test_rows_of_unbind_are_views():
    def rows(x):
        kept = x.unbind() + x.split(2)
        framejit.graph_break()
        return kept

    compiled = framejit.to_static(rows)
    for mode in (torch.enable_grad, torch.no_grad):
        x = x3().requires_grad_()
        with mode():
            for row, expected in zip(compiled(x), rows(x)):
                assert row._is_view() and row._base is x
                assert (row.requires_grad, row.is_leaf) == (expected.requires_grad, expected.is_leaf)
                assert type(row.grad_fn) is type(expected.grad_fn)


def test_view_made_without_gradients_is_an_argument():
    x = x3().requires_grad_()
    with torch.no_grad():
        view = x.view(3, 1)  # requires grad as its base does, and has no history
        compiled = framejit.to_static(lambda t: t + 1)
        assert torch.equal(compiled(view), view + 1) and torch.equal(compiled(view), view + 1)
    assert framejit.stats()["fallbacks"] == 0


def test_cache_made_inside_is_consulted():
    import functools

    def program(x, n):
        @functools.lru_cache(maxsize=None)
        def double(p):
            LOG.append(p)
            return p * 2

        return x + double(n) + double(n) + double(1)

    check(program, x3(), 3)


def steps_of(t, count):
    for step in range(count):
        yield t * step
    return "end", count


def test_value_of_stop_iteration():
    def program(x):
        it = steps_of(x, 2)
        try:
            while True:
                x = (x + next(it)).sin()
        except StopIteration as stop:
            LOG.append(stop.value)
        try:
            next(it)
        except StopIteration as stop:
            LOG.append((stop.value, stop.args))
        return x

    check(program)


def test_cell_and_local_of_one_name_in_comprehensions():
    def program(x):
        table = {key: x * i for i, key in enumerate("ab")}
        functions = [lambda: i for i in range(3)]
        return functions[0](), table

    check(program)


def test_message_of_an_unbound_local():
    def program(x):
        v = 2
        del v
        try:
            LOG.append(v)  # noqa: F821
        except UnboundLocalError as error:
            LOG.append(str(error))
        return x.sin()

    check(program)


def test_text_of_a_list_that_holds_itself():
    def program(x):
        items = [1]
        items.append(items)
        return x + len(str(items)), repr({"k": items})

    check(program)


class Odd:
    def __init__(self, value):
        self.value = value

    def __float__(self):
        return self.value

    def __str__(self):
        return self.value

    def __bool__(self):
        LOG.append("asked")
        return self.value

    def __iter__(self):
        return self.value


def message_of(action, *args):
    try:
        return action(*args)
    except TypeError as error:
        return str(error)


def test_special_methods_of_the_wrong_type():
    def program(x):
        return [message_of(action, Odd(7)) for action in (float, str, bool, iter)], x + 1

    check(program)


def test_filter_without_a_function_asks_each_item_once():
    def program(x):
        return x + len(list(filter(None, [Odd(True), Odd(False), Odd(True)])))

    check(program)


def test_keyword_of_tuple():
    def program(x):
        return message_of(lambda: tuple(sequence=(1, 2))), x + 1

    check(program)


class Number(int):
    pass


class Real(float):
    pass


class Text(str):
    pass


class Several(list):
    pass


class Members(set):
    pass


def add_in_place(x, value):
    value += [1]
    return x + 1, list(value)


def meet_in_place(x, value):
    value ^= {1}
    return x + 1, sorted(value)


HIDDEN = {
    "add": (lambda x, v: (x + 1, v + 1), Number(3), Number(4)),
    "scale": (lambda x, v: x * v, Number(3), Number(4)),
    "negate": (lambda x, v: (x + 1, -v), Real(3), Real(4)),
    "absolute": (lambda x, v: (x + 1, abs(v)), Real(3), Real(4)),
    "less": (lambda x, v: (x + 1, v < 3.5), Real(3), Real(4)),
    "concatenate": (lambda x, v: (x + 1, v + "a"), Text("b"), Text("c")),
    "percent": (lambda x, v: (x + 1, "%s" % v), Text("b"), Text("c")),
    "join": (lambda x, v: (x + 1, "".join([v, "a"])), Text("b"), Text("c")),
    "largest": (lambda x, v: (x + 1, max([v, 3])), Number(2), Number(5)),
    "index": (lambda x, v: (x + 1, [1, 2, 3][v]), Number(0), Number(1)),
    "slice": (lambda x, v: (x[:v], [1, 2, 3][:v]), Number(1), Number(2)),
    "dim": (lambda x, v: x.unsqueeze(v), Number(0), Number(1)),
    "union": (lambda x, v: (x + 1, sorted(v | {1})), Members([3]), Members([4])),
    "in place list": (add_in_place, Several([3]), Several([4])),
    "in place set": (meet_in_place, Members([3]), Members([4])),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_data_in_instances_of_subclasses(name):
    """Their type is guarded, what they hold is not: C code must not read it during capture."""
    program, first, second = HIDDEN[name]
    compiled = framejit.to_static(program)
    for value in (first, second, first):
        ours, theirs = copy.copy(value), copy.copy(value)
        assert str(compiled(x3(), ours)) == str(program(x3(), theirs))
        assert ours == theirs


class Counting:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        self.n -= 1
        if self.n < 0:
            raise StopIteration
        LOG.append(self.n)
        return self.n


def test_iterators_in_python_under_c_code():
    check(lambda x, it: (x + 1, list(zip(it, "abc")), list(it)), make=lambda: ((x3(), Counting(5)), {}))


class Ordered:
    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        LOG.append((self.value, other.value))
        return self.value < other.value


def test_ordering_by_methods_in_python():
    def program(x, outside):
        items = sorted([Ordered(3), Ordered(1), outside, Ordered(2)])
        items.sort()
        return x + min(items).value, max(items).value, [item.value for item in items]

    check(program, x3(), Ordered(7))


class Slotted:
    __slots__ = ("first",)


def test_empty_slot_is_guarded():
    def program(x, owner):
        return x + getattr(owner, "first", 5), hasattr(owner, "first")

    compiled, owner = framejit.to_static(program), Slotted()
    for change in ("del", "set", "del", "set"):
        if change == "set":
            owner.first = 3
        elif hasattr(owner, "first"):
            del owner.first
        assert str(compiled(x3(), owner)) == str(program(x3(), owner))
    assert framejit.stats()["captures"] == 2


def test_message_of_an_unbound_cell():
    def program(x):
        def reads():
            return v

        messages = []
        for read in (reads, lambda: w):
            try:
                read()
            except NameError as error:
                messages.append((type(error).__name__, str(error)))
        try:
            messages.append(v)
        except UnboundLocalError as error:
            messages.append(str(error))
        if x.shape[0] > 100:
            v, w = 1, 2
        return x + 1, messages

    check(program)


def test_methods_of_object_look_into_it():
    def program(x, owner):
        return x + 1, owner.__reduce_ex__(4)[2], sorted(set(owner.__dir__()) - set(dir(object)))[-1]

    compiled = framejit.to_static(program)
    for name in ("x", "y", "x", "z"):
        owner = Plain()
        setattr(owner, name, name)
        assert str(compiled(x3(), owner)) == str(program(x3(), owner))


def test_attributes_of_function_wrappers_come_and_go():
    def program(x, owner):
        return x + hasattr(owner, "mark")

    for owner in (staticmethod(steps_of), classmethod(steps_of), steps_of, types.ModuleType("made")):
        compiled = framejit.to_static(program)
        for present in (True, False, True):
            try:
                setattr(owner, "mark", 1) if present else delattr(owner, "mark")
            except AttributeError:
                break  # before 3.10 these have no dictionary
            assert torch.equal(compiled(x3(), owner), x3() + present)


class WriteOnly:
    def __set__(self, owner, value):
        owner.__dict__["slot"] = value


class HasWriteOnly:
    slot = WriteOnly()


def test_data_descriptor_without_get():
    owner = HasWriteOnly()
    owner.slot = 5
    check(lambda x, o: (x + 1, o.slot), x3(), owner)


def test_dictionary_of_a_module_is_read_only():
    def program(x, module):
        try:
            module.__dict__ = {}
        except (AttributeError, TypeError) as error:
            return x + 1, str(error)

    check(program, x3(), types.ModuleType("made"))


class Marked(tuple):
    pass


def test_attributes_of_a_tuple_that_escapes():
    def program(x):
        made = Marked((1, 2))
        made.mark = 3
        return x + 1, made, made.mark

    compiled = framejit.to_static(program)
    with counts.counting() as counted:
        for _ in range(2):
            result, made, mark = compiled(x3())
            assert torch.equal(result, x3() + 1) and type(made) is Marked and made == (1, 2) and made.mark == mark == 3
    assert counted.graphs == 1 and counted.hits == 1 and not counted.breaks


def test_attribute_that_the_class_hides_of_a_tuple_that_escapes():
    class Hiding(tuple):
        @property
        def mark(self):
            return "shown"

        @mark.setter
        def mark(self, value):
            raise AssertionError("never set")

    def program(x):
        made = Hiding((1, 2))
        made.__dict__["mark"] = "hidden"
        return x + 1, made

    compiled = framejit.to_static(program)
    for _ in range(2):
        result, made = compiled(x3())
        assert torch.equal(result, x3() + 1) and made.mark == "shown" and made.__dict__ == {"mark": "hidden"}


def test_comparison_with_another_type_reads_no_contents():
    def program(x):
        def made():
            return 1

        table = {"tensor": x}
        framejit.graph_break()
        table["made"] = made
        return x + (table == 0) + (table != "text") + ([made] == (made,)) + (None == {1: made})  # noqa: E711

    compiled = framejit.to_static(program)
    for _ in range(3):
        with counts.counting() as counted:
            assert torch.equal(compiled(x3()), x3() + 1)
    assert not counted.captures


def gathered(*args, **kwargs):
    return args, kwargs


def broken_off(*values):
    framejit.graph_break()
    return values


@pytest.mark.parametrize(
    "call",
    [
        lambda x: gathered(1, *broken_off(x, 2)),
        lambda x: gathered(1, x, *broken_off(3, 4), 5),
        lambda x: gathered(*[1, x], *broken_off(3)),
        lambda x: gathered(1, *(), **dict(zip("ab", broken_off(x, 2)))),
        lambda x: gathered(*broken_off(1), *broken_off(x), **{"a": broken_off(2)}),
        lambda x: [1, x, *broken_off(3), *broken_off(4)],
        lambda x: (1, x, *broken_off(3), 4),
        lambda x: {"a": 1, **{"b": broken_off(x)}},
        lambda x: [1, *map(str, broken_off(2, 3)), x],
    ],
)
def test_break_while_arguments_are_gathered(call):
    check(lambda x: (x + 1, call(x)), x3())


def test_address_of_an_object():
    def of_argument(x, obj):
        return x + 1, id(obj), {id(obj): 1}, hash((1, 2.5, "text"))

    compiled = framejit.to_static(of_argument)
    for make in (list, dict, object, x3, lambda: lambda: 1, lambda: 12345 + len([]), lambda: 1.5 * len([0])):
        for _ in range(2):
            obj = make()
            assert compiled(x3(), obj)[1:] == (id(obj), {id(obj): 1}, hash((1, 2.5, "text")))


@pytest.mark.runs_once("the addresses of what a call makes are others in each run")
def test_address_of_what_a_call_makes():
    def of_what_it_makes(x):
        made, total = [x], x + 1
        return made, id(made), total, id(total), {id(made): 3}

    compiled = framejit.to_static(of_what_it_makes)
    for _ in range(2):
        made, made_id, total, total_id, by_id = compiled(x3())
        assert (made_id, total_id) == (id(made), id(total)) and by_id == {id(made): 3}


def test_hash_by_address():
    class Plain:
        pass

    class Numbered:
        def __init__(self, number):
            self.number = number

        def __hash__(self):
            return self.number

    compiled = framejit.to_static(lambda x, obj: (x + 1, hash(obj)))
    numbered = [Numbered(number) for number in (5, -1, True, 2**62 + 5, -(2**63), 2**63 - 1, 2**63, 2**70 + 5)]
    for obj in (Plain(), Plain(), *numbered, (1, "a"), (Plain(), 2), len, Plain):
        assert compiled(x3(), obj)[1] == hash(obj)
    with pytest.raises(TypeError, match="__hash__ method should return an integer"):
        compiled(x3(), Numbered("text"))
    with pytest.raises(TypeError, match="unhashable type: 'list'"):
        compiled(x3(), [])


@pytest.mark.parametrize("make", [lambda: array.array("i", [1]), lambda: collections.deque([1]), lambda: bytearray(b"a")])
def test_in_place_operators_of_types_written_in_c(make):
    def program(x, data):
        held = data
        data += data[:1] if not isinstance(data, collections.deque) else [1]
        data *= 2
        return x + len(data), held is data

    check(program, x3(), make())


def test_tuple_that_holds_itself():
    def program(x):
        table = {}
        itself = (table,)
        table["itself"] = itself
        items = ([],)
        items[0].append(items)
        framejit.graph_break()
        copied = copy.deepcopy(items)
        return x + 1, table["itself"] is itself, items[0][0] is items, copied[0][0] is copied

    check(program, x3())


def test_operator_that_is_none():
    class Base:
        def __iadd__(self, other):
            return 5

        def __eq__(self, other):
            return True

    class Blocked(Base):
        __iadd__ = None
        __eq__ = None

    def program(x, obj):
        seen = []
        for operation in (lambda: operator.iadd(obj, 1), lambda: obj == 1):
            try:
                seen.append(operation())
            except TypeError as error:
                seen.append(str(error))
        try:
            obj += 1
        except TypeError as error:
            seen.append(str(error))
        return x + 1, seen

    check(program, x3(), Blocked())
    check(program, x3(), Base())


def test_attributes_that_c_code_reads():
    class Owner:
        @property
        def value(self):
            "what it is"
            return 1

    def program(x, obj, function):
        seen = [type(obj).value.__doc__]
        type(obj).value.__doc__ = "changed"
        seen.append(type(obj).value.__doc__)
        for name in ("__globals__", "__closure__"):
            try:
                setattr(function, name, {})
            except AttributeError as error:
                seen.append(str(error))
        type(obj).value.__doc__ = "what it is"
        return x + 1, seen

    check(program, x3(), Owner(), lambda: 1)


def test_format_with_no_text():
    class Written:
        def __format__(self, spec):
            return "anything"

    def program(x, obj):
        try:
            return x + 1, format(obj, None)
        except TypeError as error:
            return x + 1, str(error)

    check(program, x3(), Written())


class Stored:
    level = 1  # also in the instance

    def __init__(self, data):
        self.data = data

    def copied_without_data(self):
        data = self.data
        try:
            self.data = {}
            return copy.copy(self)
        finally:
            self.data = data

    def __copy__(self):
        made = self.__class__.__new__(self.__class__)
        made.__dict__.update(self.__dict__)
        return made


def test_writes_before_and_after_the_dictionary_is_read():
    def program(x, obj):
        made = obj.copied_without_data()
        obj.level += 1
        obj.extra = x
        seen = dict(vars(obj)), sorted(obj.__dict__)
        obj.level += 1
        del obj.extra
        seen += (obj.__dict__["level"], hasattr(obj, "extra"), obj.level, "extra" in vars(obj))
        obj.__dict__["level"] = 7
        obj.late = obj.level
        del obj.__dict__["level"]
        return x + 1, made, made.data, obj.data, seen, obj.level, obj.__dict__

    check(program, x3(), Stored({"a": 1}))

    def with_slots(x, obj):
        obj.slot = 1
        obj.other = 2
        seen = dict(obj.__dict__)
        obj.slot += 1
        obj.other += 1
        return x + 1, seen, obj.slot, obj.other, obj

    check(with_slots, x3(), SlottedWithRoom())


class SlottedWithRoom:
    __slots__ = ("slot", "__dict__")


def test_globals_written_before_they_are_read_as_a_dictionary():
    def program(x):
        global COUNT
        COUNT += 1
        seen = globals()["COUNT"]
        COUNT += 1
        return x + 1, seen, globals()["COUNT"], COUNT - seen

    compiled = framejit.to_static(program)
    for _ in range(2):
        before = COUNT
        assert compiled(x3())[1:] == (before + 1, before + 2, 1) and before + 2 == COUNT


COUNT = 0


class Doubling(collections.deque):
    def append(self, item):
        super().append(item * 2)

    def extendleft(self, items):
        method = super().extendleft
        framejit.graph_break()
        method(items)


def test_method_written_in_c_that_the_class_overrides():
    def program(x, items):
        items.append(1)
        items.extendleft([2, 3])
        return x + 1, list(items)

    check(program, x3(), Doubling([5]))


def test_method_of_the_super_class_bound_to_another_class():
    """Up to 3.11 the super object was made by a call, which relied on the class it got."""

    class Meta(type):
        def orders(cls):
            method = super().mro
            framejit.graph_break()
            return method()

    def program(x, cls):
        framejit.graph_break()
        return x + 1, Meta.orders(cls)

    compiled = framejit.to_static(program)
    for cls in [Meta("First", (), {}), Meta("Second", (), {})] * 2:
        assert compiled(x3(), cls)[1] == [cls, object]


def test_method_called_before_the_class_has_an_order():
    class Meta(type):
        def mro(cls):
            cls.__dict__["seen"]()
            return super().mro()

    def program(x):
        calls = []

        class Made(metaclass=Meta):
            def seen():
                calls.append(1)

        return x + 1, calls, Made.__mro__[1:], Made.__name__

    compiled = framejit.to_static(program)
    with counts.counting() as counted:
        for _ in range(2):  # the class of each call is another: each captures
            assert compiled(x3())[1:] == ([1], (object,), "Made")
    assert counted.captures


def test_message_about_a_result_that_was_changed_in_place():
    def program(x):
        y = x.sin()
        framejit.graph_break()
        z = y.cos().sum()
        with torch.no_grad():
            y.mul_(2)
        framejit.graph_break()
        z.backward()

    check(program, x3().requires_grad_(), raises=RuntimeError)

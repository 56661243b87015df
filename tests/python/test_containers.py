"""Lists, dicts, sets, tuples, deques: made inside, taken from outside, mutated, compared, iterated."""

import collections
import functools
import itertools
import sys

import pytest
import torch

import framejit
from support import counts
from support.same_as_eager import assert_same_as_eager

LIST = [1, 2, 3]
TABLE = {"a": 1, "b": 2}


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


def check(fn, *args, **options):
    return assert_same_as_eager(fn, *(args or (x3(),)), **options)


def test_displays():
    check(lambda x: ([x + 1, 1], (x, 2), {"k": x * 2, 3: None, (1, 2): "t"}, {1, 2}, [], (), {}, set(), [[x], [(x,)]]))


def test_display_unpacking():
    check(lambda x: ([*LIST, x + 1, *(1, 2)], (*LIST, *"ab"), {**TABLE, "c": x, **{"a": 9}}, {*LIST, 7}))


def test_list_methods():
    def f(x):
        items = [x, 1]
        items.append(x + 1)
        items.extend([2, 3])
        items.insert(0, "first")
        popped = items.pop(), items.pop(0)
        items.reverse()
        other = items.copy()
        other.clear()
        numbers = [3, 1, 2, 1]
        numbers.sort(reverse=True)
        numbers.remove(1)
        return items, popped, other, numbers, numbers.index(3), numbers.count(1), items * 2, [0] + numbers, len(items)

    check(f)


def test_list_items_and_slices():
    def f(x):
        items = [x * i for i in range(6)]
        items[1] = "one"
        items[2:4] = [x, x, x]
        items[-1:] = []
        del items[0]
        return items, items[-1], items[1:], items[::-1], items[::2], items[slice(1, 3)], 5 in [1, 5], "z" not in ["a"]

    check(f)


def test_dict_methods():
    def f(x):
        table = dict(a=x, b=1)
        table["c"] = x + 1
        table.update({"d": 2}, e=3)
        got = table.get("a"), table.get("z"), table.get("z", 5), table.setdefault("f", []), table.setdefault("a", 9)
        popped = table.pop("b"), table.pop("zz", None), table.popitem()
        del table["d"]
        copied = table.copy()
        copied.clear()
        views = list(table), list(table.keys()), list(table.values()), list(table.items()), len(table), "a" in table
        return table, got, popped, copied, views, dict.fromkeys("ab", 0), dict([("k", x)]), dict(zip("ab", (x, 1)))

    check(f)


def test_dict_with_varied_keys():
    def f(x):
        table = {1: "int", 1.5: x, None: 2, (1, "a"): 3, torch.float32: 4, int: 5, x.dtype: 6, frozenset([1]): 7}
        return table, table[torch.float32], table[1.0], table[(1, "a")]

    check(f, graphs=0)  # no operator


def test_tensor_as_a_key():
    def f(x):
        y = x + 1
        table = {x: "x", y: "y"}
        return table[x], table[y], x in table, {y: 1}, y

    check(f)


def test_set_methods():
    def f(x):
        a, b = {1, 2, 3}, {3, 4}
        a.add(5)
        a.discard(9)
        a.remove(1)
        b.update([6, 7])
        return x + len(a), a | b, a & b, a - b, a ^ b, a <= b, 3 in a, sorted(a), frozenset(b), a.isdisjoint(b), a.copy(), a == {2}

    check(f)


def test_set_of_tensors():
    def f(x):
        y = x + 1
        seen = {x}
        first = y in seen
        seen.add(y)
        return first, x in seen, y in seen, len(seen), y

    check(f)


def test_tuple_operations():
    def f(x):
        t = (x, 1, "a", 1)
        a, *b = t
        return t + (2,), t * 2, t[1:], t[-1], t.index("a"), t[1:].count(1), len(t), a, b, (1, 2) < (1, 3), (1, 2) == (1, 2)

    check(f, graphs=0)  # no operator


def test_sequences_of_objects_with_special_methods_are_joined_and_repeated():
    def f(x):
        layer = torch.nn.ReLU()
        listed = [layer]
        listed += [x]
        listed *= 2
        results = (layer(x),)
        results += (layer,)
        return results * 2, (layer,) + results, listed, 0 * [layer], [layer] + listed

    check(f)


def test_deque_counter_and_default_dict():
    def f(x):
        queue = collections.deque([1, 2], maxlen=3)
        queue.append(x)
        queue.append(3)
        queue.appendleft(4)
        counts = collections.Counter("abca")
        groups = collections.defaultdict(list)
        groups["k"].append(x + 1)
        ordered = collections.OrderedDict(b=1, a=2)
        ordered.move_to_end("b")
        return queue, counts.most_common(1), counts["z"], groups, ordered, queue.popleft()

    check(f, breaks=None)


def test_outside_containers_are_mutated():
    outside_list, outside_dict, outside_set, queue = [1, [2]], {"n": {"m": 1}}, {1}, collections.deque([1])

    def f(x):
        outside_list.append(x + 1)
        outside_list[1].append(x)
        outside_list[0] += 1
        outside_dict["new"] = outside_list
        outside_dict["n"]["m"] = x * 2
        del outside_dict["n"]["m"]
        outside_set.add(5)
        queue.extend([2, 3])
        queue.popleft()
        return outside_dict["new"][-1]

    check(f, breaks=None)  # a deque of the program breaks


def test_list_argument_is_cleared_and_refilled():
    def f(x, items):
        old = items[:]
        items.clear()
        items += [x, *old]
        items.sort(key=lambda v: isinstance(v, int))
        return items, old

    check(f, x3(), [3, 1, 2], graphs=0)  # no operator


def test_comparisons_of_containers():
    check(lambda x: (x + 1, [1, 2] == LIST[:2], LIST != [1], LIST < [2], TABLE == {"b": 2, "a": 1}, (1,) >= (0, 5), {1} < {1, 2}))


def test_identity_tests():
    def f(x):
        a, b = [x], [x]
        c = a
        return a is b, a is c, a[0] is b[0], x is not None, LIST is LIST, type(x) is torch.Tensor, x + 1

    check(f)


def test_list_comprehensions():
    def f(x):
        n = 2
        a = [x * i for i in range(4) if i % 2]
        b = [(i, j) for i in range(3) for j in range(i)]
        c = [[x + i * j for j in range(2)] for i in range(n)]
        d = [i if i > 1 else -i for i in LIST]
        e = [y for y in [x + 1] for _ in range(n)]
        return a, b, c, d, e, n

    check(f)


def test_dict_and_set_comprehensions():
    check(lambda x: ({k: x * v for k, v in TABLE.items() if v}, {v: k for k, v in TABLE.items()}, {i % 2 for i in LIST}))


def test_comprehension_variables_do_not_leak():
    def f(x):
        i = "kept"
        values = [i for i in range(3)]
        return i, values, [[i for i in "ab"] for _ in "c"], i, x + 1

    check(f)


def test_comprehension_in_a_class_body_and_a_lambda():
    check(lambda x: (lambda n: [x + i + n for i in range(n)])(2))


def test_zip_enumerate_map_filter_reversed():
    def f(x):
        xs = [x, x + 1, x + 2]
        return (
            [a + b for a, b in zip(xs, xs[1:])], [(i, v) for i, v in enumerate(xs, start=5)], list(map(lambda v: v * 2, xs)),
            list(map(torch.add, xs, [1, 2, 3])), list(filter(lambda n: n > 1, LIST)), list(reversed(xs)), list(zip(*[(1, 2), (3, 4)])),
            tuple(map(str, LIST)), dict(enumerate("ab")), [*zip("ab", itertools.count())], list(iter(xs)), next(iter(LIST)),
            next(iter([]), "default"),
        )  # fmt: skip

    check(f)


def test_builtin_reductions():
    def f(x):
        xs = [x, x + 1]
        numbers = [3, -1, 2]
        return (
            sum(xs), sum(xs, x), sum(numbers), min(numbers), max(numbers), max(numbers, key=lambda n: -n), min(1, 2.5), max([], default=7),
            any(numbers), all([1, 0]), sorted(numbers), sorted(numbers, key=abs, reverse=True), sorted("hello"), len(xs), abs(-3), round(2.567, 2),
            divmod(7, 2), pow(2, 5), sum([[1], [2]], []),
        )  # fmt: skip

    check(f)


def test_sorted_with_a_key_over_objects():
    def f(x):
        pairs = [("b", x), ("a", x + 1), ("c", x + 2)]
        return sorted(pairs, key=lambda pair: pair[0]), sorted(TABLE, key=TABLE.get, reverse=True), max(pairs, key=lambda p: p[0])

    check(f)


def test_itertools():
    def f(x):
        return (
            list(itertools.chain([x], [1, 2])), list(itertools.chain.from_iterable([[1], [2]])), list(itertools.product("ab", [1, 2])),
            list(itertools.combinations(LIST, 2)), list(itertools.permutations(LIST, 2)), list(itertools.islice(itertools.count(3), 4)),
            list(itertools.accumulate(LIST)), list(itertools.repeat(x, 2)), list(itertools.zip_longest("ab", "c")),
            [list(group) for _, group in itertools.groupby([1, 1, 2])], list(itertools.starmap(pow, [(2, 3)])), x + 1,
        )  # fmt: skip

    check(f, breaks=None)


def test_range_objects():
    check(lambda x: (x + 1, range(5)[2], len(range(0, 10, 3)), 4 in range(5), list(range(5, 0, -2)), range(3) == range(0, 3), range(5)[1:3]))


def test_missing_key_and_index():
    check(lambda x: (x + 1, TABLE["missing"]), raises=KeyError, graphs=None, breaks=None)
    check(lambda x: (x + 1, LIST[10]), raises=IndexError, graphs=None, breaks=None)
    check(lambda x: (x + 1, (1, 2)[3]), raises=IndexError, graphs=None, breaks=None)
    check(lambda x: (x + 1, [].pop()), raises=IndexError, graphs=None, breaks=None)


def test_unhashable_key():
    check(lambda x: (x + 1, {[]: 1}), raises=TypeError, graphs=None, breaks=None)


def test_dict_changed_while_iterated():
    def f(x):
        table = {"a": x + 1}
        for key in table:
            table[key + key] = 1
        return table

    # The iterator cannot be rebuilt once its dict has changed.
    check(f, raises=RuntimeError, graphs=None, breaks=None, fallbacks=None, miss=None)


def test_list_extended_while_iterated():
    def f(x):
        items = [1]
        for item in items:
            if len(items) < 5:
                items.append(item + 1)
        return items, x + 1

    check(f)


def test_container_holding_itself():
    def f(x):
        items = [x + 1]
        items.append(items)
        return items

    check(f)


class Link:
    to = None


def put_in(make):
    """A link within what `make` makes of it, which it leads back to."""
    link = Link()
    link.to = make(link)
    return link


HOLDERS = {
    "frozenset": lambda link: frozenset([link]),
    "frozenset in a tuple": lambda link: (link, frozenset([link, 1])),
    "tuple in a frozenset": lambda link: frozenset([(link,), 2]),
    "frozenset in a frozenset": lambda link: frozenset([frozenset([link])]),
    "key": lambda link: {frozenset([link]): link},
    "set": lambda link: {link},
    "items of a dictionary": lambda link: {link: (link,)},
    "method": lambda link: (frozenset([link]), link.__init__),
    "generator of a set": lambda link: itertools.chain([1], frozenset([link])),
    "partial": lambda link: functools.partial(len, frozenset([link])),
}


def links_of(holder):
    """Those that `holder` leads to, each once."""
    if isinstance(holder, Link):
        return [holder]
    if isinstance(holder, functools.partial):
        return links_of(holder.args)
    if isinstance(holder, dict):
        return links_of(list(holder.items()))
    return [link for part in holder for link in links_of(part)] if hasattr(holder, "__iter__") else []


@pytest.mark.parametrize("name", HOLDERS)
@pytest.mark.parametrize("first", [True, False], ids=["holder first", "link first"])
def test_holder_that_its_item_leads_back_to(name, first):
    def f(x):
        link = put_in(HOLDERS[name])
        return (x + 1, link.to, link) if first else (x + 1, link, link.to)

    compiled = framejit.to_static(f)
    for _ in range(3):
        result = compiled(torch.ones(2))
        holder, link = result[1:] if first else result[:0:-1]
        assert link.to is holder
        links = links_of(holder)
        assert links and all(each is link for each in links)
    assert framejit.stats()["captures"]


def test_same_list_returned_twice():
    def f(x):
        items = [x + 1]
        return items, {"again": items}, (items,)

    check(f)


def test_same_tensor_returned_twice():
    def f(x):
        y = x + 1
        return y, [y], {"y": y}, y

    check(f)


def test_subclasses_of_containers():
    class Stack(list):
        def push(self, value):
            self.append(value)
            return self

    class Table(dict):
        def __missing__(self, key):
            return key * 2

        def __getattr__(self, name):
            return self[name]

    outside = Stack([1])

    def f(x):
        stack, table = Stack([x]).push(2), Table(a=1)
        outside.push(x + 1)
        table["k"] = x
        return stack, table, table["zz"], table.a, len(stack), isinstance(stack, list), outside[0], [v for v in stack]

    check(f, breaks=None)


def test_user_mapping_and_ordered_output_class():
    class Output(collections.OrderedDict):
        def __getitem__(self, key):
            return list(self.values())[key] if isinstance(key, int) else super().__getitem__(key)

    def f(x):
        out = Output()
        out["first"] = x + 1
        out["second"] = x + 2
        return out[0] + out["second"], out

    check(f, breaks=None)


def test_string_and_bytes_as_sequences():
    check(lambda x: (x + 1, "abc"[1], "abc"[::-1], list("ab"), b"abc"[0], "b" in "abc", [c + "!" for c in "ab"], *"xy"))


@pytest.mark.skipif(sys.version_info < (3, 9), reason="dict | dict came with Python 3.9")
def test_dict_union():
    def f(x):
        a = {"x": x} | TABLE
        a |= {"y": x + 1}
        return a

    check(f)


@pytest.mark.skipif(sys.version_info < (3, 10), reason="zip(strict=) came with Python 3.10")
def test_strict_zip():
    check(lambda x: [x + a * b for a, b in zip([1, 2], [3, 4], strict=True)])
    check(lambda x: [x + a * b for a, b in zip([1, 2], [3], strict=True)], raises=ValueError, graphs=None, breaks=None)


def test_large_list():
    check(lambda x: (x + 1, [i * 2 for i in range(3000)], sum(range(3000))))


def test_bytearray_and_memoryview():
    def f(x):
        data = bytearray(b"abc")
        data.append(100)
        data[0] = 65
        return x + 1, data, bytes(data), memoryview(bytes(data))[1]

    check(f, breaks=None)


WORDS = ["linear", "norm", "bias", "weight", "gelu", "qkv", "proj", "head", "drop", "scale", "shift", "mask"]


def set_with_a_past(words):
    """A set whose table was larger once, and has places that were emptied."""
    grown = set(str(i) for i in range(200)) | set(words)
    for i in range(200):
        grown.discard(str(i))
    return grown


def test_set_keeps_its_order_across_a_break():
    def f(x):
        made = set(WORDS)
        made.discard("gelu")
        made.add("silu")
        before = list(made)
        y = x + 1
        framejit.graph_break()
        made.update(WORDS[::-1])
        return y * 2, before, list(made), made, frozenset(made)

    assert_same_as_eager(f, torch.ones(3), graphs=2, breaks=1, after=lambda result: [list(part) for part in result[1:]])


@pytest.mark.runs_once("a set that is put back between two runs has another table")
@pytest.mark.parametrize("change", ["s.add('new')", "s.discard('bias')", "s.add('new'); s.discard('new')", "s.clear()"])
def test_set_of_the_program_is_left_with_its_order(change):
    namespace = {}
    exec(f"def f(x, s):\n    first = list(s)\n    {change}\n    return x + 1, first, str(s)\n", namespace)
    compiled = framejit.to_static(namespace["f"])
    for make in (lambda: set(WORDS), lambda: set_with_a_past(WORDS), lambda: set_with_a_past(WORDS[:3])):
        for _ in range(2):
            mine, theirs = make(), make()
            assert list(mine) == list(theirs)
            with counts.counting() as counted:
                got = compiled(torch.ones(3), mine)
            assert got[1:] == namespace["f"](torch.ones(3), theirs)[1:]
            assert counted.graphs or counted.hits
            mine.update("abcdefgh")
            theirs.update("abcdefgh")
            assert list(mine) == list(theirs)


def test_more_dictionaries_than_the_stack_has_room_for():
    def f(x, count):
        made = [{} for _ in range(count)]
        keyed = [{(x, number)} for number in range(3)]  # whose items the replay makes before it hashes them
        x = x + 1
        framejit.graph_break()
        return x, len(made), made[0] is made[-1], made[-1], [len(each) for each in keyed]

    compiled = framejit.to_static(f)
    for _ in range(2):
        assert compiled(x3(), 200_000)[1:] == (200_000, False, {}, [1, 1, 1])

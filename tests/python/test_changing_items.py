"""Numbers in containers that are others in each call: handed on they end nothing, and all that looks at one, C code
that is handed the container too, does as eager does."""

import collections
import copy
import functools
import itertools
import json
import math
import operator

import pytest
import torch

import framejit
from support import counts

NUMBERS = [5, 300, 6, 7, 1000, 8, 9, 10, 11, 12, 13, 2, 14, 15, 16, 17, 18, 19, 20, 5, 6, 21, 3000]
NEVER_MORE = 17  # calls after which nothing is captured any more where no value is looked at


class Box:
    def put(self, value):
        self.value = value
        return self.value


def put(table, value):
    table["b"] = value


def raise_it(error):
    raise error


def give(items):
    yield from items


def item_or_error(items):
    try:
        return items[9]
    except IndexError as error:
        return items[0], str(error)


USES = [
    lambda x, n, items, pair, table: items == [n, 7],
    lambda x, n, items, pair, table: items < [6, 7],
    lambda x, n, items, pair, table: [n, 7] == items,
    lambda x, n, items, pair, table: 5 in items,
    lambda x, n, items, pair, table: items.index(n),
    lambda x, n, items, pair, table: items.count(n),
    lambda x, n, items, pair, table: items.remove(n),
    lambda x, n, items, pair, table: items.extend(items),
    lambda x, n, items, pair, table: items.sort(),
    lambda x, n, items, pair, table: items.pop(0),
    lambda x, n, items, pair, table: items[::-1],
    lambda x, n, items, pair, table: items * 2 + [1],
    lambda x, n, items, pair, table: sorted(items, key=lambda v: -v),
    lambda x, n, items, pair, table: sum(items),
    lambda x, n, items, pair, table: (max(items), min(items)),
    lambda x, n, items, pair, table: (any(items), all(items)),
    lambda x, n, items, pair, table: set(items),
    lambda x, n, items, pair, table: dict(enumerate(items)),
    lambda x, n, items, pair, table: [v + 1 for v in items],
    lambda x, n, items, pair, table: (lambda *a: a)(*items),
    lambda x, n, items, pair, table: str(items),
    lambda x, n, items, pair, table: f"{items} {items[0]}",
    lambda x, n, items, pair, table: "%s %s" % tuple(items),
    lambda x, n, items, pair, table: json.dumps(items),
    lambda x, n, items, pair, table: copy.deepcopy(items),
    lambda x, n, items, pair, table: x.view(items),
    lambda x, n, items, pair, table: torch.zeros(items[:1]),
    lambda x, n, items, pair, table: torch.tensor(items),
    lambda x, n, items, pair, table: torch.full((2,), items[0]),
    lambda x, n, items, pair, table: x + items[0],
    lambda x, n, items, pair, table: x[items[1] - items[1]],
    lambda x, n, items, pair, table: range(*items),
    lambda x, n, items, pair, table: [0] * items[0],
    lambda x, n, items, pair, table: items[0] is n,
    lambda x, n, items, pair, table: isinstance(items[0], int) and type(items[0]) is int,
    lambda x, n, items, pair, table: hash(pair),
    lambda x, n, items, pair, table: {items[0]: 1},
    lambda x, n, items, pair, table: divmod(items[0], 2),
    lambda x, n, items, pair, table: items[0] and not items[0],
    lambda x, n, items, pair, table: items[0].bit_length(),
    lambda x, n, items, pair, table: operator.itemgetter(0)(items),
    lambda x, n, items, pair, table: functools.reduce(operator.add, items),
    lambda x, n, items, pair, table: functools.reduce(lambda a, b: a + b, items),
    lambda x, n, items, pair, table: list(map(str, items)),
    lambda x, n, items, pair, table: list(filter(None, items)),
    lambda x, n, items, pair, table: list(itertools.accumulate(items)),
    lambda x, n, items, pair, table: collections.Counter(items),
    lambda x, n, items, pair, table: collections.deque(items, maxlen=1),
    lambda x, n, items, pair, table: collections.OrderedDict(enumerate(items)),
    lambda x, n, items, pair, table: math.fsum(items) + math.sqrt(items[0]),
    lambda x, n, items, pair, table: (float(items[0]), complex(items[0]), round(items[0]), abs(items[0])),
    lambda x, n, items, pair, table: bytearray(items),
    lambda x, n, items, pair, table: items.__eq__([n, 7]),
    lambda x, n, items, pair, table: next(iter(items)),
    lambda x, n, items, pair, table: list(reversed(items)),
    lambda x, n, items, pair, table: x[slice(*items[:1])],
    lambda x, n, items, pair, table: (Box().put(items[0]), Box().put(items)),
    lambda x, n, items, pair, table: setattr(items[0], "a", 1),
    lambda x, n, items, pair, table: x.clamp(max=items[0]),
    lambda x, n, items, pair, table: torch.add(x, x, alpha=items[0]),
    lambda x, n, items, pair, table: x.mul_(items[0]),
    lambda x, n, items, pair, table: x.roll(items[0]),
    lambda x, n, items, pair, table: items.__setitem__(0, items[1]),
    lambda x, n, items, pair, table: (pair == (n, 2), pair in [(n, 2)], pair.index(n), {pair: 1}),
    lambda x, n, items, pair, table: pair + (1,),
    lambda x, n, items, pair, table: table == {"a": n},
    lambda x, n, items, pair, table: (table["a"], table.get("a"), table.setdefault("a", 3)),
    lambda x, n, items, pair, table: table.popitem(),
    lambda x, n, items, pair, table: list(table.items()) + list(table.values()),
    lambda x, n, items, pair, table: n in table.values(),
    lambda x, n, items, pair, table: ("a", n) in table.items(),
    lambda x, n, items, pair, table: table.update(b=table["a"]),
    lambda x, n, items, pair, table: (lambda **w: w)(**table),
    lambda x, n, items, pair, table: "{a}".format(**table) + "%(a)s" % table,
    lambda x, n, items, pair, table: {v: k for k, v in table.items()},
    lambda x, n, items, pair, table: raise_it(ValueError(items)),
    lambda x, n, items, pair, table: raise_it(items[0]),
    lambda x, n, items, pair, table: item_or_error(items),
    lambda x, n, items, pair, table: list(give(items)),
]


def given(n):
    n = int(str(n))
    return torch.tensor([0.5, 1, -2, 3]), n, [n, 7], (n, 2), {"a": n}


@pytest.mark.parametrize("use", USES, ids=range(len(USES)))
def test_uses_do_as_eager_does(use):
    def f(x, n, items, pair, table):
        h = x + 1
        items.append(pair and table and 9)
        items.pop()
        try:
            found = use(x, n, items, pair, table)
        except Exception as error:
            found = type(error), str(error)
        return h * 2, found, items, table

    compiled = framejit.to_static(f)
    for n in NUMBERS:
        expected, got = given(n), given(n)
        assert repr(compiled(*got)) == repr(f(*expected)), n
        assert repr(got) == repr(expected), n


@pytest.mark.runs_once("a shadowed call is made twice, and counts how often what it holds is captured")
@pytest.mark.parametrize(
    "hand_on",
    [
        lambda items, pair, table: items.pop(),
        lambda items, pair, table: items.reverse(),
        lambda items, pair, table: items.insert(0, pair),
        lambda items, pair, table: items.__setitem__(0, 1),
        lambda items, pair, table: put(table, items[0]),
        lambda items, pair, table: [pair, items[0], table["a"], items],
    ],
)
def test_what_is_only_handed_on_ends_no_graph(hand_on):
    def f(x, items, pair, table):
        h = x + 1
        held = hand_on(items, pair, table)
        return h * 2, held

    compiled = framejit.to_static(f)
    for call, n in enumerate(NUMBERS):
        with counts.counting() as counted:
            x, _, *containers = given(n)
            got = compiled(x, *containers)
        x, _, *expected = given(n)
        assert repr(got) == repr(f(x, *expected)) and repr(containers) == repr(expected)
        if call >= NEVER_MORE:
            assert not counted.captures and not counted.fallbacks and counted.hits == 1, (call, counted.as_dict())

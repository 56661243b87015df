"""Lists, dicts, sets, and the containers of collections."""

from __future__ import annotations

import collections
import types

import torch

from .registry import Group

construct = Group("Containers")


@construct("list methods")
def list_methods(x):
    values = [x, x + 1]
    values.extend([x + 2])
    values.insert(0, x.sin())
    values.reverse()
    last = values.pop()
    return values[1:], last, values.pop(0) * 2


@construct("list slices assigned and deleted")
def list_slices_assigned_and_deleted(x):
    values = list(range(6))
    values[1:3] = [10]
    del values[::2]
    return x * values[0], values


@construct("dict methods")
def dict_methods(x):
    table = {"a": x}
    table.update(b=x + 1, c=x + 2)
    table.setdefault("a", None)
    removed = table.pop("b")
    return removed * 2, table.get("none", x), list(table), table.popitem()


@construct("dicts merged by unpacking")
def dicts_merged_by_unpacking(x):
    defaults = {"scale": 1.0, "shift": 0.0}
    options = {**defaults, "scale": 3.0}
    return x * options["scale"] + options["shift"], list(options)


construct.source(
    "dicts merged by |",
    """
    def f(x):
        options = {"scale": 1.0} | {"scale": 2.0, "shift": x}
        options |= {"more": 3}
        return x * options["scale"] + options["shift"], list(options)
    """,
    since=(3, 9),
)


@construct("dict views compared and combined")
def dict_views_compared_and_combined(x):
    left, right = {"a": x, "b": x}, {"b": x, "c": x}
    common = left.keys() & right.keys()
    return x * len(common), sorted(left.keys() | right.keys()), "a" in left.keys()


@construct("tensors as dict keys")
def tensors_as_dict_keys(x, y):
    names = {x: "x", y: "y"}
    return x + y, names[y], x in names


@construct("tuples and slices as dict keys")
def tuples_as_dict_keys(x):
    grid = {(i, j): x * i + j for i in range(2) for j in range(2)}
    return grid[1, 1], len(grid)


@construct("set algebra")
def set_algebra(x):
    used, known = {"a", "b"}, frozenset(["b", "c"])
    used.add("d")
    used.discard("none")
    return x * len(used | known), used & known, used - known, {"b"} <= used


@construct("tuple addition, repetition and comparison")
def tuple_addition_repetition_and_comparison(x):
    shape = (1,) * 2 + tuple(x.shape)
    return x.reshape(shape), shape > (1, 0), shape.index(3)


@construct("nested containers rebuilt")
def nested_containers_rebuilt(x):
    def rebuild(tree):
        if isinstance(tree, dict):
            return {key: rebuild(value) for key, value in tree.items()}
        if isinstance(tree, (list, tuple)):
            return type(tree)(rebuild(value) for value in tree)
        return tree * 2

    return rebuild({"a": [x, (x + 1, 3)], "b": {"c": x.sin()}})


@construct("OrderedDict with move_to_end")
def ordered_dict_with_move_to_end(x):
    table = collections.OrderedDict(a=x, b=x + 1, c=x + 2)
    table.move_to_end("a")
    table.move_to_end("c", last=False)
    name, value = table.popitem(last=False)
    return value * 2, name, list(table)


@construct("defaultdict")
def default_dict(x):
    groups = collections.defaultdict(list)
    for i, part in enumerate(x.unbind()):
        groups[i % 2].append(part * 2)
    return {key: sum(parts) for key, parts in groups.items()}, len(groups)


@construct("deque with maxlen")
def deque_with_maxlen(x):
    window = collections.deque(maxlen=2)
    means = []
    for i in range(4):
        window.append(x * i)
        means.append(sum(window) / len(window))
    return means, window.maxlen


@construct("deque at both ends")
def deque_at_both_ends(x):
    queue = collections.deque([x, x + 1])
    queue.appendleft(x - 1)
    queue.rotate(1)
    return queue.popleft() * 2, queue.pop(), list(queue)


@construct("Counter")
def counter(x):
    counts = collections.Counter("tanh")
    counts.update(["t", "t"])
    return x * counts["t"] + counts["none"], counts.most_common(1)


@construct("ChainMap")
def chain_map(x):
    options = collections.ChainMap({"scale": 2.0}, {"scale": 1.0, "shift": 3.0})
    options["extra"] = x
    return x * options["scale"] + options["shift"], options["extra"], options.maps[0]["scale"]


@construct("collections.namedtuple")
def collections_namedtuple(x):
    point = Point(x, y=x * 2)
    return point.x + point.y, point._fields, point._asdict()["y"]


Point = collections.namedtuple("Point", "x y")


@construct("SimpleNamespace")
def simple_namespace(x):
    state = types.SimpleNamespace(hidden=x, step=0)
    state.step += 1
    state.hidden = state.hidden.tanh()
    return state.hidden * state.step


@construct("MappingProxyType")
def mapping_proxy(x):
    view = types.MappingProxyType({"scale": 2.0})
    return x * view["scale"], "shift" in view


@construct("heapq and bisect")
def heapq_and_bisect(x):
    import bisect
    import heapq

    heap = [5, 1, 4]
    heapq.heapify(heap)
    heapq.heappush(heap, 0)
    return x * heapq.heappop(heap) + heapq.heappop(heap), bisect.bisect([1, 3, 5], 4)


@construct("torch.Size taken apart")
def torch_size_taken_apart(x):
    matrix = x.expand(2, 3)
    rows, columns = matrix.shape
    return matrix.reshape(rows * columns), matrix.size(-1), torch.Size([rows]) + matrix.shape[1:]

"""for and while, and what can be iterated."""

from __future__ import annotations

import torch

from .registry import Group

construct = Group("Loops")


@construct("for over a range with a step")
def for_over_a_range_with_a_step(x):
    for i in range(9, 0, -3):
        x = x + i
    return x, i


@construct("for with else")
def for_with_else(x):
    for i in range(3):
        x = x * 2
    else:
        x = x + 100
    return x


@construct("for left by break, else not run")
def for_left_by_break_else_not_run(x):
    for i in range(10):
        x = x + i
        if i == 3:
            break
    else:
        x = x * 0
    return x


@construct("while with else")
def while_with_else(x):
    n = 0
    while n < 3:
        n += 1
        if n == 2:
            continue
        x = x.sin()
    else:
        x = x + n
    return x


@construct("nested loops with continue and break")
def nested_loops_with_continue_and_break(x):
    for i in range(4):
        if i == 1:
            continue
        for j in range(4):
            if j == i:
                break
            x = x + i * j
    return x


@construct("while True with return inside")
def while_true_with_return_inside(x):
    n = 0
    while True:
        x = torch.tanh(x)
        n += 1
        if n == 4:
            return x * n


@construct("enumerate, reversed and zip")
def enumerate_reversed_and_zip(x, y):
    out = []
    for i, (a, b) in enumerate(zip(reversed([x, y]), (y, x, x)), start=1):
        out.append(a * i - b)
    return out


@construct("for over dict items")
def for_over_dict_items(x):
    weights = {"a": 1.0, "b": 2.0}
    out = x
    for name, weight in weights.items():
        out = out * weight + len(name)
    return out


@construct("for over the rows of a tensor")
def for_over_the_rows_of_a_tensor(x):
    out = torch.zeros(())
    for value in x:
        out = out * 0.5 + value
    return out


@construct("for over a string")
def for_over_a_string(x):
    operations = {"s": torch.sin, "c": torch.cos, "t": torch.tanh}
    for letter in "sct":
        x = operations[letter](x)
    return x


@construct("iter with a sentinel")
def iter_with_a_sentinel(x):
    remaining = [0, 3, 2, 1]
    return [x * n for n in iter(remaining.pop, 0)]


@construct("user class with __next__")
def user_class_with_next(x):
    class Countdown:
        def __init__(self, start):
            self.n = start

        def __iter__(self):
            return self

        def __next__(self):
            if self.n == 0:
                raise StopIteration
            self.n -= 1
            return self.n

    return [x + n for n in Countdown(3)]


@construct("old sequence protocol: __getitem__ alone")
def old_sequence_protocol(x):
    class Batches:
        def __getitem__(self, index):
            if index >= 2:
                raise IndexError(index)
            return x * (index + 1)

    return [batch + 1 for batch in Batches()]


@construct("loop variable after the loop")
def loop_variable_after_the_loop(x):
    for part in (x, x + 1, x + 2):
        last = part
    return part * last


@construct("for over nn.ModuleList", args=lambda: (torch.tensor([[0.5, -1.5, 2.0]]), LAYERS))
def for_over_module_list(x, layers):
    for layer in layers:
        x = torch.relu(layer(x))
    return x


torch.manual_seed(0)
LAYERS = torch.nn.ModuleList([torch.nn.Linear(3, 3), torch.nn.Linear(3, 2)])


@construct("for over slices of a sequence")
def for_over_slices_of_a_sequence(x):
    windows = []
    for start in range(0, x.shape[0] - 1):
        windows.append(x[start : start + 2].mean())
    return torch.stack(windows)


@construct("recurrence unrolled over time")
def recurrence_unrolled_over_time(x, y):
    hidden = torch.zeros(3)
    outputs = []
    for step in (x, y, x * y):
        hidden = torch.tanh(hidden * 0.9 + step)
        outputs.append(hidden)
    return torch.stack(outputs), hidden


@construct("for over a dict while its values change")
def for_over_a_dict_while_its_values_change(x):
    table = {"a": x, "b": x + 1}
    for key in table:
        table[key] = table[key] * 2
    return table


@construct("list that grows while iterated")
def list_that_grows_while_iterated(x):
    queue = [3]
    out = x
    for n in queue:
        out = out + n
        if n > 1:
            queue.append(n - 1)
    return out, queue


@construct("dict that grows while iterated raises")
def dict_that_grows_while_iterated_raises(x):
    table = {"a": 1}
    try:
        for key in table:
            table[key + "x"] = x
    except RuntimeError as error:
        return x + 1, str(error), sorted(table)


@construct("in-place operator in a loop")
def in_place_operator_in_a_loop(x):
    out = torch.zeros(3)
    for i in range(3):
        out += x * i
        out[i] = i
    return out

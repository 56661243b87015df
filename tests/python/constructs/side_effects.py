"""What a call leaves behind in objects that others can see, and in which order."""

from __future__ import annotations

import collections

import torch

from .registry import Group

construct = Group("Side effects")

HISTORY = []
TABLE = {"calls": 0}
SEEN = set()
RECENT = collections.deque([1, 2], maxlen=3)


class State:
    shared = []
    total = 0

    def __init__(self):
        self.steps = 0
        self.last = None


STATE = State()
VALUES = [0.5, -1.5, 2.0]


def with_list():
    return torch.tensor(VALUES), [torch.tensor([1.0, 1.0, 1.0])]


@construct("append to a global list")
def append_to_a_global_list(x):
    y = x.sin()
    HISTORY.append(y)
    return y.cos()


@construct("write to a global dict")
def write_to_a_global_dict(x):
    TABLE["calls"] += 1
    TABLE["last"] = x * TABLE["calls"]
    return x + 1


@construct("add to a global set")
def add_to_a_global_set(x):
    SEEN.add(tuple(x.shape))
    return x * len(SEEN)


@construct("append to a global deque")
def append_to_a_global_deque(x):
    RECENT.append(3)
    RECENT.append(4)
    return x * RECENT[0]


@construct("attribute of a global instance")
def attribute_of_a_global_instance(x):
    STATE.steps += 1
    STATE.last = x.detach() * STATE.steps
    return STATE.last + 1


@construct("attribute of a class")
def attribute_of_a_class(x):
    State.total += x.shape[0]
    return x + State.total


@construct("list that is an attribute of a class")
def list_that_is_an_attribute_of_a_class(x):
    State.shared.append(x.shape[0])
    return x * len(State.shared)


@construct("attribute made and deleted")
def attribute_made_and_deleted(x):
    STATE.scratch = x * 2
    y = STATE.scratch + 1
    del STATE.scratch
    return y, hasattr(STATE, "scratch")


@construct("argument list changed", args=with_list)
def argument_list_changed(x, values):
    values.append(x + 1)
    values[0] = values[0] * 2
    return values[0].sum()


@construct("argument dict changed", args=lambda: (torch.tensor(VALUES), {"a": 1, "b": 2}))
def argument_dict_changed(x, table):
    table["c"] = x
    del table["a"]
    table["b"] += 1
    return x * table["b"]


@construct("same list passed twice", args=lambda: (torch.tensor(VALUES), SHARED, SHARED))
def same_list_passed_twice(x, left, right):
    left.append(2)
    right.append(3)
    return x * len(left), left is right


SHARED = [1]


@construct("container changed while iterated", args=lambda: (torch.tensor(VALUES), [1, 2, 3, 4]))
def container_changed_while_iterated(x, numbers):
    for n in numbers:
        x = x + n
        numbers.remove(n)
    return x


@construct("list that contains itself")
def list_that_contains_itself(x):
    values = [x]
    values.append(values)
    return values[1][1][0] + 1, values[1] is values


@construct("new object stored in an old one")
def new_object_stored_in_an_old_one(x):
    node = State()
    node.last = x.sin()
    STATE.child = node
    return node.last + 1


@construct("cycle between two new objects")
def cycle_between_two_new_objects(x):
    parent, child = State(), State()
    parent.child, child.parent = child, parent
    child.last = x * 2
    return parent.child.last + 1, child.parent is parent


@construct("in-place operator on an argument")
def in_place_operator_on_an_argument(x):
    x.mul_(2).add_(1)
    return x.sum()


@construct("in-place operator on a view of an argument")
def in_place_operator_on_a_view_of_an_argument(x):
    x[1:].zero_()
    return x + 1


@construct("item assignment on an argument")
def item_assignment_on_an_argument(x):
    x[0] = 7.0
    x[1:] += 1
    return x * 2


@construct("swap of two elements", args=lambda: (torch.tensor(VALUES), [torch.zeros(3), torch.ones(3)]))
def swap_of_two_elements(x, pair):
    pair[0], pair[1] = pair[1], pair[0]
    return x + pair[0]


@construct("mutation before an exception leaves the call", raises=ValueError)
def mutation_before_an_exception_leaves_the_call(x):
    HISTORY.append(x.sin())
    STATE.steps = 5
    x.add_(1)
    raise ValueError(len(HISTORY))


@construct("mutation undone in a handler")
def mutation_undone_in_a_handler(x):
    HISTORY.append("tentative")
    try:
        raise KeyError("undo")
    except KeyError:
        HISTORY.pop()
    return x + len(HISTORY)


@construct("effects in the order of the program")
def effects_in_the_order_of_the_program(x):
    HISTORY.append("first")
    STATE.steps = len(HISTORY)
    HISTORY.append(STATE.steps)
    TABLE["calls"] = HISTORY[-1]
    return x * TABLE["calls"]


@construct("requires_grad_ and backward", make=lambda: (torch.tensor(VALUES, requires_grad=True),))
def backward_in_the_call(x):
    loss = (x * x).sum()
    loss.backward()
    return x.grad * 2


@construct("torch.autograd.grad", make=lambda: (torch.tensor(VALUES, requires_grad=True),))
def autograd_grad(x):
    loss = x.sin().sum()
    (slope,) = torch.autograd.grad(loss, x)
    return slope + 1


@construct("detach_ and requires_grad_", make=lambda: (torch.tensor(VALUES),))
def requires_grad_in_the_call(x):
    x.requires_grad_()
    return x * 2

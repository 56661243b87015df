"""What a construct is, how it is registered, and how it is run beside eager.

A construct is one short function that uses one thing of the language or of the standard library on tensors:

    construct = Group("Scopes")

    @construct("nonlocal counter")
    def nonlocal_counter(x): ...

    construct.source("match on a literal", '''def f(x): ...''', since=(3, 10))

The function gets one tensor for each of its positional parameters that has no default.
"""

from __future__ import annotations

import contextlib
import sys

import torch

import framejit
from support import counts
from support.same_as_eager import Case, assert_same_as_eager, fresh_copies
from support.source import define_function

ALL = []  # in the order of the table

VALUES = ([0.5, -1.5, 2.0], [1.5, 0.25, -0.75], [-2.0, 1.0, 3.0])
CALLS = 4  # where the fourth call captures still, every call is taken to be a miss


class Construct:
    """A function with its name in the table, the oldest Python that has it, and how to call it.

    args        a function that returns the arguments; without it one tensor for each positional parameter
    make        like args, but called before every run: for arguments that cannot be put back
    raises      the exception type that leaves the function
    after       called on the result of each run, for results that must be consumed, such as generators
    both_sides  it breaks between a `sin` and a `cos`, and both are in a graph
    """

    def __init__(self, group, name, fn, since=None, args=None, make=None, **options):
        self.group, self.name, self.fn, self.since = group, name, fn, since
        self._args, self._make = args, make
        self.raises, self.after = options.pop("raises", None), options.pop("after", None)
        self.both_sides = options.pop("both_sides", False)
        if options:
            raise TypeError(f"{name}: unknown options {sorted(options)}")

    def args(self):
        if self._args:
            return self._args()
        parameters = self.fn.__code__.co_argcount - len(self.fn.__defaults__ or ())
        return tuple(torch.tensor(VALUES[i]) for i in range(parameters))

    def make(self):
        """None, or the function that makes (args, kwargs) anew for every run."""
        return (lambda: (self._make(), {})) if self._make else None

    def case(self, compiled):
        args = () if self._make else self.args()
        return Case(self.fn, compiled, args, {}, self.make(), self.raises, self.after, seed=0)


class Group:
    """The constructs of one heading of the table; calling it makes the decorator that registers one."""

    def __init__(self, title):
        self.title = title

    def __call__(self, name, **options):
        def register(fn):
            self._add(name, fn, options)
            return fn

        return register

    def source(self, name, source, **options):
        """A construct as source text, with a function `f`, for syntax that the oldest Python does not have."""
        since = options.get("since")
        if since is None or sys.version_info >= since:
            self._add(name, define_function(source, torch=torch), options)

    def _add(self, name, fn, options):
        if any(construct.name == name for construct in ALL):
            raise ValueError(f"two constructs have the name {name!r}")
        since = options.get("since")
        if since is None or sys.version_info >= since:
            ALL.append(Construct(self.title, name, fn, **options))


def measure(construct):
    """framejit's account of a construct, a dict:

    right       each of six calls does what eager does: cold, warm, after a guard miss, back
    error       where it is wrong: the first line of the complaint; `complaint` has all of it
    graphs, breaks, fallbacks   of the cold call
    captures    the last of the first four calls that captured: 1 where a second call hits, 4 where every call misses
    both_sides  (for a break) whether `sin` before it and `cos` after it are both in a graph
    """
    framejit.reset()
    compiled = framejit.to_static(construct.fn)
    found = {"right": True}
    try:
        case = construct.case(compiled)
        with counts.counting() as cold, errors_into(found):
            case.run("cold")
        found.update(graphs=cold.graphs, breaks=cold.breaks, fallbacks=cold.fallbacks)
        if construct.both_sides:
            found["both_sides"] = has_both_sides(compiled)
        found["captures"] = calls_that_capture(case, found)
        with errors_into(found):
            run_with_a_miss(construct.case(compiled))
    finally:
        framejit.reset()
    return found


@contextlib.contextmanager
def errors_into(found):
    """The first exception of all such blocks makes the account wrong."""
    try:
        yield
    except Exception as error:
        if found["right"]:
            complaint = f"{type(error).__name__}: {error}"
            found.update(right=False, error=complaint.partition("\n")[0], complaint=complaint)


def calls_that_capture(case, found):
    """The number of the last of four calls that captured, the cold one included. Each is of tensors of its own."""
    last = 1
    kept = []  # so that no tensor has the address of an earlier one
    for call in range(2, CALLS + 1):
        if not case.make:
            kept.append(case.args)
            case.args, case.kwargs = fresh_copies(case.args, case.kwargs)
        with counts.counting() as counted, errors_into(found):
            case.run(f"call {call}")
        if counted.captures:
            last = call
    return last


def run_with_a_miss(case):
    with torch.no_grad():
        case.run("after a guard miss", check_raises=False)
    case.run("back to the first entry")


def has_both_sides(compiled):
    text = "\n".join(str(graph) for graph in compiled.graphs)
    return "aten.sin" in text and "aten.cos" in text


def check(construct, expected):
    """Assert that framejit and eager agree, and that the counts are `expected`: measure()'s account, or None."""
    known = expected or dict.fromkeys(("graphs", "breaks", "fallbacks", "captures"))
    settles = known["captures"] is not None and known["captures"] < CALLS
    compiled = assert_same_as_eager(
        construct.fn,
        *(() if construct.make() else construct.args()),
        make=construct.make(),
        graphs=known["graphs"],
        breaks=known["breaks"],
        fallbacks=0 if known["fallbacks"] == 0 else None,
        raises=construct.raises,
        after=construct.after,
        cold_runs=known["captures"] if settles else 1,
        warm=settles,
    )
    if expected and construct.both_sides:
        counts.check_equal("graphs on both sides", has_both_sides(compiled), expected["both_sides"])
    if not settles:
        compiled = framejit.to_static(construct.fn)
        for when in ("cold", "warm"):
            construct.case(compiled).run(when)
        run_with_a_miss(construct.case(compiled))

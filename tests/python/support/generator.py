"""Random but reproducible programs: nested statements over tensors, numbers and containers, with graph breaks.

`program(seed)` is the source of `f(x, y, n, items)`. Programs end (loops are bounded) and stay finite (every tensor
statement passes through a bounded function), so that eager and compiled runs can be compared to the bit.
"""

from __future__ import annotations

import random

PRELUDE = """
class Guarded:
    def __init__(self, suppress):
        self.suppress = suppress
    def __enter__(self):
        LOG.append("enter")
        return 2
    def __exit__(self, kind, value, traceback):
        LOG.append(("exit", kind))
        return self.suppress and kind is ValueError

class Holder:
    def __init__(self, v):
        self.v = v
        self.count = 0
    def step(self, t):
        self.count += 1
        self.v = (self.v + t).sin()
        return self.v

def helper(t, k=1, *more):
    t = t.sin() * k
    for extra in more:
        t = t + extra
    return t

def breaking_helper(t, k=1):
    t = t.cos() + k
    framejit.graph_break()
    return t.tanh()

def raising_helper(t, k):
    if k % 3 == 0:
        raise ValueError("helper", k)
    return t.exp().tanh()
"""

TENSORS = ("a", "b", "c")
NUMBERS = ("n", "m")


class Program:
    """One program under construction; each method writes one kind of statement."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = []
        self.loops = 0
        self.budget = 22

    def source(self):
        self.emit(0, "def f(x, y, n, items):")
        self.emit(1, "a, b, c, m = x, y, x * 2, 3")
        self.emit(1, "table = {'t': y, 'n': n}")
        self.emit(1, "holder = Holder(x)")
        self.block(1, 0, 6)
        self.emit(1, "return a, b, c, m, n, table, items, holder")
        return PRELUDE + "\n".join(self.lines) + "\n"

    def emit(self, depth, text):
        self.lines.append("    " * depth + text)

    def tensor(self):
        return self.random.choice(TENSORS)

    def number(self):
        return self.random.choice([*NUMBERS, "1", "2", "len(items)"])

    def expression(self):
        t, u, k = self.tensor(), self.tensor(), self.number()
        return self.random.choice(
            [
                f"({t} + {u}).sin()", f"torch.cos({t} * {k})", f"({t} - {u}).tanh()", f"helper({t}, {k})", f"helper({t}, 1, {u}, {k}).cos()",
                f"torch.where({t} > {u}, {t}, {u})", f"holder.step({t})", f"torch.stack([{t}, {u}]).mean(0)", "table['t'].sin()",
                f"sum([v for v in ({t}, {u})]).sin()", f"{t}.clone()", f"({t} if {k} > 1 else {u})", f"{t}.flip(0)", f"(lambda v: v.sigmoid())({t})",
            ]
        )  # fmt: skip

    def block(self, depth, loop, size):
        for _ in range(self.random.randint(1, size)):
            self.statement(depth, loop)

    def statement(self, depth, loop):
        self.budget -= 1
        simple = [self.assign, self.assign, self.assign, self.number_update, self.container, self.inplace, self.graph_break]
        nested = [self.branch, self.data_branch, self.for_loop, self.while_loop, self.attempt, self.context, self.inner_function]
        kinds = simple + (nested * 2 if depth < 4 and self.budget > 0 else [])
        if loop:
            kinds.append(self.leave_loop)
        self.random.choice(kinds)(depth, loop)

    def assign(self, depth, loop):
        self.emit(depth, f"{self.tensor()} = {self.expression()}")

    def number_update(self, depth, loop):
        name = self.random.choice(NUMBERS)
        self.emit(depth, self.random.choice([f"{name} += 1", f"{name} = {name} * 2 % 7", "n, m = m, n", f"{name} = len(items) + {name} % 5"]))

    def container(self, depth, loop):
        t = self.tensor()
        self.emit(
            depth,
            self.random.choice(
                [f"items.append({t})", f"table['t'] = {t}", "table[str(m)] = n", "items and items.pop()", f"items[:1] = [{t}, n]", "LOG.append(m)"]
                + [f"table.setdefault('list', []).append({t})", f"holder.other = {t}"]
            ),
        )

    def inplace(self, depth, loop):
        t = self.random.choice(["b", "c"])
        self.emit(depth, f"{t} = {t}.clone()")
        self.emit(depth, self.random.choice([f"{t}.mul_(0.5)", f"{t}[0] = 1.5", f"{t} += 1", f"{t}[1:].neg_()"]))

    def graph_break(self, depth, loop):
        t = self.tensor()
        self.emit(
            depth,
            self.random.choice(
                ["framejit.graph_break()", "print(n, m)", f"m = int({t}.sum().item()) % 5", f"{t} = breaking_helper({t}, m)"]
                + [f"{t} = {t} * len({t}.tolist())", f"{t} = ({t} * {t}.sum().item()).tanh()", f"{t} = helper({t}, zlib.crc32(b'a') % 3)"]
            ),
        )

    def branch(self, depth, loop):
        self.emit(depth, f"if {self.random.choice(['n > m', 'n % 2', 'items', 'm == 3 or n', 'not table'])}:")
        self.block(depth + 1, loop, 3)
        if self.random.random() < 0.5:
            self.emit(depth, "else:")
            self.block(depth + 1, loop, 2)

    def data_branch(self, depth, loop):
        self.emit(depth, f"if {self.tensor()}.sum() > {self.random.choice(['0', '1', 'm'])}:")
        self.block(depth + 1, loop, 2)
        if self.random.random() < 0.5:
            self.emit(depth, "else:")
            self.block(depth + 1, loop, 2)

    def for_loop(self, depth, loop):
        iterable = self.random.choice(["range(2)", "range(3)", "(1, 2)", "enumerate('ab')", "list(items)[:2]", "sorted(table)[:2]"])
        self.emit(depth, f"for item in {iterable}:")
        self.block(depth + 1, 1, 3)
        if self.random.random() < 0.3:
            self.emit(depth, "else:")
            self.block(depth + 1, loop, 2)

    def while_loop(self, depth, loop):
        self.loops += 1
        name = f"w{self.loops}"
        self.emit(depth, f"{name} = 0")
        condition = self.random.choice([f"{name} < 2", f"{name} < 3 and {self.tensor()}.sum() > -2"])
        self.emit(depth, f"while {condition}:")
        self.emit(depth + 1, f"{name} += 1")
        self.block(depth + 1, 1, 3)

    def attempt(self, depth, loop):
        self.emit(depth, "try:")
        self.block(depth + 1, loop, 2)
        t = self.tensor()
        trouble = [f"{t} = raising_helper({t}, n)", f"{t} = table['missing']", "raise ValueError(m)", f"{t} = raising_helper({t}, m)"]
        if self.random.random() < 0.7:
            self.emit(depth + 1, self.random.choice(trouble))
        handled = self.random.choice(["ValueError", "(KeyError, ValueError)", "Exception"])
        ending = self.random.random()
        if ending < 0.8:
            self.emit(depth, f"except {handled} as error:")
            self.emit(depth + 1, "LOG.append(repr(error))")
            self.block(depth + 1, loop, 2)
        if ending > 0.5:
            self.emit(depth, "finally:")
            self.block(depth + 1, 0, 2)

    def context(self, depth, loop):
        manager = self.random.choice(["torch.no_grad()", "Guarded(True)", "Guarded(False) as two, torch.no_grad()", "torch.enable_grad()"])
        self.emit(depth, f"with {manager}:")
        self.block(depth + 1, loop, 3)
        if self.random.random() < 0.3:
            self.emit(depth + 1, "if n % 2: raise ValueError('in with')")

    def inner_function(self, depth, loop):
        self.loops += 1
        name, t, u = f"inner{self.loops}", self.tensor(), self.tensor()
        self.emit(depth, f"def {name}(v, k=m):")
        self.emit(depth + 1, f"nonlocal_free = {u}")
        self.emit(depth + 1, "if k % 2:")
        self.emit(depth + 2, self.random.choice(["framejit.graph_break()", "return v.cos()", "LOG.append('inner')"]))
        self.emit(depth + 1, "return (v + nonlocal_free * k).sin()")
        self.emit(depth, f"{t} = {name}({u}) + {name}({t}, 2)")

    def leave_loop(self, depth, loop):
        self.emit(depth, f"if {self.random.choice(['n > 3', 'm == 2', self.tensor() + '.sum() > 1'])}:")
        self.emit(depth + 1, self.random.choice(["break", "continue"]))


def program(seed: int) -> str:
    return Program(seed).source()

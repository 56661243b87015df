"""Break kinds and places in which they stand, as source to be combined: every kind goes in every place.

A kind is a statement that turns `y` into another `y` and cannot be captured. A place is a function `f(x, fail)` with
a `{brk}` line, `LOG` writes on both sides of it, a `sin` before and a `cos` after, so that a test can ask for
the graphs on both sides.
"""

from __future__ import annotations

import textwrap
import zlib

import torch

import framejit

from .source import define, fill

KINDS = {
    "if": """
        if y.sum() > 0:
            y = y * 2
        else:
            y = y - 3
    """,
    "while": """
        while y.abs().sum() < 40:
            y = y * 2
    """,
    "assert": "assert y.abs().sum() > -1, 'never'",
    "print": "print('y is', y)",
    "item": "y = y + y.sum().item() % 7",
    "tolist": "y = y + y.tolist()[1]",
    "numpy": "y = y + float(y.detach().numpy().max())",
    "unknown_c_call": "y = y + zlib.crc32(b'ab') % 7",
    "graph_break": "framejit.graph_break()",
}

FAILING_ASSERT = "assert y.abs().sum() < 0, f'too big in {len(LOG)}'"
RAISE_IF_ASKED = """
if fail:
    raise ValueError('after the break', len(LOG))
"""

HELPER = """
    def helper(y, fail):
        y = y.sin()
        LOG.append('before')
        {brk}
        LOG.append('after')
        return y.cos()
"""


def with_helper(source):
    return textwrap.dedent(HELPER) + textwrap.dedent(source)


PLACES = {
    "straight_line": """
        def f(x, fail):
            y = x.sin()
            LOG.append('before')
            {brk}
            LOG.append('after')
            return y.cos(), y
    """,
    "for": """
        def f(x, fail):
            y = x.sin()
            for i in range(3):
                y = y + i
                LOG.append(i)
                {brk}
                y = y.cos()
            return y.tanh(), i
    """,
    "for_over_tensors": """
        def f(x, fail):
            out = []
            for y in (x, x + 1):
                y = y.sin()
                {brk}
                out.append(y.cos())
            else:
                LOG.append('done')
            return out
    """,
    "while": """
        def f(x, fail):
            y, i = x, 0
            while i < 3:
                y = y.sin()
                LOG.append(i)
                {brk}
                y = y.cos()
                i += 1
            return y, i
    """,
    "try": """
        def f(x, fail):
            y = x.sin()
            try:
                LOG.append('before')
                {brk}
                y = y.cos()
            except ValueError as error:
                LOG.append(error.args)
                y = y - 1
            else:
                y = y + 1
            finally:
                y = y.tanh()
            return y
    """,
    # A handler with a break in it runs eagerly: the graphs end before the `try` and begin after it.
    "except": """
        def f(x, fail):
            y = x.sin()
            try:
                LOG['no index']
            except TypeError as error:
                y = y + 1
                {brk}
                LOG.append(str(error))
            return y.cos()
    """,
    "finally": """
        def f(x, fail):
            y = x.sin()
            try:
                y = y + 1
            finally:
                LOG.append('before')
                {brk}
                y = y.cos()
            return y
    """,
    "no_grad": """
        def f(x, fail):
            y = x.sin()
            with torch.no_grad():
                inside = torch.is_grad_enabled()
                y = y + 1
                {brk}
                y = y.cos()
                LOG.append(torch.is_grad_enabled())
            return y + 1, inside, torch.is_grad_enabled()
    """,
    "user_with": """
        class Logged:
            def __enter__(self):
                LOG.append('enter')
                return 2
            def __exit__(self, kind, value, traceback):
                LOG.append(('exit', kind))
        def f(x, fail):
            y = x.sin()
            with Logged() as two:
                y = y + two
                {brk}
                y = y.cos()
            return y + 1
    """,
    "suppressing_with": """
        class Suppressed:
            def __enter__(self):
                return self
            def __exit__(self, kind, value, traceback):
                LOG.append(value and value.args)
                return kind is ValueError
        def f(x, fail):
            y = x.sin()
            with Suppressed():
                {brk}
                y = y.cos()
            return y + 1
    """,
    "callee": with_helper("""
        def f(x, fail):
            y = helper(x.exp(), fail)
            return y.tanh()
    """),
    "callee_in_for": with_helper("""
        def f(x, fail):
            y = x
            for i in range(2):
                y = helper(y + i, fail).tanh()
            return y
    """),
    "callee_in_try": with_helper("""
        def f(x, fail):
            y = x
            try:
                y = helper(y + 1, fail)
                y = y.tanh()
            except ValueError as error:
                LOG.append(error.args)
            finally:
                y = y - 1
            return y
    """),
    "callee_in_no_grad": with_helper("""
        def f(x, fail):
            with torch.no_grad():
                y = helper(x.exp(), fail)
                y = y.tanh()
            return y + 1, torch.is_grad_enabled()
    """),
    "callee_in_user_with": with_helper("""
        class Logged:
            def __enter__(self):
                LOG.append('enter')
            def __exit__(self, kind, value, traceback):
                LOG.append(('exit', kind))
        def f(x, fail):
            with Logged():
                y = helper(x.exp(), fail)
                y = y.tanh()
            return y + 1
    """),
    "two_levels": with_helper("""
        def middle(y, fail):
            y = y + 1
            y = helper(y, fail)
            LOG.append('middle')
            return y * 2
        def f(x, fail):
            y = middle(x.exp(), fail)
            return y.tanh()
    """),
    "two_levels_in_try_and_for": with_helper("""
        def middle(y, fail):
            for i in range(2):
                y = helper(y + i, fail)
            return y * 2
        def f(x, fail):
            try:
                y = middle(x.exp(), fail)
            finally:
                LOG.append('finally')
            return y.tanh()
    """),
    "method": """
        class Stepper:
            def __init__(self):
                self.steps = 0
            def step(self, y, fail):
                y = y.sin()
                self.steps += 1
                {brk}
                self.last = y.cos()
                return self.last
        stepper = Stepper()
        def f(x, fail):
            y = stepper.step(x + 1, fail)
            return y.tanh(), stepper.steps
    """,
    "closure": """
        def f(x, fail):
            count = 0
            def inner(y):
                nonlocal count
                y = y.sin()
                count += 1
                {brk}
                count += 10
                return y.cos()
            y = inner(x + 1)
            return y.tanh(), count
    """,
    "lambda_argument": with_helper("""
        def apply(function, *values):
            return function(*values)
        def f(x, fail):
            return apply(lambda y: helper(y + 1, fail) - 1, x.exp()).tanh()
    """),
    "nested_call": with_helper("""
        def f(x, fail):
            return torch.add(x.exp(), helper(x + 1, fail), alpha=2).tanh()
    """),
    "nested_display": with_helper("""
        def f(x, fail):
            return [x.exp(), {'key': (x + 1, helper(x, fail)), **{'more': 3}}, x.tanh()]
    """),
    "comprehension": with_helper("""
        def f(x, fail):
            values = [helper(x + i, fail) for i in range(2)]
            return values, values[0] + values[1]
    """),
    "generator_expression": with_helper("""
        def f(x, fail):
            y = x.exp()
            return sum(helper(y + i, fail) for i in range(2)).tanh()
    """),
    "argument_unpacking": with_helper("""
        def f(x, fail):
            y = x.exp()
            parts = {'dim': 0}
            return torch.cat(*[(y, helper(y, fail))], **parts).tanh()
    """),
}

# Places that catch the ValueError of `RAISE_IF_ASKED`.
CATCHING = {"try", "suppressing_with", "callee_in_try"}


def build(place: str, statement: str):
    """The function `f(x, fail)` of that place, with the breaking statement in it and a new global `LOG`."""
    source = fill(PLACES[place], brk=textwrap.dedent(statement) + RAISE_IF_ASKED)
    return define(source, torch=torch, framejit=framejit, zlib=zlib, LOG=[])["f"]


def example_input():
    return torch.tensor([0.3, -1.2, 2.5, 0.7])

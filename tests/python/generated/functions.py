"""Functions made in the program: closures, cells, arguments, decorators."""

from __future__ import annotations

from .rows import row

STATEMENTS = [
    row(
        "function",
        """
        def $new_fn(v, k=$k):
            $body
            return (v * k).sin()
        $T = $new_fn($call)
        """,
        weight=3,
        call=["$e", "$t, $k", "v=$t, k=2"],
    ),
    row(
        "closure called twice",
        """
        def $new_fn(v, k=1):
            $brk
            $body
            return (v + $t).cos()
        $T = $new_fn($t) + $new_fn($u, $k)
        """,
        weight=2,
    ),
    row(
        "nonlocal",
        """
        def $new_fn(v, k):
            nonlocal $T, $N
            $N += 1
            $body
            $T = ($T + v).sin()
        $new_fn($e, $k)
        $new_fn($t, 2)
        """,
        weight=2,
        where="outermost",
    ),
    row(
        "cells shared by two closures",
        """
        $new_cell = $e
        def $new_set(v, k=1):
            nonlocal $new_cell
            $body
            $new_cell = v
        def $new_get():
            return $new_cell.sin()
        $new_set($t)
        $T = $new_get()
        table['get'] = $new_get
        """,
    ),
    row(
        "global",
        """
        def $new_fn(v, k):
            global TOTAL
            TOTAL = TOTAL + k
            $body
            return v * TOTAL
        $T = $new_fn($e, $k).tanh()
        """,
    ),
    row("closures in a loop", "$new_fns = [lambda v, i=i: v * i for i in range(3)]\n$T = $new_fns[$k % 3]($t).sin()"),
    row("closures over a loop variable", "$new_fns = [lambda: i for i in range(3)]\nLOG.append([fn() for fn in $new_fns])"),
    row(
        "function made and kept",
        """
        def $new_fn(v, k=$k, *, scale=$t):
            $body
            return v * scale
        table['fn'] = $new_fn
        $new_fn.calls = $j
        """,
    ),
    row(
        "decorator",
        """
        @scaled($k)
        def $new_fn(v, k=2):
            $body
            return v.sin() + k
        $T = $new_fn($e).tanh()
        """,
    ),
    row(
        "recursion",
        """
        def $new_fn(v, k, depth):
            if depth <= 0:
                return v
            $brk
            return $new_fn(v.sin(), k, depth - 1) + 1
        $T = $new_fn($e, $k, $j % 4)
        """,
    ),
    row(
        "star-arguments",
        """
        def $new_fn(*args, **kwargs):
            return helper(*args, **kwargs)
        $T = $new_fn($call).sin()
        """,
        call=["$e", "$t, k=$k", "*[$t, $k, $u]", "**{'t': $t, 'k': 2}", "*($t,), 1, *[$u, 2]"],
    ),
    row("positional-only and keyword-only", "$T = sift($call)", weight=2,
        call=["$e", "$t, $k, 1, 2", "$t, flag=True", "$t, t=1, other=$k", "$t, *items[:1], flag=$k > 2", "$t, **{'p': 1, 'flag': 1}"]),  # fmt: skip
    row(
        "wrong arguments caught",
        """
        try:
            $T = sift($call)
        except TypeError as error:
            LOG.append(str(error))
        """,
        call=["", "t=$t", "$t, 1, k=2", "*[]"],
    ),
    row(
        "mutable default",
        """
        def $new_fn(v, k=1, kept=[]):
            kept.append(k)
            $body
            return v + len(kept)
        $T = ($new_fn($t) + $new_fn($u, 2)).sin()
        """,
    ),
    row("function passed as an argument", "$T = list(map($fn, [$t, $u]))[$k % 2]", fn=["torch.sin", "helper", "breaking_helper", "lambda p: p.cos()"]),
    row("variables of a callee", "$T = (lambda p: [locals() and p.sin(), p.cos()])($e)[0]"),
]

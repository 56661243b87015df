"""Generators, and how they are consumed."""

from __future__ import annotations

from .rows import row

STATEMENTS = [
    row("yield", "yield $e", weight=10, where="generator"),
    row("yield that receives", "$new_got = yield $t\nif $new_got is not None: $T = $new_got.sin()", weight=5, where="generator"),
    row("yield from in a generator", "$N = (yield from steps_of($e, 2))", weight=6, where="generator"),
    row(
        "generator in a for loop",
        """
        def $new_gen(v, k):
            $steps
            yield v.cos()
        for $new_item in $new_gen($e, $k):
            $T = ($T + $new_item).sin()
            $brk
        """,
        weight=3,
    ),
    row(
        "generator consumed by next",
        """
        def $new_gen(v, k):
            yield v
            $steps
            return k
        $new_it = $new_gen($e, $k)
        $T = next($new_it)
        $brk
        $T = next($new_it, $t)
        """,
        weight=2,
    ),
    row(
        "generator closed and dropped",
        """
        def $new_gen(v, k=1):
            try:
                $steps
                yield v.sin()
            finally:
                LOG.append('closed')
        for $new_item in $new_gen($t):
            $T = $new_item.cos()
            break
        """,
    ),
    row(
        "send",
        """
        $new_it = steps_of($e, 3)
        next($new_it)
        $brk
        $T = $new_it.send($t).sin()
        LOG.append(len(list($new_it)))
        """,
    ),
    row(
        "throw",
        """
        def $new_gen(v, k=1):
            try:
                yield v
            except ValueError as error:
                $brk
                yield v * len(error.args)
        $new_it = $new_gen($e)
        next($new_it)
        $T = $new_it.throw(ValueError($k, 'x'))
        $end
        """,
        end=["$new_it.close()", "LOG.append(list($new_it))", "LOG.append(next($new_it, 'end'))"],
    ),
    row(
        "StopIteration by hand",
        """
        $new_it = steps_of($t, $k % 3)
        try:
            while True:
                $T = ($T + next($new_it)).sin()
                $brk
        except StopIteration as stop:
            LOG.append(stop.value)
        """,
    ),
    row(
        "yield from",
        """
        def $new_gen(v, k):
            count = yield from steps_of(v, k % 4)
            $brk
            yield v * count
        $T = sum($new_gen($e, $k), $t).tanh()
        """,
    ),
    row("generator that breaks", "$T = $how", how=["sum(breaking_steps($e, 3), $t).sin()", "list(breaking_steps($e, 2))[-1]", "next(breaking_steps($t, 2)).cos()"]),
    row(
        "loop over a generator that breaks",
        """
        for $new_item in breaking_steps($e, 3):
            $T = ($T + $new_item).sin()
            $loop
        """,
    ),
    row("generator expression", "$T = sum(($each for p in $over), $t).sin()", weight=2, each=["p * $t", "helper($t, p)", "breaking_helper($u, p)"], over=["range(3)", "(1, $k)"]),
    row(
        "generator expression consumed lazily",
        """
        $new_it = (LOG.append(p) or $t * p for p in range(4))
        $T = next($new_it) + next($new_it)
        $brk
        LOG.append(len(list($new_it)))
        """,
    ),
    row("any and all", "LOG.append(($fn(p > $k for p in range(4)), $fn($d for p in (1, 2))))", fn=["any", "all"]),
    row("pipeline of generators", "$T = sum((q.cos() for q in (p.sin() for p in steps_of($t, 3)) if $test), $u).tanh()", test=["q is not None", "$d"]),
    row("generator and islice", "$T = torch.stack(list(itertools.islice(steps_of($e, 9), $k % 3 + 1))).mean(0)"),
    row("generator given back", "table['gen'] = list(steps_of($t, 2))"),
    row(
        "generator that raises",
        """
        def $new_gen(v, k):
            yield v
            $steps
            raise Signal(k)
        try:
            for $new_item in $new_gen($t, $k):
                $T = ($T + $new_item).sin()
        except Signal as error:
            $brk
            LOG.append(error.args)
        """,
    ),
]

"""Assignments, branches, loops, comprehensions and match."""

from __future__ import annotations

from .rows import row

STATEMENTS = [
    row("assignment", "$T = $e", weight=8),
    row("assignment of a number", "$N = $value", weight=2, value=["$k * 2 % 7", "len(items) + $k % 5", "($k, $j)[-1]", "max($k, $j)"]),
    row("augmented assignment of a number", "$N $op 1", op=["+=", "-=", "|="]),
    row("unpacking", "$new_p, *$new_q = $e, $k, $t\n$T = $new_p + len($new_q)"),
    row("assert", "assert $holds, 'never'", holds=["$k > -99", "$t.numel() > 1", "len(items) < 99"]),
    row("del of a local", "$new_x = $e\n$T = $new_x.sin()\ndel $new_x"),
    row("deleted local read", "$new_x = $k\ndel $new_x\ntry:\n    LOG.append($new_x)\nexcept UnboundLocalError as error:\n    LOG.append(str(error))"),
    row("locals()", "LOG.append(sorted(locals())[:6])"),
    row("global dict", "STATE['calls'] += 1\nSTATE['last'] = $t"),
    row("comparison chained", "$N = int(0 < $k <= $j < 5) + 1"),
    row(
        "if",
        """
        if $c:
            $block
        """,
        weight=2,
    ),
    row(
        "if, elif, else",
        """
        if $c:
            $block
        elif $c2:
            $block
        else:
            $block
        """,
    ),
    row(
        "if with blocks on data",
        """
        if $d:
            $block
        else:
            $block
        """,
        weight=2,
    ),
    row(
        "for",
        """
        for $new_i in $over:
            $loop
            $brk
        """,
        weight=3,
        over=["range(3)", "(1, 2)", "'ab'", "list(items)[:2]", "sorted(table)[:2]", "[$t, $u]", "range(5, 0, -2)"],
    ),
    row(
        "for that uses its variable",
        """
        for $new_i, $new_v in $pairs:
            $T = ($T + $new_v * $new_i).sin()
            $loop
        """,
        pairs=["enumerate([$t, $u])", "zip((1, 2, 3), ($t, $u))", "enumerate($t.unbind(), 1)"],
    ),
    row(
        "for with else",
        """
        for $new_i in range(3):
            $loop
            if $c:
                break
        else:
            $block
        """,
    ),
    row(
        "while",
        """
        $new_w = 0
        while $new_w < $end:
            $new_w += 1
            $loop
            $brk
        """,
        weight=2,
        end=["2", "3 and $d", "min(len(items), 3)"],
    ),
    row(
        "while with else",
        """
        $new_w = 3
        while $new_w:
            $new_w -= 1
            if $c:
                continue
            $loop
        else:
            $block
        """,
    ),
    row("break and continue", "if $test: $leave", weight=4, where="loop", test=["$c", "$d"], leave=["break", "continue"]),
    row("early return", "if $test: return $e", where="function", test=["$k > 3", "$c and not items", "$d"]),
    row("list comprehension", "$T = sum([$each for new in $over if $test], $t).sin()", each=["new * $t", "$u + new", "helper($t, new)", "breaking_helper($t, new)"],
        over=["range(3)", "(1, 2, $k)"], test=["new", "new != $k", "$d"]),  # fmt: skip
    row("nested comprehension", "LOG.append([[p + q for q in range(p)] for p in range($k % 4)])"),
    row("dict comprehension", "$new_d = {key: $t * i for i, key in enumerate('ab')}\n$T = ($new_d['a'] + $new_d['b']).cos()"),
    row("set comprehension", "LOG.append(sorted({p % 3 for p in range($k % 5 + 2)}))"),
    row("comprehension over tensors", "$T = torch.stack([$each for p in $t.unbind()]).$end", each=["p.sin()", "p * $k", "p if p > 0 else -p"],
        end=["tanh()", "clone()"]),  # fmt: skip
    row("walrus in a comprehension", "LOG.append([last := p for p in range($k % 3 + 1)])\n$N = last + 1"),
    row(
        "match on values",
        """
        match $subject:
            case 0 | 1:
                $block
            case int(new) if new > 2:
                $N = new - 1
            case [first, *_]:
                LOG.append(len(first) if isinstance(first, str) else first)
                $block
            case {"n": found, **others}:
                LOG.append((found, sorted(others)))
            case _:
                $block
        """,
        weight=2,
        since=(3, 10),
        subject=["$k", "[$k, 2]", "table", "'text'", "($k, $t)[:1]"],
    ),
    row(
        "match on classes",
        """
        match $subject:
            case Point(x=$new_x, y=2):
                $T = $new_x.sin()
            case Point(x=$new_x):
                $T = $new_x.cos()
            case torch.Tensor() if $d:
                $block
            case Color.RED:
                $T = $e
        """,
        since=(3, 10),
        subject=["Point($t, $k)", "$t", "Color.RED"],
    ),
]

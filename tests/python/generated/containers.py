"""Containers and tensors written to, views, and which object is which."""

from __future__ import annotations

from .rows import row

STATEMENTS = [
    row("list method", "$what", weight=2, what=["items.append($t)", "items and items.pop()", "items.insert(0, $k)", "items.extend([$t, $k])", "items.reverse()"]),
    row("slice assigned", "items[$at] = $values", at=[":1", "1:2", "5:"], values=["[$t, $k]", "[]", "($k, $t, $u)"]),
    row("slice deleted", "del items[$at]", at=[":1", "2:", "::2"]),
    row("dict item", "table[$key] = $value", weight=2, key=["'t'", "'t'", "'u'"], value=["$t", "$e"]),
    row("dict method", "$what", what=["table.setdefault('list', []).append($t)", "table.update(n=$k, z=$t)", "table.pop(str($k), None)", "table[str($k)] = $j"]),
    row("dicts merged", "$new_d = {**table, 'n': $k}\nLOG.append((list($new_d), $new_d['n']))"),
    row("dict views", "LOG.append([key for key, value in table.items() if value is $t])"),
    row("list rebuilt", "$new_l = items + [$t] * 2\nLOG.append(len($new_l))\n$T = $new_l[-1].sin()"),
    row("set of numbers", "$new_s = {$k, $j, 9}\n$new_s.add(len($new_s))\nLOG.append(sorted($new_s))"),
    row("set of tensors", "$new_s = {$t, $u, $t2}\n$N = len($new_s)"),
    row("in-place on a tensor", "$T = $T.clone()\n$T.$op", weight=4, op=["mul_(0.5)", "add_($t)", "neg_()", "copy_($t)", "clamp_(-1, 1)", "zero_()"]),
    row("augmented assignment of a tensor", "$T = $T.clone()\n$T $op $by", op=["+=", "*=", "-="], by=["0.5", "$t", "$k"]),
    row("item of a tensor assigned", "$T = $e.clone()\n$T[$at] = $value", weight=2, at=["0", "1:", "-1", "$T > 0", "..."], value=["1.5", "$k", "$t.mean()"]),
    row("view written", "$T = $e.clone()\n$new_v = $T$view\n$new_v$op", weight=3, view=["[1:]", ".view(-1, 1)", ".unsqueeze(0)", "[::2]", ".t()"], op=[".mul_(2)", ".fill_($k)", " += 1", "[0] = 3"]),
    row("argument written", "if not x.requires_grad: $x$op", x=["y", "x"], op=[".mul_(0.5)", ".add_(1)", "[0] = $k"]),
    row("alias written", "$new_a = $t.detach()\n$T = $e\n$new_a.mul_(0.75)\n$T = ($T + $new_a).tanh()"),
    row("attribute", "holder.$name = $value", name=["other", "v", "v"], value=["$t", "$e"]),
    row("attribute deleted", "holder.extra = $t\n$T = holder.extra.sin()\ndel holder.extra"),
    row("augmented assignment of an attribute", "holder.count += $k\nholder.v = holder.v + $t"),
    row("same object twice", "$new_l = [$t]\ntable['twice'] = [$new_l, $new_l]\n$new_l.append($k)", weight=2),
    row("identity", "LOG.append(($t is $u, items is table.get('l'), $t is not None))"),
    row("container in itself", "$new_l = [$k]\n$new_l.append($new_l)\ntable['self'] = $new_l"),
    row("list in a list", "items.append([$t, items[:1]])"),
    row("append to a global list", "LOG.append($what)", weight=2, what=["$k", "$t", "($k, 'x')", "[$k]"]),
    row(
        "list changed while iterated",
        """
        $new_l = [1, 2]
        for $new_i in $new_l:
            if len($new_l) < 5:
                $new_l.append($new_i + $k)
            $loop
        LOG.append($new_l)
        """,
    ),
    row(
        "argument changed while iterated",
        """
        for $new_i in items:
            if len(items) < 4:
                items.append($t)
                $brk
            elif items:
                items.pop()
            $T = ($T + len(items)).sin()
        """,
    ),
    row(
        "dict changed while iterated",
        """
        $new_d = {'p': $t, 'q': $k}
        try:
            for $new_key in $new_d:
                $new_d[$new_key + $suffix] = $u
                $brk
        except RuntimeError as error:
            LOG.append(str(error))
        """,
        suffix=["''", "'2'"],
    ),
    row("nested unpacking", "($new_p, [$new_q, *$new_r]), $new_s = ($t, [$u, 1, 2]), $e\n$T = ($new_p + $new_q + $new_s).sin()"),
    row("tuple operations", "$new_t = ($k, $j) + (1,) * 2\nLOG.append(($new_t, $new_t < (2, 1), $new_t.count(1)))"),
    row("sorted with a key", "LOG.append(sorted([3, $k, 1, $j], key=lambda p: -p))"),
    row("string methods", "LOG.append('-'.join([str($k), 'b'.upper()]).split('-'))"),
    row("string formatting", "LOG.append($what)", what=["f'{$k!r:>3}{len(items):02d}'", "'%d %s' % ($k, 'q')", "'{:.2f} {n}'.format($k, n=$j)"]),
]

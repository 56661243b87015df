"""Instances of all kinds of classes, made inside the program or given to it."""

from __future__ import annotations

from .rows import row

# Each call makes another class, which no guard on the one before lets pass: captures end where the function falls back.
MADE_IN_EACH_CALL = {"class with a method", "class with super and a closure", "hook of a weight"}  # a hook has a number of its own

STATEMENTS = [
    row("instance", "$new_h = Holder($e)\n$brk\n$T = $new_h.step($t)", weight=2),
    row("instance kept", "table['made'] = Holder($e)\nLOG.append(Holder.made)"),
    row("dataclass", "$new_p = Point($e, $k)\n$new_p.tags.append($j)\n$T = $new_p.norm()\ntable['point'] = $new_p"),
    row("dataclasses.replace", "$new_p = dataclasses.replace(Point($e, 2), y=$k)\n$T = $new_p.norm()"),
    row("dataclass compared", "LOG.append((Fixed($k) == Fixed($j), repr(Fixed($k)), hash(Fixed(1)) == hash(Fixed(1))))"),
    row("frozen dataclass", "$new_f = Fixed($k)\n$T = $new_f.apply($e)\ntry:\n    $new_f.scale = 2\nexcept dataclasses.FrozenInstanceError as error:\n    LOG.append(str(error))"),
    row("namedtuple", "$new_p = Pair($e, $k)\n$T = $new_p.left * $new_p.right\n$T = $new_p._replace(left=$t)[0].sin()\ntable['pair'] = $new_p"),
    row("Enum", "$T = Color($k % 2 + 1).paint($t).sin()\nLOG.append((Color.RED.name, [new.value for new in Color], Color['GREEN']))"),
    row("property and descriptor", "$new_g = Gauge.of($e)\n$new_g.half = $t\n$new_g.level = $k\n$T = $new_g.half + Gauge.double($u)\nLOG.append($new_g.level)"),
    row("__getattr__", "$new_z = Lazy($e)\n$T = ($new_z.width + $new_z.width).sin()\nLOG.append(sorted(vars($new_z)))"),
    row("__slots__", "$new_s = Slotted($e, $k)\n$new_s.k += 1\n$T = ($new_s.t * $new_s.k).cos()\ntable['slotted'] = $new_s"),
    row("super()", "$new_o = Derived($e, $k)\n$T = $new_o.run()\n$brk\nLOG.append((isinstance($new_o, Base), len(Base.seen)))"),
    row("class-level state", "Holder.made += $k\nBase.seen.append($j)\nLOG.append(Holder.made)"),
    row("operator overloads", "$new_v = Vector($e)\n$new_v += $t\n$T = $what", what=["(1 + $new_v).t", "($new_v + Vector($u)).t.sin()", "(sum([$new_v, $new_v])).t", "$new_v[:].sin()"]),
    row("comparison overload", "LOG.append((Vector($t) < Vector($u), Vector($t) > Vector($u)))"),
    row("__call__", "$T = Vector($e)($t, scale=$k)"),
    row("__len__ and __iter__", "$new_s = Sized($t, $u)\nif $new_s and $t in $new_s: $T = sum($new_s).sin()\n$brk\nLOG.append(len($new_s))"),
    row(
        "__bool__",
        """
        if Truthy($e):
            $block
        elif not Truthy($t):
            $block
        """,
    ),
    row(
        "class with a method",
        """
        class $new_Class:
            size = $k
            def run(self, v, k=2):
                $body
                return v * self.size
        $T = $new_Class().run($e).sin()
        """,
        weight=2,
    ),
    row(
        "class with super and a closure",
        """
        class $new_Class(Base):
            def run(self, v=$t, k=$k):
                $brk
                return super().run() + v * k
        $T = $new_Class($e).run()
        """,
    ),
    row("bound method kept", "$new_m = holder.step\n$brk\n$T = $new_m($t) + $new_m($u)"),
    row("type tests", "LOG.append((type($t) is torch.Tensor, isinstance($k, (int, str)), type(holder).__name__))"),
    row("setattr and hasattr", "setattr(holder, 'mark', $k)\nLOG.append((hasattr(holder, 'mark'), hasattr(holder, 'gone'), holder.mark))"),
    row("repr and str", "LOG.append((repr(holder), f'{holder!s}', str(Color.RED)))"),
    row("copy", "$new_c = copy.$how($what)\ntable['copy'] = $new_c", weight=2, how=["copy", "deepcopy"], what=["holder", "[$k, [$j]]", "{'k': [$k]}", "(1, [2])"]),
    row("deepcopy of tensors", "$new_c = copy.deepcopy([$t.detach(), $t.detach()])\n$new_c[0].mul_(0.5)\n$T = ($new_c[0] + $new_c[1]).sin()"),
]

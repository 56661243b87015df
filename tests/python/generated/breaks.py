"""Statements at which a graph ends, or may end."""

from __future__ import annotations

from .rows import row

STATEMENTS = [
    row("graph_break()", "framejit.graph_break()", weight=3),
    row("print", "print($what)", what=["$k, $j", "'t', $t.detach()", "f'{$k:>4}|{$t.shape}'", "items and 1, sep='-', end=';\\n'"]),
    row("item", "$N = int($t.sum().item()) % 5"),
    row("number of a tensor kept", "$new_v = $t.mean().item()\n$brk\n$T = ($e * $new_v - $new_v / 3).tanh()\n$end", end=["LOG.append($new_v)", "LOG.append([round($new_v, 3), $new_v > 0])", "table['number'] = -$new_v", "LOG.append(f'{$new_v + 1:.3f}')", "holder.v = holder.v * $new_v", "$new_v += 1; LOG.append({$new_v: int($new_v)})", "pass"]),
    row("tolist", "$T = ($T * len($t.tolist())).sin()"),
    row("numbers of tolist", "LOG.append([round(new, 3) for new in $t.tolist()][:2])"),
    row("call of a function that breaks", "$T = $call", call=["breaking_helper($t, $k)", "branching_helper($e)"]),
    row("unknown C function", "$N = zlib.crc32(b'a') % 3 + $k"),
    row("numpy of a tensor", "$N = int($t.detach().numpy().argmax())"),
    row("tensor in a format", "LOG.append(f'{$t.sum().item():.3f} {$k}')"),
    row("if on data", "if $d: $T = $e"),
]

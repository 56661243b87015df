"""A row of the grammar: the name of a construct and a template of its source.

`$name` is a hole, which the writer fills:

    $t $u       a tensor in scope              $T    a tensor variable to assign to
    $e          an expression that is a tensor $N    a number variable to assign to
    $k $j       an expression that is a number $new_x  a name that nothing else in the program has
    $c          a condition on numbers or containers; $d one on the values of a tensor

A digit after it (`$t2`) makes another hole of its kind; one name is filled once a template. A keyword argument of
`row` is a hole too, its values are templates. Holes that are a whole line stand for statements:

    $block      some statements                $brk     a graph break, or nothing
    $loop       the body of a loop             $plain   statements that do not leave what is around them
    $body       the body of a function with the parameters v, a tensor, and k, a number
    $steps      the body of such a function that is a generator
"""

from __future__ import annotations

import re
import textwrap
from typing import Dict, NamedTuple, Optional, Tuple

HOLE = re.compile(r"\$(\w+)")
BLOCKS = {"block", "brk", "loop", "plain", "body", "steps"}


class Row(NamedTuple):
    name: str
    lines: Tuple[str, ...]
    choices: Dict[str, list]
    weight: int
    since: Optional[tuple]
    where: Optional[str]

    @property
    def holes(self):
        return {hole for line in self.lines for hole in HOLE.findall(line)}

    @property
    def is_nested(self):
        return bool(self.holes & (BLOCKS - {"brk"}))

    @property
    def is_loop(self):
        return bool(self.holes & {"loop", "steps"})


def row(name, template, /, weight=1, since=None, where=None, **choices):
    """where: "loop", "function", "generator" or "outermost", the only place in which the statement may stand."""
    lines = tuple(textwrap.dedent(template).strip("\n").split("\n"))
    return Row(name, lines, choices, weight, since, where)

"""Functions made from source text, for generated programs and for syntax that the oldest Python does not have.

The text is registered with `linecache`, so that tracebacks and `inspect.getsource` work as for a file.
"""

from __future__ import annotations

import itertools
import linecache
import textwrap

PREFIX = "<framejit test source "
SOURCE_MODULE = "framejit_test_source"
_numbers = itertools.count()


def define(source: str, **names):
    """Run `source` (dedented) with `names` as globals and return those globals."""
    text = textwrap.dedent(source)
    filename = f"{PREFIX}{next(_numbers)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    namespace = {"__name__": SOURCE_MODULE, "__file__": filename, **names}
    exec(compile(text, filename, "exec", dont_inherit=True), namespace)  # not with the future imports of this file
    return namespace


def define_function(source: str, name: str = "f", **names):
    """Run `source` and return the function called `name` that it defines."""
    return define(source, **names)[name]


def fill(template: str, **parts: str) -> str:
    """Replace each line that is only `{name}` by that part, indented as the line was; other text stays."""
    lines = []
    for line in textwrap.dedent(template).splitlines():
        word = line.strip()
        if word.startswith("{") and word.endswith("}") and word[1:-1] in parts:
            indent = line[: len(line) - len(line.lstrip())]
            lines.append(textwrap.indent(textwrap.dedent(parts[word[1:-1]]).strip("\n"), indent))
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"

"""Operator schemas as LibTorch prints them."""

from __future__ import annotations

import re


class Argument:
    """One argument or result: its type without alias annotation, its name, its default as text or None."""

    def __init__(self, text: str, keyword_only: bool = False):
        text, equals, default = text.partition("=")
        self.default = default.strip() if equals else None
        kind, _, name = text.strip().rpartition(" ")
        if not kind or name.endswith((")", "]")):  # a result without a name
            kind, name = text.strip(), ""
        self.name, self.keyword_only = name, keyword_only
        self.type = re.sub(r"\([^)]*\)", "", kind)
        self.written = "!" in kind

    @property
    def is_tensor(self) -> bool:
        return self.type in ("Tensor", "Tensor?")

    @property
    def is_optional(self) -> bool:
        return self.type.endswith("?")

    @property
    def element(self) -> str:
        """The type without `?`, symbolic types as the plain ones: `SymInt[2]?` is `int[2]`."""
        return self.type.rstrip("?").replace("SymInt", "int").replace("SymFloat", "float").replace("SymBool", "bool")


def split_arguments(text: str) -> list[str]:
    """Splits at commas outside brackets."""
    parts, depth, begin = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append(text[begin:i])
            begin = i + 1
    return [p.strip() for p in [*parts, text[begin:]] if p.strip()]


class Schema:
    """`add.Tensor(Tensor self, ...) -> Tensor` in its parts; ValueError if the text is none."""

    def __init__(self, text: str):
        match = re.fullmatch(r"([\w.]+)\((.*)\) -> (.+)", text)
        if not match:
            raise ValueError(text)
        self.text = text
        self.name, arguments, returns = match.groups()
        self.base, _, self.overload = self.name.partition(".")
        self.args, keyword_only = [], False
        for part in split_arguments(arguments):
            if part == "*":
                keyword_only = True
            else:
                self.args.append(Argument(part, keyword_only))
        inner = returns[1:-1] if returns.startswith("(") else returns
        self.returns = [Argument(part) for part in split_arguments(inner)]

    @property
    def returns_list(self) -> bool:
        return len(self.returns) == 1 and self.returns[0].type.endswith("[]")

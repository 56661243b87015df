"""framejit.ops and its stub: the operators by name, and the Python signature of each overload."""

from __future__ import annotations

import keyword
import re

from .builders import principal_overloads

TYPES = {
    "Tensor": "Tensor",
    "Tensor[]": "Sequence[Tensor]",
    "Tensor?[]": "Sequence[Optional[Tensor]]",
    "Scalar": "_Number",
    "int": "int",
    "float": "float",
    "bool": "bool",
    "str": "str",
    "ScalarType": "torch.dtype",
    "Layout": "torch.layout",
    "Device": "Union[torch.device, str]",
    "MemoryFormat": "torch.memory_format",
    "Generator": "torch.Generator",
}


def type_of(arg) -> str:
    kind = arg.type if arg.type in TYPES else arg.element
    if kind in TYPES:
        made = TYPES[kind]
    else:
        element, length = re.fullmatch(r"(\w+)\[(\d*)\]", kind).groups()
        made = f"Sequence[{element}]"
        if length and element == "int":
            made = f"Union[int, {made}]"
    return f"Optional[{made}]" if arg.is_optional else made


def parameter(arg) -> str:
    text = f"{arg.name}{'_' if keyword.iskeyword(arg.name) else ''}: {type_of(arg)}"
    if arg.default is None:
        return text
    # Defaults that Python writes as the schema does.
    plain = arg.default in ("None", "True", "False") or arg.element in ("int", "float", "Scalar", "str")
    return text + (f" = {arg.default}" if plain else " = ...")


def signature(schema) -> str:
    parts, star = [], False
    # A name that is a word of the language cannot be given as a keyword.
    positional = max((i + 1 for i, a in enumerate(schema.args) if keyword.iskeyword(a.name)), default=0)
    for i, arg in enumerate(schema.args):
        if arg.keyword_only and not star:
            parts.append("*")
            star = True
        parts.append(parameter(arg))
        if i + 1 == positional:
            parts.append("/")
    return ", ".join(parts)


def result_type(schema) -> str:
    types = ["List[Tensor]" if r.type == "Tensor[]" else TYPES[r.type] for r in schema.returns]
    return types[0] if len(types) == 1 else f"Tuple[{', '.join(types)}]"


def operators(rows) -> list[dict]:
    """By base name: its overloads with their schemas and signatures, and the overload that is asked for."""
    principal = principal_overloads(rows)
    by_name: dict[str, list] = {}
    for row in rows:
        by_name.setdefault(row["parsed"].base, []).append(row)
    made = []
    for name, overloads in sorted(by_name.items()):
        schemas = [row["parsed"] for row in overloads]
        signatures = dict.fromkeys(f"({signature(s)}) -> {result_type(s)}" for s in schemas)
        probe = name + ("." + principal[name] if principal[name] else "")
        made.append({
            "name": name,
            "schemas": [s.text for s in schemas],
            "signatures": list(signatures),
            "probe": probe,
        })  # fmt: skip
    return made

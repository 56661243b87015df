"""The typed functions of graph/generated/builders.*: names, parameters and defaults in C++."""

from __future__ import annotations

import re

# By the type in the schema: the parameter's type, and that of its optional form.
TYPES = {
    "Tensor": "const TensorArg&",
    "Tensor[]": "const Values&",
    "Tensor?[]": "const Values&",
    "Scalar": "const Scalar&",
    "int": "int64_t",
    "float": "double",
    "bool": "bool",
    "str": "std::string_view",
    "ScalarType": "DType",
    "Layout": "Layout",
    "Device": "Device",
    "MemoryFormat": "MemoryFormat",
    "Generator": "ConstId",
}
RESERVED = {"default", "this", "operator", "register", "new", "delete", "class", "template"}
# Which overload has the plain name, where a name has several: these, else the first of the file.
PRINCIPAL = ("", "Tensor", "self")
SCALAR_TYPES = {4: "DType::kI64"}


def snake(text: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text).lower()


def function_name(base: str, overload: str) -> str:
    """`add_`, `Scalar` -> `add_scalar_`: no two underscores in a row, which C++ reserves."""
    written = base.endswith("_")
    name = base.rstrip("_") + ("_" + snake(overload) if overload else "")
    return re.sub(r"__+", "_", name) + ("_" if written else "")


def principal_overloads(rows) -> dict[str, str]:
    """{name: the overload that has the plain name}"""
    overloads: dict[str, list[str]] = {}
    for row in sorted(rows, key=lambda r: (r["entry"].path, r["entry"].line)):
        overloads.setdefault(row["parsed"].base, []).append(row["parsed"].overload)
    return {base: next((p for p in PRINCIPAL if p in found), found[0]) for base, found in overloads.items()}


def parameter_type(arg) -> str:
    kind = arg.element
    if re.fullmatch(r"int\[\d*\]", kind):
        plain = "const Ints&"
    elif match := re.fullmatch(r"bool\[(\d)\]", kind):
        plain = f"const std::array<bool, {match[1]}>&"
    elif kind in TYPES:
        plain = TYPES[kind]
    elif re.fullmatch(r"Tensor\??\[\]", arg.type):
        plain = TYPES[arg.type]
    else:
        raise KeyError(arg.type)
    if not arg.is_optional:
        return plain
    inner = re.sub(r"^const |&$", "", plain)
    return f"const std::optional<{inner}>&" if inner in ("TensorArg", "Scalar", "Ints") else f"std::optional<{inner}>"


def default_value(arg) -> str | None:
    """The schema's default in C++."""
    text, kind = arg.default, arg.element
    if text is None:
        return None
    if text == "None":
        return "std::nullopt"
    if text in ("True", "False"):
        return text.lower()
    if kind == "ScalarType":
        return SCALAR_TYPES[int(text)]
    if kind.startswith("int["):
        length = kind[4:-1]
        values = text.strip("[]") if text.startswith("[") else ", ".join([text] * int(length))
        return f"Ints{{{values}}}" if arg.is_optional else f"{{{values}}}"
    return text + "0" if text.endswith(".") else text


def parameters(schema) -> list[str]:
    """In C++ only the last parameters have defaults: one before a parameter without is left out."""
    made, defaults = [], True
    for arg in reversed(schema.args):
        value = default_value(arg) if defaults else None
        defaults = defaults and value is not None
        name = arg.name + ("_" if arg.name in RESERVED else "")
        made.append((f"{parameter_type(arg)} {name}", name, value))
    return made[::-1]


def result_of(schema) -> tuple[str, str]:
    """The C++ type of the result, and the member of Builder that makes it."""
    if schema.returns_list:
        return "std::vector<ValueId>", "list"
    if len(schema.returns) == 1:
        return "ValueId", "one"
    return f"std::array<ValueId, {len(schema.returns)}>", f"some<{len(schema.returns)}>"


def builder_of(row, principal) -> dict:
    entry, schema = row["entry"], row["parsed"]
    given = entry.get("builder")
    if given is not None and not re.fullmatch(r"[a-z_]\w*", str(given)):
        entry.fail("builder", f"expected the name of a C++ function, got {given!r}")
    if given is not None:
        name = given + ("_" if schema.base.endswith("_") and not given.endswith("_") else "")
    else:
        name = function_name(schema.base, "" if principal[schema.base] == schema.overload else schema.overload)
    try:
        made = parameters(schema)
    except KeyError as unknown:
        entry.fail("schema", f"expected types that opgen/builders.py knows, got {unknown.args[0]!r}")
    result, member = result_of(schema)
    return {
        "name": name,
        "result": result,
        "member": member,
        "declared": ", ".join(text + (f" = {value}" if value is not None else "") for text, _, value in made),
        "defined": ", ".join(text for text, _, _ in made),
        "arguments": [name for _, name, _ in made],
        "row": row,
    }


def builders(rows) -> list[dict]:
    principal = principal_overloads(rows)
    made, seen = [], {}
    for row in rows:
        builder = builder_of(row, principal)
        other = seen.setdefault(builder["name"], row)
        if other is not row:
            row["entry"].fail("builder", f"expected a name of its own, got {builder['name']!r}, as {other['name']} has")
        made.append(builder)
    return made

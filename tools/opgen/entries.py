"""Reads graph/ops/*.yaml: entries, their rules and traits, checked. An error names file, line and field."""

import pathlib
import re

import yaml

from .schema import Schema

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPS = ROOT / "graph" / "ops"
EXPRESSIONS = ROOT / "graph" / "expression.def"

TRAITS = {
    "random": "kOpRandom",
    "raises": "kOpMayRaise",
    "raises_on_integers": "kOpRaisesOnIntegers",
    "writes_statistics": "kOpWritesStatistics",
    "data_dependent": "kOpDataDependent",
    "side_effect": "kOpSideEffect",
    "uninitialized": "kOpUninitialized",
    "maybe_view": "kOpMaybeView",
    "meta_in_place": "kOpMetaInPlace",
    "pointwise": "kOpPointwise",
    "reduction": "kOpReduction",
    "cpu_rule": "kOpCpuRule",
    "cpu_scalar": "kOpCpuScalar",
    "cpu_indices": "kOpCpuIndices",
    "any_devices": "kOpAnyDevices",
}
PROMOTE = {
    "common": "kCommon",
    "int_to_float": "kIntToFloat",
    "bool": "kBool",
    "first": "kFirst",
    "real": "kReal",
}
REDUCE_TYPES = {
    "same": "kSame",
    "sum": "kSum",
    "float": "kFloat",
    "promoted": "kPromoted",
    "real": "kReal",
    "bool": "kBool",
    "index": "kIndex",
}


class BadEntry(Exception):
    """An entry that cannot be generated from: file, line, field, what is wrong."""


class Entry:
    """One YAML entry with the place it stands at."""

    def __init__(self, path, line, fields):
        self.path, self.line, self.fields = path, line, fields
        self.used = {"schema", "infer", "inplace", "traits", "builder"}
        self.used |= {"expr", "expr_types", "reason"}
        self.row_traits = []  # those of the row that is looked at: its own, and those of its rule
        schema = fields.get("schema")
        try:
            self.schema = Schema(schema if isinstance(schema, str) else "")
        except ValueError:
            self.fail("schema", f"expected 'name.overload(arguments) -> results', got {schema!r}")
        self.args = self.schema.args

    def fail(self, field, message):
        raise BadEntry(f"{self.path.relative_to(ROOT)}:{self.line}: {field}: {message}")

    def get(self, field, default=None, choices=None):
        self.used.add(field)
        value = self.fields.get(field, default)
        if choices is not None and value not in list(choices):
            self.fail(field, f"expected one of {', '.join(map(str, choices))}, got {value!r}")
        return value

    def position(self, field, name, required=False):
        for i, arg in enumerate(self.args):
            if arg.name == name:
                return i
        if required:
            self.fail(field, f"expected an argument of the schema, got {name!r}")
        return None

    def positions(self, field, default):
        names = self.get(field)
        if names is None:
            return default
        if not isinstance(names, list):
            self.fail(field, f"expected a list of argument names, got {names!r}")
        return [self.position(field, name, required=True) for name in names]

    def named(self, *names):
        """`.name = position` for each of these arguments that the schema has."""
        found = [(n, self.position("schema", n)) for n in names]
        return [f".{n} = {p}" for n, p in found if p is not None]

    def flags_named(self, *fields):
        return [f".{f} = true" for f in fields if self.get(f, False, (True, False))]

    def check_all_used(self):
        for field in self.fields:
            if field not in self.used:
                self.fail(field, f"expected a field of rule {self.fields.get('infer')!r}")


def call(function, rule, parts):
    return f"infer::{function}(c, infer::{rule}{{{', '.join(parts)}}})"


def pointwise(entry, function="pointwise"):
    args = entry.positions("args", [i for i, a in enumerate(entry.args) if a.is_tensor])
    iterate = entry.positions("iterate", args)

    def six(values):
        return "{" + ", ".join(str(v) for v in (values + [-1] * 6)[:6]) + "}"

    parts = [f".promote_args = {six(args)}", f".iterate_args = {six(iterate)}"]
    promote = entry.get("promote", "common", PROMOTE)
    if promote != "common":
        parts.append(f".promote = infer::Promote::{PROMOTE[promote]}")
    return call(function, "PointwiseRule", parts + entry.flags_named("contiguous", "no_bool"))


def pointwise_inplace(entry):
    return pointwise(entry, "pointwise_inplace")


def reduce(entry):
    kind = entry.get("type", "same", REDUCE_TYPES)
    parts = entry.named("dim", "keepdim", "dtype")
    if kind != "same":
        parts.append(f".type = infer::ReduceType::{REDUCE_TYPES[kind]}")
    return call("reduce", "ReduceRule", parts + entry.flags_named("with_indices", "needs_elements", "empty_dims_keep"))


def scan(entry):
    return call("scan", "ScanRule", entry.named("dtype") + entry.flags_named("preserve", "integers_sum"))


def factory(entry):
    parts = entry.named("size", "dtype", "layout", "device", "memory_format")
    for field in ("strides", "like", "fill"):
        name = entry.get(field)
        if name is not None:
            parts.append(f".{field} = {entry.position(field, name, required=True)}")
    return call("factory", "FactoryRule", parts + entry.flags_named("integers"))


def like(entry):
    return call("like", "LikeRule", entry.named("dtype", "layout", "device", "memory_format"))


def arange(entry):
    return call("arange", "ArangeRule", entry.named("start", "end", "step", "dtype"))


RULES = {f.__name__: f for f in (pointwise, pointwise_inplace, reduce, scan, factory, like, arange)}
RULE_TRAITS = {"pointwise": ["pointwise"], "pointwise_inplace": ["pointwise"], "reduce": ["reduction"]}
# What the in-place twin of a rule's operator uses; others return their first operand as it is.
INPLACE_RULES = {"pointwise": "pointwise_inplace", "subtract": "subtract_inplace", "gelu": "gelu_inplace"}


def named_functions():
    """Functions `InferStatus name(InferContext& c)` that the headers of graph/infer declare."""
    names = set()
    for header in (ROOT / "graph" / "infer").glob("*.h"):
        names.update(re.findall(r"^InferStatus (\w+)\(InferContext& c\);", header.read_text(), re.M))
    return names


def infer_expression(entry, rule, functions):
    if rule is None:
        return None
    if not isinstance(rule, str):
        entry.fail("infer", f"expected a name, got {rule!r}")
    if rule in RULES:
        return RULES[rule](entry)
    if rule in functions:
        return f"infer::{rule}(c)"
    entry.fail("infer", f"expected a rule ({', '.join(RULES)}) or a function of graph/infer/*.h, got {rule!r}")


def inplace_schema(entry):
    base = entry.schema.base
    text = entry.schema.text.replace(base, base + "_", 1).replace("(Tensor self", "(Tensor(a!) self", 1)
    if "Tensor(a!) self" not in text:
        entry.fail("inplace", "expected a schema whose first argument is 'Tensor self'")
    return Schema(text[: text.rindex("-> ")] + "-> Tensor(a!)")


def is_binary(entry, traits, rule):
    """An elementwise operator over two tensors: TensorIterator's binary_op, comparison_op and their like."""
    tensors = [arg.name for arg in entry.args if arg.is_tensor]
    return "pointwise" in traits + RULE_TRAITS.get(rule, []) and tensors in (["self", "other"], ["self", "exponent"])


def row(entry, schema, rule, functions):
    expression = infer_expression(entry, rule, functions)
    traits = entry.fields.get("traits", [])
    if not isinstance(traits, list):
        entry.fail("traits", f"expected a list, got {traits!r}")
    traits = traits + RULE_TRAITS.get(rule, []) + (["cpu_scalar"] if is_binary(entry, traits, rule) else [])
    for trait in traits:
        if trait not in TRAITS:
            entry.fail("traits", f"expected some of {', '.join(TRAITS)}, got {trait!r}")
    flags = sorted({TRAITS[t] for t in traits} | ({"kOpNative"} if expression else set()))
    return {
        "name": "aten::" + schema.name,
        "schema": "aten::" + schema.text,
        "flags": " | ".join(flags) or "0",
        "infer": expression,
        "constant": "k_" + re.sub(r"\W", "_", schema.name),
        "parsed": schema,
        "rule": rule,
        "traits": traits,
        "entry": entry,
    }


def rows_of(entry, functions):
    rule = entry.fields.get("infer")
    yield row(entry, entry.schema, rule, functions)
    if entry.get("inplace", False, (True, False)):
        twin = INPLACE_RULES.get(rule, "returns_self" if rule else None)
        yield row(entry, inplace_schema(entry), twin, functions)
    entry.check_all_used()


def load(path):
    """The entries of one file, with their lines."""
    try:
        node = yaml.compose(path.read_text(), Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise BadEntry(f"{path.relative_to(ROOT)}: {error}") from error
    if not isinstance(node, yaml.SequenceNode):
        raise BadEntry(f"{path.relative_to(ROOT)}:1: expected a list of entries")
    loader = yaml.SafeLoader("")
    for item in node.value:
        fields = loader.construct_document(item)
        if not isinstance(fields, dict):
            raise BadEntry(f"{path.relative_to(ROOT)}:{item.start_mark.line + 1}: expected a mapping with 'schema'")
        yield Entry(path, item.start_mark.line + 1, fields)


def collect():
    functions = named_functions()
    rows, seen = [], {}
    for path in sorted(OPS.glob("*.yaml")):
        for entry in load(path):
            for made in rows_of(entry, functions):
                if made["name"] in seen:
                    entry.fail(
                        "schema",
                        f"expected each operator once, got {made['name']} again (first in {seen[made['name']]})",
                    )
                seen[made["name"]] = f"{path.name}:{entry.line}"
                rows.append(made)
    return sorted(rows, key=lambda r: r["name"])

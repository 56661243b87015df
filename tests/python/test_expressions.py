"""The expressions of graph/ops say what LibTorch's kernels compute: on special and random numbers, in each type they hold for.

They are evaluated element by element in C++, in doubles or 64-bit integers, and compared with the operator itself.
"""

import math

import pytest
import torch

from framejit import _C

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 3.0, -3.0, 2.0, -2.0, 3.5, -6.25, 20.5, -40.0, math.inf, -math.inf, math.nan]
INTEGERS = [0, 1, -1, 2, -2, 3, 7, -8, 100, -(2**40), 2**62, -(2**63)]
NUMBERS = {  # of scalar arguments, by name
    "alpha": [1, 2], "beta": [1, 0.5], "threshold": [20, 0.25], "value": [1, -1.5], "weight": [0.25, 0.75, -2.0],
    "min": [None, -0.75], "max": [None, 0.75], "min_val": [-1, -0.25], "max_val": [1, 0.5], "lambd": [0.5, 0],
    "eps": [None, 0.125], "negative_slope": [0.01, 0.5], "scale": [1, 1.5], "input_scale": [1, 0.75],
    "exponent": [2, 0.5, -0.5, 3.5, -1, 0, math.inf, math.nan], "other": [1, -2.5, 3], "self": [2.5, 2, 0.5],
    "is_result": [False, True], "self_is_result": [False], "approximate": ["none", "tanh"],
    "rounding_mode": [None, "trunc", "floor"], "ord": [2, 1, 0, 3.5, math.inf, -math.inf, -1],
    "correction": [None, 0, 2, 7], "dtype": [None], "keepdim": [False], "dim": ["all"], "non_blocking": [False],
}  # fmt: skip
WHOLE = {"alpha": [1, 3], "value": [1, -2], "threshold": [1], "min": [None, -1], "max": [None, 2], "other": [1, -3, 5], "min_val": [-1], "max_val": [2]}
# Where torch's vectorised kernels are less exact in doubles than the C library's functions.
LOOSE = {"lgamma": 1e-9, "erfc": 1e-9, "tan": 1e-9, "logit": 1e-9, "logit_backward": 1e-9}


def pointwise_and_reductions():
    """Each operator with an expression, or that says why it has none."""
    found = {}
    for schema in torch._C._jit_get_all_schemas():
        if not schema.name.startswith("aten::"):
            continue
        name = schema.name + ("." + schema.overload_name if schema.overload_name else "")
        try:
            answer = _C._testing.expression(name)
        except ValueError:
            continue
        if answer is not None:
            found[name] = (schema, answer)
    return dict(sorted(found.items()))


FOUND = pointwise_and_reductions()
WITH = [name for name, (_, answer) in FOUND.items() if isinstance(answer, tuple)]
HOLDS_FOR = [(name, kind) for name in WITH for kind in FOUND[name][1][0]]
DTYPES = {"float": torch.float64, "int": torch.int64, "bool": torch.bool}


def overload(name):
    base, _, which = name[len("aten::") :].partition(".")
    return getattr(getattr(torch.ops.aten, base), which or "default")


def is_tensor(argument):
    return str(argument.type) in ("Tensor", "Optional[Tensor]")


def pairs(values, number):
    """The `number`-th of columns that hold each combination of two values, and some of three."""
    count = len(values)
    if number == 0:
        return [a for a in values for _ in values]
    step = 0 if number == 1 else 5 * number
    return [values[(b + step + (i if number > 1 else 0)) % count] for i in range(count) for b in range(count)]


def column(kind, number, dtype):
    torch.manual_seed(number)
    if kind == "bool":
        return torch.tensor(pairs([False, True], number))
    if kind == "int":
        return torch.tensor(pairs(INTEGERS, number))
    return torch.cat([torch.tensor(pairs(SPECIAL, number), dtype=dtype), torch.randn(100, dtype=torch.float64).to(dtype) * 2])


def calls(schema, kind, dtype=torch.float64):
    """Arguments: each combination of what stands for the scalars with one column of each tensor."""
    settings = [[]]
    tensors = 0
    for argument in schema.arguments:
        if is_tensor(argument):
            mask = argument.name in ("condition", "mask")
            made = [column("bool" if mask else kind, tensors, dtype)]
            if mask:
                made = [torch.arange(len(column(kind, 0, dtype))) % 3 == 0]
            if schema.name.startswith(("aten::masked_fill", "aten::fill_")) and argument.name == "value":
                made = [made[0][3]]
            tensors += 1
            if str(argument.type) == "Optional[Tensor]":
                made.append(None)
        elif kind == "float":
            made = NUMBERS[argument.name]
        elif kind == "int":
            made = WHOLE.get(argument.name, NUMBERS[argument.name])
        else:
            made = [True, False] if str(argument.type) == "number" else NUMBERS[argument.name]
        if "Optional" not in str(argument.type):
            made = [v for v in made if v is not None]
        settings = [s + [v] for s in settings for v in made]
    return settings


def evaluate(name, arguments, count, kind):
    """The expression's value of each element."""
    plain = [a.to(torch.int64 if kind == "bool" else a.dtype).tolist() if isinstance(a, torch.Tensor) else a for a in arguments]
    if kind != "float":
        plain = [[int(v) for v in a] if isinstance(a, list) else int(a) if isinstance(a, bool) else a for a in plain]
    return torch.tensor(_C._testing.evaluate(name, plain, count, kind != "float"), dtype=torch.int64 if kind != "float" else torch.float64)


def run(name, schema, arguments):
    given = [a.clone() if isinstance(a, torch.Tensor) else a for a in arguments]
    positional, keywords = [], {}
    for argument, value in zip(schema.arguments, given):
        if argument.kwarg_only:
            keywords[argument.name] = value
        else:
            positional.append(value)
    return overload(name)(*positional, **keywords)


def differing(found, expected, rtol):
    """Indices where two columns differ: nan equals nan, infinities are themselves."""
    found, expected = found.double(), expected.double()
    same = (found == expected) | (found.isnan() & expected.isnan())
    close = (found - expected).abs() <= rtol * expected.abs() + 1e-300 + (rtol if rtol > 1e-4 else 1e-13)
    return (~(same | close)).nonzero().flatten().tolist()


def check(name, arguments, kind, dtype, rtol):
    schema = FOUND[name][0]
    expected = run(name, schema, arguments)
    count = expected.numel()
    tensors = [a.double() if isinstance(a, torch.Tensor) and dtype.is_floating_point else a for a in arguments]
    found = evaluate(name, tensors, count, kind)
    if dtype.is_floating_point and dtype != torch.float64 and expected.is_floating_point():
        found = found.to(expected.dtype)
    if kind == "bool" and expected.dtype == torch.bool:
        found = found != 0
    wrong = differing(found, expected.flatten(), rtol)
    shown = [
        ([a[i].item() if isinstance(a, torch.Tensor) else a for a in arguments], found[i].item(), expected[i].item())
        for i in wrong[:5]
    ]
    assert not wrong, f"{name}: arguments, by the expression, by torch: {shown}"


def reduces(name):
    return FOUND[name][1][1]


def base(name):
    return name[len("aten::") :].partition(".")[0].rstrip("_")


@pytest.mark.parametrize(("name", "kind"), [(n, k) for n, k in HOLDS_FOR if not reduces(n)])
def test_each_element_is_what_torch_computes(name, kind):
    schema, dtype = FOUND[name][0], DTYPES[kind]
    settings = calls(schema, kind)
    assert settings
    for arguments in settings:
        if all(a is None for a in arguments[1:]) and base(name) == "clamp":
            continue  # refused: one of min and max must be given
        check(name, arguments, kind, dtype, LOOSE.get(base(name), 1e-11))


@pytest.mark.parametrize("name", [n for n, k in HOLDS_FOR if k == "float" and not reduces(n)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_smaller_types_are_computed_in_floats(name, dtype):
    """A result in the type, rounded once: with what random numbers give, since specials are the same in all types."""
    schema = FOUND[name][0]
    if base(name) in ("floor_divide", "div", "fmod", "remainder") and dtype == torch.bfloat16:
        return  # a quotient that rounds to the next integer before it is floored
    for arguments in calls(schema, "float", dtype)[:4]:
        if all(a is None for a in arguments[1:]) and base(name) == "clamp":
            continue
        arguments = [a[-100:] if isinstance(a, torch.Tensor) and a.dim() else a for a in arguments]
        if dtype == torch.bfloat16 and not supports(name, schema, arguments):
            continue
        check(name, arguments, "float", dtype, 2e-2 if dtype == torch.bfloat16 else 2e-4)


def supports(name, schema, arguments):
    try:
        run(name, schema, arguments)
    except (RuntimeError, NotImplementedError):
        return False
    return True


def rows(kind):
    """Lists of elements that one number is reduced from."""
    if kind == "bool":
        return [[True], [False], [True, False, True], [False, False], [True, True]]
    if kind == "int":
        return [[3], [1, -2, 5], [2**62, 2**62, 7], [0, 0], [-1, 4, 0]]
    nan, inf = math.nan, math.inf
    return [[2.5], [1.5, -2.0, 0.25, 3.0], [0.0, -0.0], [nan, 1.0], [1.0, nan], [inf, 1.0], [-inf, -inf], [inf, -inf, 2.0], [-1.0, 0.0, 1e300]]


@pytest.mark.parametrize(("name", "kind"), [(n, k) for n, k in HOLDS_FOR if reduces(n)])
def test_reductions_are_what_torch_computes(name, kind):
    schema, dtype = FOUND[name][0], DTYPES[kind]
    for row in rows(kind):
        for arguments in calls(schema, kind):
            arguments[0] = torch.tensor(row, dtype=dtype)
            arguments = [dimensions(schema, i) if isinstance(a, str) and a == "all" else a for i, a in enumerate(arguments)]
            expected = run(name, schema, arguments)
            plain = [a if isinstance(a, (torch.Tensor, int, float, type(None))) else None for a in arguments]
            found = evaluate(name, plain, len(row), kind)
            assert not differing(found, expected.flatten(), 1e-11), (row, arguments[1:], found, expected)


def dimensions(schema, index):
    return 0 if str(schema.arguments[index].type) == "int" else [0]


def test_every_pointwise_operator_has_an_expression_or_a_reason():
    reasons = {name: answer for name, (_, answer) in FOUND.items() if isinstance(answer, str)}
    assert len(WITH) > 200 and len([n for n in WITH if reduces(n)]) > 15
    assert all(len(reason) > 10 for reason in reasons.values())
    assert not [name for name in ("aten::add.Tensor", "aten::gelu", "aten::where.self", "aten::sum.dim_IntList") if name not in WITH]


def test_in_place_operators_have_the_expression_of_their_twin():
    for name in WITH:
        twin = name.replace("_.", ".") if "_." in name else name[:-1] if name.endswith("_") else None
        if twin in FOUND:
            assert FOUND[name][1] == FOUND[twin][1], name


def test_an_operator_without_an_expression_says_so():
    assert _C._testing.expression("aten::mm") is None
    assert "C libraries" in _C._testing.expression("aten::digamma")
    with pytest.raises(ValueError, match="expected an operator with an expression, got aten::mm"):
        _C._testing.evaluate("aten::mm", [1.0, 2.0], 1, False)
    with pytest.raises(ValueError, match="aten::add.Tensor: expected 3 arguments, got 1"):
        _C._testing.evaluate("aten::add.Tensor", [1.0], 1, False)
    with pytest.raises(ValueError, match="expected an operator of graph/ops, got aten::nothing"):
        _C._testing.expression("aten::nothing")

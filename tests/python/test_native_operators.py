"""Back end native: each elementwise operator in a kernel of ours computes what LibTorch's kernel does."""

import os

import pytest
import torch

import framejit
import test_expressions as expressions
from support.native import kernels_asked_for, needs_kernels

pytestmark = needs_kernels

DTYPES = {
    "float": [torch.float32, torch.float64, torch.bfloat16, torch.float16],
    "int": [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8],
    "bool": [torch.bool],
}
# Relative. Both sides have a rounding more or less than the other, half types two of those.
BOUNDS = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 1.6e-2, torch.float16: 2e-3}
# Each combination of settings in each type is a kernel of its own, which takes 20 ms to compile.
ALL = os.environ.get("FRAMEJIT_ALL_KERNELS", "") not in ("", "0")
ELEMENTWISE = [
    (name, kind)
    for name, kind in expressions.HOLDS_FOR
    if not expressions.FOUND[name][1][1] and not name.partition(".")[0].endswith("_")
]


def dtypes_of(name, kind):
    """All, or one, another for each operator."""
    return DTYPES[kind] if ALL else [DTYPES[kind][sum(map(ord, name)) % len(DTYPES[kind])]]


def settings_of(name, schema, kind, dtype):
    """(positional, keyword) arguments of calls that eager takes."""
    calls = expressions.calls(schema, kind, dtype) if kind == "float" else expressions.calls(schema, kind)
    for arguments in calls if ALL else calls[:2]:
        positional, keywords = [], {}
        for argument, value in zip(schema.arguments, arguments):
            if isinstance(value, torch.Tensor) and value.dtype == torch.int64:
                value = value.to(dtype)
            if argument.kwarg_only:
                keywords[argument.name] = value
            else:
                positional.append(value)
        try:
            expressions.overload(name)(*positional, **keywords)
        except RuntimeError:
            continue
        yield positional, keywords


def is_close(found, expected):
    bound = BOUNDS.get(expected.dtype, 0)
    found, expected = found.double(), expected.double()
    return torch.equal(found.isnan(), expected.isnan()) and torch.allclose(
        found, expected, rtol=bound, atol=bound * 0.1, equal_nan=True
    )


@pytest.mark.parametrize("name,kind", ELEMENTWISE)
def test_kernel_computes_what_the_operator_does(name, kind):
    schema = expressions.FOUND[name][0]
    op = expressions.overload(name)

    def f(*args, **kwargs):  # one operator makes no kernel
        result = op(*args, **kwargs)
        return result, torch.logical_not(result)

    for dtype in dtypes_of(name, kind):
        for positional, keywords in settings_of(name, schema, kind, dtype):
            expected = f(*positional, **keywords)
            framejit.reset()
            before = kernels_asked_for()
            found, found_not = framejit.to_static(f, backend="native")(*positional, **keywords)
            text = "{} {} {}".format(name, dtype, [a for a in positional if not isinstance(a, torch.Tensor)])
            assert (found.dtype, found.shape, found.stride()) == (
                expected[0].dtype,
                expected[0].shape,
                expected[0].stride(),
            ), text
            assert is_close(found, expected[0]), "{}: {} for {}".format(text, found, expected[0])
            assert torch.equal(found_not, torch.logical_not(found)), text
            assert kernels_asked_for() > before or is_refused(name, kind, dtype, positional), text


@pytest.mark.parametrize("dtype", DTYPES["float"])
@pytest.mark.parametrize("layout", ["row", "one", "columns"])
def test_small_terms_round_away_as_in_the_kernel_that_eager_has(dtype, layout):
    """oneDNN's loses what stands beside a 1, and times infinity that is nan; LibTorch's own does not."""
    # None between -6.5 and -5, where it is for the last digit of erf to say what is lost.
    self = torch.tensor([-40.0, -13, -9, -8, -7, -6.5, -2, 0, 0.5, 2, 9, 40], dtype=dtype)
    if layout == "one":
        self = self[5:6]
    if layout == "columns":
        self = self.reshape(3, 4).t()

    def f(gradient, self):
        return torch.ops.aten.gelu_backward(gradient, self).neg(), torch.nn.functional.gelu(self * gradient)

    for number in (1.0, 1024.0, float("inf"), float("-inf")):
        gradient = torch.full_like(self, number)
        before = kernels_asked_for()
        found = framejit.to_static(f, backend="native")(gradient, self)
        assert kernels_asked_for() > before or number != 1
        torch.testing.assert_close(found, f(gradient, self), rtol=BOUNDS[dtype], atol=1e-6, equal_nan=True)


def is_refused(name, kind, dtype, positional):
    """What kernels leave to LibTorch: numbers that the type does not hold, and roots of half types, which are its pow."""
    numbers = [a for a in positional if isinstance(a, (int, float)) and not isinstance(a, bool)]
    unheld = dtype == torch.uint8 and any(n < 0 for n in numbers)
    return unheld or (name == "aten::pow.Tensor_Scalar" and dtype in (torch.bfloat16, torch.float16))


def test_functions_in_line_are_within_2_ulp_over_all_numbers():
    """Every 997th float32 of either sign, subnormal ones, infinities and those that are no numbers among them."""
    bits = torch.arange(0, 2**31, 997, dtype=torch.int64)
    x = torch.cat([bits, bits + 2**31, torch.tensor([0x7F800000, 0xFF800000, 0x7FC00000])])
    x = torch.where(x >= 2**31, x - 2**32, x).to(torch.int32).view(torch.float32)

    def f(x):
        return torch.exp(x + 0), torch.tanh(x + 0), torch.erf(x + 0)

    before = kernels_asked_for()
    found = framejit.to_static(f, backend="native")(x)
    assert kernels_asked_for() > before
    for name, result in zip(("exp", "tanh", "erf"), found):
        true = getattr(torch, name)(x.double())
        nearest = true.float()
        assert torch.equal(result.isnan(), nearest.isnan()), name
        finite = nearest.isfinite() & result.isfinite()
        assert torch.equal(result[~finite & ~result.isnan()].isinf(), (nearest[~finite & ~result.isnan()].abs() > 3.4e38)), name
        spacing = (torch.nextafter(nearest.abs(), torch.tensor(float("inf"))) - nearest.abs()).double()
        error = ((result.double() - true).abs() / spacing)[finite]
        assert error.max() <= 2, (name, error.max(), x[finite][error.argmax()])

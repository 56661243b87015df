"""Strings, formatting, printing, logging, warnings."""

from __future__ import annotations

import logging
import warnings

import torch

from .registry import Group

construct = Group("Text, logging, warnings")


@construct("f-string with a specification")
def f_string_with_a_specification(x):
    n = x.shape[0]
    return x * n, f"{n:>4d}|{n / 7:.3f}|{n!r:<3}|{x.dtype}|{n=}"


@construct("str.format and percent")
def str_format_and_percent(x):
    return x + 1, "{:.1f} {name}".format(2.55, name="a"), "%s %05d" % ("b", 42)


@construct("string methods")
def string_methods(x):
    name = "encoder.layer_1.weight"
    prefix, _, rest = name.partition(".")
    return x * int(rest.split(".")[0].rsplit("_", 1)[-1]), prefix.upper(), name.replace(".", "/"), name.startswith("enc")


construct.source(
    "removeprefix and removesuffix",
    """
    def f(x):
        return x * len("model.weight".removeprefix("model.")), "a.b".removesuffix(".b")
    """,
    since=(3, 9),
)
construct.source(
    "quotes nested in an f-string",
    """
    def f(x):
        table = {"a": 1}
        return x + 1, f"{table["a"]} {f"{len(table)}"}"
    """,
    since=(3, 12),
)


@construct("join of a generator")
def join_of_a_generator(x):
    return x.sin(), "x".join(str(size) for size in x.expand(2, 3).shape)


@construct("bytes and encoding")
def bytes_and_encoding(x):
    data = "äb".encode()
    return x * len(data), data.decode(), bytes([1, 2]) + b"c", bytearray(b"ab").hex()


@construct("regular expression")
def regular_expression(x):
    import re

    match = re.match(r"layer_(\d+)", "layer_12")
    return x * int(match.group(1)), re.sub("_", "-", "a_b")


@construct("tensor formatted into text")
def tensor_formatted_into_text(x):
    y = x + 1
    return y * 2, f"{y.sum():.2f}", str(y)


@construct("json")
def json_text(x):
    import json

    options = json.loads('{"scale": 2.5}')
    return x * options["scale"], json.dumps({"shape": list(x.shape)})


@construct("print")
def print_statement(x):
    y = x.sin()
    print("shape", tuple(y.shape), sep=": ", end=".\n")
    return y.cos()


@construct("print of a tensor")
def print_of_a_tensor(x):
    y = x.sin()
    print(y)
    return y.cos()


@construct("logging")
def logging_call(x):
    logger = logging.getLogger("framejit.tests.constructs")
    y = x.sin()
    logger.debug("not shown %s", y)
    return y.cos()


@construct("logging to a handler")
def logging_to_a_handler(x):
    records = []

    class Keep(logging.Handler):
        def emit(self, record):
            records.append(record.getMessage())

    logger, handler = logging.getLogger("framejit.tests.kept"), Keep()
    logger.propagate = False
    logger.addHandler(handler)
    try:
        logger.warning("size %d", x.shape[0])
    finally:
        logger.removeHandler(handler)
    return x + 1, records


@construct("warnings.warn, recorded")
def warnings_warn_recorded(x):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("old option", DeprecationWarning)
        y = x.sin()
    return y, [str(warning.message) for warning in caught]


@construct("warnings turned into errors")
def warnings_turned_into_errors(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            warnings.warn("now an error")
        except UserWarning as error:
            return x * 2, str(error)


@construct("assert that holds")
def assert_that_holds(x):
    assert x.shape[-1] == 3, f"got {x.shape}"
    return x + 1


@construct("assert that fails", raises=AssertionError)
def assert_that_fails(x):
    y = x.sin()
    assert y.shape[-1] == 4, f"got {tuple(y.shape)}"
    return y


@construct("assert on the values of a tensor")
def assert_on_the_values_of_a_tensor(x):
    y = x.sin()
    assert torch.isfinite(y).all(), "not finite"
    return y.cos()

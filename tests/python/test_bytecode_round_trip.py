"""Every code object of the standard library, decoded and assembled again, is equal in instructions, positions, exception
handling and facts."""

import dis
import os
import sys
import sysconfig
import types

import pytest

from framejit_bytecode import _core

VERSION = sys.version_info[:2]
STDLIB = sysconfig.get_path("stdlib")
SHARDS = 8
FACTS = [
    "co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_flags", "co_nlocals", "co_varnames", "co_cellvars",
    "co_freevars", "co_names", "co_filename", "co_name", "co_firstlineno",
] + (["co_qualname"] if VERSION >= (3, 11) else [])


def standard_library():
    skip = {"site-packages", "__pycache__", "bad_coding", "lib2to3"}
    paths = []
    for folder, folders, names in os.walk(STDLIB):
        folders[:] = sorted(name for name in folders if name not in skip)
        paths += [os.path.join(folder, name) for name in sorted(names) if name.endswith(".py")]
    return paths


def compiled(path):
    """The module's code object, or None where the file is meant not to compile."""
    try:
        with open(path, "rb") as file:
            return compile(file.read(), path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None


def code_objects(code):
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from code_objects(const)


def raw_units(code):
    """(offset, opcode, folded argument, offset of the first prefix) of each instruction."""
    data, extended, first = code.co_code, 0, None
    caches = dis.opmap.get("CACHE")
    for at in range(0, len(data), 2):
        opcode = data[at]
        if opcode == caches:
            continue
        first = at if first is None else first
        if opcode == dis.EXTENDED_ARG:
            extended = (extended | data[at + 1]) << 8
            continue
        yield at, opcode, extended | data[at + 1], first
        extended, first = 0, None


def line_of_offsets(code):
    if VERSION >= (3, 11):
        return list(code.co_positions())
    if VERSION >= (3, 10):
        lines = [None] * (len(code.co_code) // 2)
        for start, end, line in code.co_lines():
            for unit in range(start // 2, end // 2):
                lines[unit] = line
        return lines
    lines, starts, line = [], dict(dis.findlinestarts(code)), code.co_firstlineno
    for at in range(0, len(code.co_code), 2):
        line = starts.get(at, line)
        lines.append(line)
    return lines


JUMPS = set(dis.hasjrel) | set(dis.hasjabs)


def comparable(code):
    """The code with jumps and handlers as instruction numbers, so that only meaning is compared."""
    units = list(raw_units(code))
    number = {}
    for index, (at, _, _, first) in enumerate(units):
        number[at] = number[first] = index
    positions = line_of_offsets(code)
    rows = []
    targets = {at: target for at, target in jump_targets(code, units)}
    for at, opcode, arg, first in units:
        meaning = ("to", number[targets[at]]) if opcode in JUMPS else arg
        rows.append((opcode, meaning, positions[at // 2]))
    handlers = []
    if VERSION >= (3, 11):
        for entry in dis._parse_exception_table(code):
            end = number[entry.end] if entry.end in number else len(units)
            handlers.append((number[entry.start], end, number[entry.target], entry.depth, entry.lasti))
    return rows, handlers


def jump_targets(code, units):
    unit = 2 if VERSION >= (3, 10) else 1
    cache_counts = getattr(dis, "_inline_cache_entries", None)
    for at, opcode, arg, _ in units:
        if opcode in dis.hasjabs:
            yield at, arg * unit
        elif opcode in dis.hasjrel:
            name = dis.opname[opcode]
            caches = 0
            if cache_counts is not None:
                caches = cache_counts.get(name, 0) if isinstance(cache_counts, dict) else cache_counts[opcode]
            step = -arg if "BACKWARD" in name else arg
            yield at, at + 2 + 2 * caches + step * unit


def assert_same(old, new):
    assert comparable(new) == comparable(old)
    for fact in FACTS:
        assert getattr(new, fact) == getattr(old, fact), fact
    assert [type(const) if isinstance(const, types.CodeType) else const for const in new.co_consts] == [
        type(const) if isinstance(const, types.CodeType) else const for const in old.co_consts
    ]
    assert new.co_stacksize == old.co_stacksize  # our own measure is never above the compiler's


@pytest.mark.parametrize("shard", range(SHARDS))
def test_standard_library_round_trip(shard):
    count = 0
    for path in standard_library()[shard::SHARDS]:
        module = compiled(path)
        if module is None:
            continue
        made = code_objects(_core.reassemble(module))
        for code in code_objects(module):
            try:
                assert_same(code, next(made))
            except AssertionError as error:
                raise AssertionError("%s: %s, line %d" % (path, code.co_name, code.co_firstlineno)) from error
            count += 1
    assert count > 1000

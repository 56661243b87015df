"""bytecode/opcodes/*.def against the live interpreter: names, numbers, caches, stack effects."""

import dis
import opcode
import sys

import pytest

from framejit_bytecode import _core

VERSION = "%d.%d" % sys.version_info[:2]
TABLE = _core.tables()[VERSION]
INTERNAL = ("INSTRUMENTED_", "INTERPRETER_EXIT", "RESERVED", "ENTER_EXECUTOR", "EXIT_INIT_CHECK")
PREFIXES = {"EXTENDED_ARG", "CACHE", "KW_NAMES", "PRECALL"}
ARGS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 17, 40, 255, 256, 258, 1024)

# Where the compiler's figure is not what one instruction does to the stack.
#   3.8: the compiler counts a finally body as entered with six values always.
#   3.11: PRECALL takes part of CALL's effect; 3.12: it counts an exhausted loop's jump to END_FOR, which never runs.
#   3.11, 3.12: what a generator is first resumed with counts as there from the start.
DIFFERENT = {
    "3.8": {"BEGIN_FINALLY", "CALL_FINALLY", "END_FINALLY", "POP_FINALLY", "WITH_CLEANUP_START", "WITH_CLEANUP_FINISH"},
    "3.11": {"CALL", "RETURN_GENERATOR"},
    "3.12": {"FOR_ITER", "RETURN_GENERATOR"},
    "3.13": {"FOR_ITER"},
}.get(VERSION, set())
SETUPS = {"SETUP_FINALLY", "SETUP_WITH", "SETUP_ASYNC_WITH"}  # their jump is the handler's entry
# Instructions for which not every argument is one that the compiler makes.
VALID_ARGS = {
    "BUILD_SLICE": (2, 3),
    "RAISE_VARARGS": (0, 1, 2),
    "COPY": (1, 2, 3),
    "SWAP": (2, 3, 4),
    "ROT_N": (4, 5),
    "FORMAT_VALUE": tuple(range(8)),
    "MAKE_FUNCTION": tuple(range(16)),
    "COMPARE_OP": {"3.8": tuple(range(11)), "3.12": (0, 16, 40), "3.13": (0, 16, 72, 88)}.get(VERSION, tuple(range(6))),
    "BINARY_OP": tuple(range(26)),
    "CALL_INTRINSIC_1": (1, 2, 3, 4, 5, 6),
    "CALL_INTRINSIC_2": (1, 2, 3),
    "CALL_FUNCTION_EX": (0, 1),
    "LOAD_FAST_LOAD_FAST": (0x12,),
    "STORE_FAST_LOAD_FAST": (0x12,),
    "STORE_FAST_STORE_FAST": (0x12,),
    "POP_FINALLY": (0, 1),
    "GEN_START": (0, 1, 2),
    "IS_OP": (0, 1),
    "CONTAINS_OP": (0, 1),
}
PAIR_EFFECT = {"LOAD_FAST_LOAD_FAST": 2, "STORE_FAST_LOAD_FAST": 0, "STORE_FAST_STORE_FAST": -2}


def real_opcodes():
    return {name: code for name, code in opcode.opmap.items() if code < 256 and not name.startswith(INTERNAL)}


def test_table_has_the_opcodes_of_the_interpreter():
    assert {name: row["number"] for name, row in TABLE.items()} == real_opcodes()


def test_cache_counts():
    entries = getattr(opcode, "_inline_cache_entries", None)
    for name, row in TABLE.items():
        if entries is None:
            assert row["caches"] == 0
        else:
            expected = entries.get(name, 0) if isinstance(entries, dict) else entries[row["number"]]
            assert row["caches"] == expected, name


def test_jumps():
    jumps = set(opcode.hasjrel) | set(opcode.hasjabs)
    assert {name for name, row in TABLE.items() if row["jumps"]} == {
        name for name, code in real_opcodes().items() if code in jumps
    }


@pytest.mark.parametrize("name", sorted(set(TABLE) - PREFIXES - DIFFERENT))
def test_stack_effect(name):
    row = TABLE[name]
    number = row["number"]
    takes_argument = number >= opcode.HAVE_ARGUMENT if sys.version_info < (3, 13) else number in dis.hasarg
    for arg in VALID_ARGS.get(name, ARGS) if takes_argument else (0,):
        if name in PAIR_EFFECT:
            assert dis.stack_effect(number, arg) == PAIR_EFFECT[name]
            continue
        for jump in (False, True) if row["jumps"] and name not in SETUPS else (False,):
            expected = dis.stack_effect(number, arg if takes_argument else None, jump=jump)
            assert _core.stack_effect(VERSION, number, arg, jump) == expected, (arg, jump)


def test_every_canonical_operation_occurs_in_some_version():
    """A row of sim_ops.def that no table reaches would never be run."""
    reached = {row["op"] for table in _core.tables().values() for row in table.values()}
    only_from_arguments = {"LoadMethod", "IsOp", "ContainsOp", "ExcMatch", "UnaryOp", "ListToTuple", "Rot", "Swap"}
    assert set(_core.sim_ops()) - reached - only_from_arguments == set()


def test_tables_of_all_versions_are_in_the_build():
    assert sorted(_core.tables()) == ["3.10", "3.11", "3.12", "3.13", "3.8", "3.9"]

"""Prints bytecode/opcodes/py3XY.def for the interpreter that runs it.

Numbers and cache counts come from the interpreter, meanings from the tables below: for a new CPython version, run it,
add what it says is unknown, and review the result like code. tests/python/test_bytecode_tables.py holds the committed
tables equal to the live interpreters.
"""

import opcode
import sys

VERSION = sys.version_info[:2]

BINARY = [
    "ADD",
    "AND",
    "FLOOR_DIVIDE",
    "LSHIFT",
    "MATRIX_MULTIPLY",
    "MULTIPLY",
    "MODULO",
    "OR",
    "POWER",
    "RSHIFT",
    "SUBTRACT",
    "TRUE_DIVIDE",
    "XOR",
]
BINARY_KIND = {"MODULO": "Remainder"}

# Operations that have CPython's name in CamelCase and no argument.
PLAIN = """
NOP POP_TOP PUSH_NULL END_SEND BINARY_SUBSCR BINARY_SLICE STORE_SLICE STORE_SUBSCR DELETE_SUBSCR GET_LEN MATCH_MAPPING
MATCH_SEQUENCE MATCH_KEYS PUSH_EXC_INFO CHECK_EXC_MATCH CHECK_EG_MATCH WITH_EXCEPT_START GET_AITER GET_ANEXT
BEFORE_ASYNC_WITH BEFORE_WITH CLEANUP_THROW GET_ITER GET_YIELD_FROM_ITER LOAD_BUILD_CLASS
LOAD_ASSERTION_ERROR RETURN_GENERATOR RETURN_VALUE SETUP_ANNOTATIONS LOAD_LOCALS PRINT_EXPR IMPORT_STAR
YIELD_FROM POP_BLOCK BEGIN_FINALLY END_FINALLY WITH_CLEANUP_START WITH_CLEANUP_FINISH LIST_TO_TUPLE
COPY_DICT_WITHOUT_KEYS FORMAT_SIMPLE FORMAT_WITH_SPEC TO_BOOL
""".split()
# The same, with CPython's argument as it is.
RAW = """
BUILD_TUPLE BUILD_LIST BUILD_SET BUILD_MAP BUILD_CONST_KEY_MAP BUILD_STRING BUILD_SLICE LIST_APPEND SET_ADD MAP_ADD
LIST_EXTEND SET_UPDATE DICT_UPDATE DICT_MERGE BUILD_TUPLE_UNPACK BUILD_TUPLE_UNPACK_WITH_CALL BUILD_LIST_UNPACK
BUILD_SET_UNPACK BUILD_MAP_UNPACK BUILD_MAP_UNPACK_WITH_CALL UNPACK_SEQUENCE SWAP COPY GEN_START RESUME IS_OP
CONTAINS_OP CONVERT_VALUE COPY_FREE_VARS POP_FINALLY SET_FUNCTION_ATTRIBUTE MATCH_CLASS
""".split()
RAW_OR_PLAIN = "YIELD_VALUE GET_AWAITABLE".split()
NAMES = """
LOAD_NAME STORE_NAME DELETE_NAME LOAD_GLOBAL STORE_GLOBAL DELETE_GLOBAL LOAD_FROM_DICT_OR_GLOBALS LOAD_ATTR LOAD_METHOD
STORE_ATTR DELETE_ATTR IMPORT_NAME IMPORT_FROM
""".split()
LOCALS = "LOAD_FAST STORE_FAST DELETE_FAST LOAD_FAST_AND_CLEAR".split()
DEREFS = "MAKE_CELL LOAD_CLOSURE LOAD_DEREF STORE_DEREF DELETE_DEREF LOAD_CLASSDEREF LOAD_FROM_DICT_OR_DEREF".split()
UNARY = {"UNARY_POSITIVE": "Positive", "UNARY_NEGATIVE": "Negative", "UNARY_NOT": "Not", "UNARY_INVERT": "Invert"}
CAMEL = {"LOAD_CLASSDEREF": "LoadClassDeref", "YIELD_VALUE": "YieldValue"}
METHOD_LAYOUT = "kNullAbove" if VERSION >= (3, 13) else "kNullBelow"


def camel(name):
    return CAMEL.get(name) or "".join(part.capitalize() for part in name.split("_"))


def jump_kind(name):
    code = opcode.opmap[name]
    if code in opcode.hasjabs:
        return "JumpAbs"
    return "JumpBack" if "BACKWARD" in name else "JumpRel"


def condition(name):
    for suffix, value in (("NOT_NONE", "NotNone"), ("NONE", "None"), ("FALSE", "False"), ("TRUE", "True")):
        if suffix in name:
            return "int(JumpCondition::k%s)" % value
    raise KeyError(name)


def special_meanings():  # {name: (argument kind, operation, fixed argument, aux)}
    layout = "int(CallLayout::%s)"
    special = {
        "EXTENDED_ARG": ("ExtendedArg", "Nop", 0, 0),
        "CACHE": ("Cache", "Nop", 0, 0),
        "KW_NAMES": ("KwNames", "Nop", 0, 0),
        "PRECALL": ("Precall", "Nop", 0, 0),
        "LOAD_CONST": ("Const", "LoadConst", 0, 0),
        "RETURN_CONST": ("Const", "ReturnConst", 0, 0),
        "LOAD_FAST_CHECK": ("Local", "LoadFast", 0, 0),
        "LOAD_FAST_LOAD_FAST": ("LocalPair", "LoadFast", 0, "int(SimOp::kLoadFast)"),
        "STORE_FAST_LOAD_FAST": ("LocalPair", "StoreFast", 0, "int(SimOp::kLoadFast)"),
        "STORE_FAST_STORE_FAST": ("LocalPair", "StoreFast", 0, "int(SimOp::kStoreFast)"),
        "ROT_TWO": ("Fixed", "Swap", 2, 0),
        "ROT_THREE": ("Fixed", "Rot", 3, 0),
        "ROT_FOUR": ("Fixed", "Rot", 4, 0),
        "ROT_N": ("Raw", "Rot", 0, 0),
        "DUP_TOP": ("Fixed", "Copy", 1, 0),
        "DUP_TOP_TWO": ("None", "DupTwo", 0, 0),
        "BINARY_OP": ("Binary", "BinaryOp", 0, 0),
        "COMPARE_OP": (
            {(3, 8): "Compare38", (3, 12): "Compare312", (3, 13): "Compare313"}.get(VERSION, "Raw"),
            "CompareOp",
            0,
            0,
        ),
        "LOAD_SUPER_ATTR": ("SuperAttr", "LoadSuperAttr", 0, layout % METHOD_LAYOUT),
        "FORMAT_VALUE": ("Format", "FormatValue", 0, 0),
        "UNPACK_EX": ("UnpackEx", "UnpackEx", 0, 0),
        "CALL_FUNCTION": ("Raw", "Call", 0, layout % "kPlain"),
        "CALL_METHOD": ("Raw", "Call", 0, layout % "kNullBelow"),
        "CALL_FUNCTION_KW": ("CallKw", "Call", 0, layout % "kPlain"),
        "CALL": ("Raw", "Call", 0, layout % METHOD_LAYOUT),
        "CALL_KW": ("CallKw", "Call", 0, layout % METHOD_LAYOUT),
        "CALL_FUNCTION_EX": ("Raw", "CallEx", 0, layout % (METHOD_LAYOUT if VERSION >= (3, 11) else "kPlain")),
        "MAKE_FUNCTION": ("None" if VERSION >= (3, 13) else "Raw", "MakeFunction", 0, int(VERSION < (3, 11))),
        "CALL_INTRINSIC_1": ("Intrinsic1", "IntrinsicUnary", 0, 0),
        "CALL_INTRINSIC_2": ("Intrinsic2", "IntrinsicBinary", 0, 0),
        "ASYNC_GEN_WRAP": ("Fixed", "IntrinsicUnary", "int(UnaryIntrinsic::kAsyncGenWrap)", 0),
        "PREP_RERAISE_STAR": ("Fixed", "IntrinsicBinary", "int(BinaryIntrinsic::kPrepReraiseStar)", 0),
        "POP_EXCEPT": ("None", "PopExcept", 0, 1 if VERSION >= (3, 11) else 3),
        "RERAISE": ("None" if VERSION == (3, 9) else "Raw", "Reraise", 0, 1 if VERSION >= (3, 11) else 3),
        "END_ASYNC_FOR": ("None", "EndAsyncFor", 0, 2 if VERSION >= (3, 11) else 7),
        "RAISE_VARARGS": ("Raw", "Raise", 0, 0),
        "END_FOR": ("Fixed", "EndFor", 1 if VERSION >= (3, 13) else 2, 0),
        "MATCH_KEYS": ("None", "MatchKeys", 0, int(VERSION == (3, 10))),
        "MATCH_CLASS": ("Raw", "MatchClass", 0, int(VERSION == (3, 10))),
    }
    if VERSION >= (3, 11):
        special["LOAD_GLOBAL"] = ("NameAndNull", "LoadGlobal", 0, layout % METHOD_LAYOUT)
    if VERSION >= (3, 12):
        special["LOAD_ATTR"] = ("NameOrMethod", "LoadAttr", 0, layout % METHOD_LAYOUT)
    return special


def meaning(name):  # -> (argument kind, operation, fixed argument, aux)
    layout = "int(CallLayout::%s)"
    special = special_meanings()
    if name in special:
        return special[name]
    if name == "LOAD_METHOD":
        return "Name", "LoadMethod", 0, layout % "kNullBelow"
    if name in PLAIN:
        return "None", camel(name), 0, 0
    if name in RAW or name in RAW_OR_PLAIN:
        return ("Raw" if opcode.opmap[name] >= opcode.HAVE_ARGUMENT else "None"), camel(name), 0, 0
    if name in NAMES:
        return "Name", camel(name), 0, 0
    if name in LOCALS:
        return "Local", camel(name), 0, 0
    if name in DEREFS:
        return "Deref", camel(name), 0, 0
    if name in UNARY:
        return "Fixed", "UnaryOp", "int(UnaryKind::k%s)" % UNARY[name], 0
    for prefix, inplace in (("BINARY_", 0), ("INPLACE_", 1)):
        if name.startswith(prefix) and name[len(prefix) :] in BINARY:
            kind = name[len(prefix) :]
            return "Fixed", "BinaryOp", "int(BinaryKind::k%s)" % BINARY_KIND.get(kind, camel(kind)), inplace
    if name in ("JUMP_FORWARD", "JUMP_ABSOLUTE", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"):
        return jump_kind(name), "Jump", 0, int("NO_INTERRUPT" in name)
    if name.startswith("POP_JUMP_"):
        return jump_kind(name), "PopJumpIf", 0, condition(name)
    if name in ("JUMP_IF_FALSE_OR_POP", "JUMP_IF_TRUE_OR_POP"):
        return jump_kind(name), "JumpIfOrPop", 0, condition(name)
    if name in (
        "JUMP_IF_NOT_EXC_MATCH",
        "FOR_ITER",
        "SEND",
        "SETUP_FINALLY",
        "SETUP_WITH",
        "SETUP_ASYNC_WITH",
        "CALL_FINALLY",
    ):
        return jump_kind(name), camel(name), 0, int(name == "SEND" and VERSION == (3, 11))
    return None


def caches(name, code):
    entries = getattr(opcode, "_inline_cache_entries", None)
    if entries is None:
        return 0
    return entries.get(name, 0) if isinstance(entries, dict) else entries[code]


def main():
    skip = ("INSTRUMENTED_", "INTERPRETER_EXIT", "RESERVED", "ENTER_EXECUTOR", "EXIT_INIT_CHECK")
    print(
        "// CPython %d.%d. OP(NAME, number, caches, ArgKind, SimOp, fixed arg, aux); see bytecode/opcode_table.h."
        % VERSION
    )
    print("// Drafted by tools/draft_opcode_table.py, held to the interpreter by tests/python/test_bytecode_tables.py.")
    unknown = []
    for name, code in sorted(opcode.opmap.items(), key=lambda item: item[1]):
        if code >= 256 or name.startswith(skip):
            continue
        row = meaning(name)
        if row is None:
            unknown.append(name)
            continue
        print("OP(%s, %d, %d, %s, %s, %s, %s)" % ((name, code, caches(name, code)) + row))
    if unknown:
        sys.exit("unknown: " + " ".join(unknown))


if __name__ == "__main__":
    main()

"""What a program can see of its captures, in a process where every frame is captured.

Each program runs in an interpreter of its own, since the capture is for good. What asserts is in functions that name
sys.getrefcount or the like, or in a module's body: those run eagerly or from regenerated code, as the programs' do.
"""

import os
import subprocess
import sys
import textwrap

import pytest

import framejit_bytecode

PACKAGES = os.path.dirname(os.path.dirname(framejit_bytecode.__file__))
START = """
import gc, sys, weakref
from framejit_bytecode import _core
"""


def run_captured(tmp_path, program, before=""):
    """`before` runs first, eagerly."""
    path = tmp_path / "program.py"
    path.write_text(START + textwrap.dedent(before) + "_core.capture_everything()\n" + textwrap.dedent(program))
    env = dict(os.environ, PYTHONPATH=PACKAGES, FRAMEJIT_STRICT="1", PYTHONDONTWRITEBYTECODE="1")
    run = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(path)],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stdout[-4000:]


def test_capture_keeps_no_text_that_it_was_called_with(tmp_path):
    run_captured(
        tmp_path,
        """
        def is_known(text): return text == "known text"
        def length(data): return len(data + b"abc")
        def last(parts): return parts[-1]

        def added(call, argument, *parts):
            before = [sys.getrefcount(part) for part in parts]
            for _ in range(3): call(argument)
            after = [sys.getrefcount(part) for part in parts]
            return [now - count for now, count in zip(after, before)]

        text, data = "".join(["some ", "text"]), bytes([1, 2, 3])
        assert added(is_known, text, text) == [0]
        assert added(length, data, data) == [0]
        assert added(last, (text, data, 1), text, data) == [0, 0]
        assert not is_known(text) and is_known("".join(["known ", "text"])) and length(data) == 6
        """,
    )


def test_text_that_was_looked_at_goes_on_as_the_same_object(tmp_path):
    run_captured(
        tmp_path,
        """
        def checked(text): return text if text.startswith("some") else None
        def kept(texts, text):
            if text != "other text": texts.append(text)

        a, b = "".join(["some ", "text"]), "".join(["some ", "text"])
        assert checked(a) is a and checked(b) is b and checked(a) is a
        texts = []
        for text in (a, b): kept(texts, text)
        assert a is not b and texts[0] is a and texts[1] is b
        """,
    )


def test_key_that_was_looked_for_dies_with_the_program(tmp_path):
    run_captured(
        tmp_path,
        """
        def add(table, key):
            if key not in table: table[key] = len(table)
            return key in table

        def made():
            class Key: pass
            assert add({}, Key) and add({Key: 1, "other": 2}, Key)
            return weakref.ref(Key)

        for _ in range(3):
            key = made()
            gc.collect()
            assert key() is None
        """,
    )


def test_keys_of_a_dictionary_that_was_read_die_with_the_program(tmp_path):
    run_captured(
        tmp_path,
        """
        def total(table): return sum(table.values())
        def names(kinds): return sorted(kind.__name__ for kind in kinds)

        def made():
            class Key: pass
            class Other: pass
            table = {Key: 1, "text": 2, Other: 3}
            assert total(table) == total(table) == 6
            assert total({Other: 1, "text": 2, Key: 4}) == 7
            assert names({Key, Other}) == names(frozenset([Key, Other])) == ["Key", "Other"]
            return weakref.ref(Key), weakref.ref(Other)

        for _ in range(3):
            keys = made()
            gc.collect()
            assert [key() for key in keys] == [None, None]
        """,
    )


def test_frame_takes_one_level_of_recursion(tmp_path):
    run_captured(
        tmp_path,
        """
        def deepest(call, *args):
            try: call(*args)
            except RecursionError as error: return levels(error.__traceback__)

        def levels(entry):
            count = 0
            while entry: count, entry = count + 1, entry.tb_next
            return count

        def plain(): plain()
        def within(n): return [n] + within(n + 1)
        def handled(n):
            try: return handled(n + 1)
            finally: n += 1
        def first(n): return second(n + 1)
        def second(n): return first(n + 1)

        limit = sys.getrecursionlimit()
        for call, *args in [(plain,), (within, 0), (handled, 0), (first, 0)] * 2:
            found = deepest(call, *args)
            assert limit - 30 < found <= limit, (call, found)
        """,
    )


def test_functions_that_share_their_annotations_go_on_sharing_them(tmp_path):
    run_captured(
        tmp_path,
        """
        import functools

        def check(outer, inner):
            assert outer.__annotations__ is inner.__annotations__, sys.getrefcount(outer)

        def share():
            def inner(): pass
            @functools.wraps(inner)
            def outer(): pass
            check(outer, inner)

        for _ in range(3): share()
        """,
    )


def test_key_that_changes_the_class_while_it_is_compared(tmp_path):
    run_captured(
        tmp_path,
        """
        class Key:
            def __hash__(self): return hash("attribute")
            def __eq__(self, other):
                compared.append(other)
                if hasattr(C, "attribute"): del C.attribute
                return False

        class Descriptor:
            def __get__(self, obj, kind=None): return 1

        class C: pass

        def read(obj): return obj.attribute

        for _ in range(3):
            C.attribute, compared, obj = Descriptor(), [], C()
            obj.__dict__[Key()] = 0
            assert read(obj) == 1 and set(compared) == {"attribute"} and not hasattr(obj, "attribute"), compared
        """,
    )


def test_dictionary_of_an_object_of_the_trace_stays_its_own(tmp_path):
    run_captured(
        tmp_path,
        """
        class C: pass
        class Key:
            def __hash__(self): return 1

        def made(key):
            obj = C()
            obj.first = 1
            obj.__dict__[key()] = 2  # its __hash__ may end the capture, with the dictionary on the stack
            names = vars(obj)
            names["last"] = 3
            return obj, names

        def call(key):
            sys.intern("ends the capture")
            return made(key)

        for key in [str, Key, object] * 2:
            for make in made, call:
                obj, names = make(key)
                assert vars(obj) is names and obj.last == 3 and list(names.values()) == [1, 2, 3], (key, names)
        """,
    )


FAILING_CALLS = """
import dis

def divide(n):
    kept = [n]
    sys.intern("ends the capture")
    return kept[0] / (n - n)

def deep(n):
    before = n + 1
    return divide(before) + 1

def loop(n):
    for i in range(n):
        text = str(i)
        if i == 2: raise KeyError(text)

def handler(n):
    try:
        divide(n)
    except ZeroDivisionError as error:
        raise ValueError(n) from error

def cleanup(n):
    try:
        return int("no number")
    finally:
        n += 1
        sys.intern("ends the capture")

def method(n):
    return "text".join(n)

def gives_traceback(n):
    try:
        divide(n)
    except ZeroDivisionError as error:
        return error.__traceback__

def gives_exception(n):
    try:
        raise LookupError(n)
    except LookupError as error:
        found = error
    return found

def gives_all(n):
    try: divide(n)
    except ZeroDivisionError: return sys.exc_info()

def outcome(call):
    try:
        result = call(7)
    except Exception as error:
        return error, error.__traceback__.tb_next
    if isinstance(result, Exception): return result, result.__traceback__
    if isinstance(result, tuple): return result[1], result[2]
    return None, result

def instruction(code, lasti):
    # A call of a Python function may stand at the cache behind it.
    return max(i.offset for i in dis.get_instructions(code) if i.offset <= lasti)

def shown(error, entry):
    parts = [repr(error)]
    while entry:
        frame = entry.tb_frame
        code, places = frame.f_code, (entry.tb_lasti, frame.f_lasti)
        parts.append((code, [instruction(code, place) for place in places], entry.tb_lineno, frame.f_lineno))
        parts.append(sorted((name, repr(value)) for name, value in frame.f_locals.items() if name != "found"))
        entry = entry.tb_next
    return parts

calls = [divide, deep, loop, handler, cleanup, method, gives_traceback, gives_exception, gives_all]
eager = {call: shown(*outcome(call)) for call in calls}
"""


def test_frame_that_an_exception_has_ended_shows_its_own_code(tmp_path):
    run_captured(
        tmp_path,
        """
        for _ in range(3):
            for call in calls:
                found = shown(*outcome(call))
                assert found == eager[call], (call.__name__, found, eager[call])
        """,
        before=FAILING_CALLS,
    )


def test_function_that_a_weak_reference_watches_dies_where_its_name_is_deleted(tmp_path):
    run_captured(
        tmp_path,
        """
        class Case:
            def died(self, reference): self.deaths += 1
            def check(self, make):
                self.deaths = 0
                made = make()
                reference = weakref.ref(made, self.died)
                del made
                self.expect(self.deaths, 1)
                return reference()
            def expect(self, found, wanted):
                if found != wanted: raise AssertionError((found, wanted))

        def function():
            def inner(): pass
            return inner

        def method(): return Case().died

        for _ in range(3):
            for make in Case, function, method: assert Case().check(make) is None
        """,
    )


@pytest.mark.skipif(
    sys.version_info >= (3, 11), reason="since 3.11 eager differs from itself: its objects come to share tables"
)
def test_taking_the_only_item_leaves_the_table_that_it_leaves_in_eager(tmp_path):
    run_captured(
        tmp_path,
        """
        for _ in range(3): assert [size(take) for take in takes] == eager, ([size(take) for take in takes], eager)
        """,
        before="""
        def pop(obj): return obj.__dict__.pop("a")
        def popitem(obj): return vars(obj).popitem()
        def delete(obj): del obj.__dict__["a"]

        def size(take):
            class C: pass
            sizes = []
            for i in range(3):
                obj = C()
                obj.a = 1
                take(obj)
                sizes.append(sys.getsizeof(obj.__dict__))
                obj.a = 2
                sizes.append(sys.getsizeof(obj.__dict__))
            return sizes

        takes = [pop, popitem, delete]
        eager = [size(take) for take in takes]
        """,
    )


def test_exception_given_back_without_its_traceback(tmp_path):
    run_captured(
        tmp_path,
        """
        for n in range(3): assert caller(n) == (n,)
        """,
        before="""
        import traceback

        class Expected:  # as unittest.TestCase.assertRaises
            def __enter__(self): return self
            def __exit__(self, kind, error, entry):
                traceback.clear_frames(entry)
                self.error = error.with_traceback(None)
                return True

        def fails(n): raise LookupError(n)

        def gives_exception(n):
            with Expected() as expected: fails(n)
            return expected.error

        def caller(n):
            error = gives_exception(n)
            return error.args
        """,
    )


def test_data_that_others_keep_with_a_code_object_is_freed_where_its_function_is_let_go(tmp_path):
    run_captured(
        tmp_path,
        """
        def first(): return index
        index = 0
        first()
        index = request_index(on_free)

        class Holder: pass

        def from_local(number):
            f = eval("lambda: 42")
            set_extra(f.__code__, index, ctypes.c_void_p(number))
            del f
            return number in freed

        def from_attribute(number):
            holder = Holder()
            holder.f = eval("lambda: 42")
            set_extra(holder.f.__code__, index, ctypes.c_void_p(number))
            del holder.f
            return number in freed

        def let_go(holder, number):
            del holder.f
            return number in freed

        def from_callee(number):
            holder = Holder()
            holder.f = eval("lambda: 42")
            set_extra(holder.f.__code__, index, ctypes.c_void_p(number))
            return let_go(holder, number)

        for number in 100, 200, 300:
            for i, check in enumerate((from_local, from_attribute, from_callee)): assert check(number + i), (check, number)
        # Nor are those who came after us told of the end of code that they put nothing into.
        assert freed == [100, 101, 102, 200, 201, 202, 300, 301, 302], freed
        """,
        before="""
        import ctypes

        def api(old, new): return getattr(ctypes.pythonapi, new if sys.version_info >= (3, 12) else old)

        freed = []
        on_free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(freed.append)
        request_index = api("_PyEval_RequestCodeExtraIndex", "PyUnstable_Eval_RequestCodeExtraIndex")
        request_index.restype = ctypes.c_ssize_t
        set_extra = api("_PyCode_SetExtra", "PyUnstable_Code_SetExtra")
        set_extra.argtypes = (ctypes.py_object, ctypes.c_ssize_t, ctypes.c_void_p)
        """,
    )


def test_code_that_walks_the_collectors_objects_finds_none_of_captures_made_meanwhile(tmp_path):
    run_captured(
        tmp_path,
        """
        class Point:
            def __init__(self, x, y): self.x, self.y = x, y
            def parts(self, *names): return [getattr(self, name) for name in names]

        def use(local, first, second):
            local == local
            Point(1, 2).parts("x", "y"), local.method(), first(second), sys.intern("ends the capture"), second()

        def count():
            class Local:
                def __eq__(self, other): return False
                def method(self): return Local
            def first(callee): return callee()
            def second(): return isinstance(local, Local)
            local = Local()
            gc.collect()
            before = len(gc.get_objects())
            for _ in range(10):
                local == local
                use(local, first, second)
            return len(gc.get_objects()) - before

        def hits(): return _core.capture_stats()["hits"]

        assert count() == 0 and count() == 0
        # Captured again once that is over.
        before = hits()
        for _ in range(3): Point(1, 2).parts("x")
        assert hits() > before
        """,
    )


def test_module_that_was_imported_anew_dies_with_the_program(tmp_path):
    run_captured(
        tmp_path,
        """
        def write(module):
            module.mark = 1
            return module.mark + 1

        def written(name):
            module = fresh(name)
            reference = weakref.ref(module)
            write(module)
            del module
            gc.collect()
            return reference()

        for _ in range(3):
            found = [call(name) is None for call, name in calls]
            assert found == eager, (found, eager)
            assert written("_struct") is None or not eager[0]
            assert written("made by hand") is None
        """,
        before="""
        import importlib, _struct, types

        def fresh(name):
            if name == "made by hand": return types.ModuleType(name)
            saved = sys.modules.pop(name)
            try: return importlib.import_module(name)
            finally: sys.modules[name] = saved

        def called(name):
            module = fresh(name)
            reference = weakref.ref(module)
            module.calcsize("b")
            del module
            gc.collect()
            return reference()

        def called_twice(name):
            module = fresh(name)
            reference = weakref.ref(module)
            sizes = [module.calcsize(code) for code in "bi"]
            sizes.append(module.unpack("b", bytes(1)))
            del module
            gc.collect()
            return reference()

        calls = (called, "_struct"), (called_twice, "_struct")
        eager = [call(name) is None for call, name in calls]
        """,
    )


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="only 3.11 specialises code by how often it ran")
def test_function_that_ran_in_captures_is_specialised(tmp_path):
    run_captured(
        tmp_path,
        """
        def pair(a, b):
            c = a
            return c, b

        def unrelated(a): return pair(a, a)

        def followed():
            for _ in range(20): pair(1, 2)

        def is_specialised(function): return function.__code__._co_code_adaptive != function.__code__.co_code

        followed()
        assert is_specialised(pair) and not is_specialised(unrelated) and not is_specialised(followed)
        for i in range(20): unrelated(i)
        assert is_specialised(unrelated) and pair(1, 2) == (1, 2) and unrelated(3) == (3, 3)
        """,
    )


def test_members_of_enumerations_are_keys(tmp_path):
    run_captured(
        tmp_path,
        """
        import enum

        class Kind(enum.Enum):
            SMALL = 1
            LARGE = 2

        TABLE = {Kind.SMALL: "s", Kind.LARGE: "l"}
        SEEN = {Kind.SMALL}

        def first():
            for name in TABLE.values():
                return name

        def look_up(kind): return TABLE[kind], kind in SEEN, kind in TABLE

        def take_out(table):
            table[Kind.LARGE] = table.pop(Kind.SMALL)
            del table[Kind.LARGE]
            table[Kind.SMALL] = "new"
            return list(table)

        for _ in range(3):
            assert first() == "s"
            assert look_up(Kind.SMALL) == ("s", True, True) and look_up(Kind.LARGE) == ("l", False, True)
            table = dict(TABLE)
            assert take_out(table) == [Kind.SMALL] and table == {Kind.SMALL: "new"}
        """,
    )


def test_keys_of_a_class_that_are_no_strings_compare_as_often_as_in_eager(tmp_path):
    run_captured(
        tmp_path,
        """
        def read(made): return made.name

        made, compared = make()
        assert (read(made), len(compared)) == expected
        """,
        before="""
        import warnings

        def make():
            class Key:
                def __hash__(self):
                    return hash("name")

                def __eq__(self, other):
                    compared.append(1)
                    made.__bases__ = (Second,)
                    return False

            class First:
                name = "from First"

            class Second:
                name = "from Second"

            compared = []
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = type("Made", (First,), {Key(): 5})
            return made, compared

        made, compared = make()
        expected = made.name, len(compared)
        """,
    )


def test_members_of_enumerations_that_a_trace_makes_are_as_many_as_calls(tmp_path):
    run_captured(
        tmp_path,
        """
        import enum

        class Kind(enum.Enum):
            ONE = 1

        class Number(enum.IntEnum):
            ONE = 1

        def make(name, known):
            member = object.__new__(Kind)
            member._value_ = member._name_ = name
            known.append(member)
            return member

        def make_number(value):
            member = int.__new__(Number, value)
            member._value_ = value
            return member

        known = []
        made = [make("other", known) for _ in range(4)]
        assert len(set(map(id, made))) == 4 and list(map(id, known)) == list(map(id, made))
        assert all(type(member) is Kind and member._name_ == "other" for member in made)
        numbers = [make_number(7) for _ in range(4)]
        assert len(set(map(id, numbers))) == 4 and numbers == [7] * 4
        """,
    )

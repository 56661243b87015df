"""Functions with every control structure that a twin must be able to leave and enter. Each case is (function, calls), a
call being a function that makes fresh arguments. What they do is seen in `log`, in the result, or in the exception."""
import contextlib

log = []
CASES = []


def case(*calls):
    def add(fn):
        CASES.append((fn, calls or (lambda: (),)))
        return fn

    return add


class Manager:
    def __init__(self, swallow=None):
        self.swallow = swallow

    def __enter__(self):
        log.append("enter")
        return self

    def __exit__(self, kind, value, traceback):
        log.append(("exit", kind and kind.__name__))
        return self.swallow is not None and kind is not None and issubclass(kind, self.swallow)


class Point:
    def __init__(self, x):
        self.x = x

    def add(self, *args, **kwargs):
        return self.x + sum(args) + sum(kwargs.values())

    def me(self):
        return self

    @property
    def double(self):
        return self.x * 2

    def __add__(self, other):
        return Point(self.x + other)


class Child(Point):
    def add(self, *args):
        return super().add(*args) + super(Child, self).add(1)


def note(value):
    log.append(value)
    return value


def fail(kind, value="oops"):
    raise kind(value)


@case(lambda: (1, 2), lambda: (-3, 2))
def straight(a, b):
    c = a + b
    if c > 0:
        c = c * 2
    else:
        c = note(c) - 1
    return c, a


@case(lambda: (5,), lambda: (0,))
def loop_for(n):
    total = 0
    for i in range(n):
        if i == 1:
            continue
        if i == 4:
            break
        total += note(i)
    else:
        total -= 1
    return total


@case(lambda: (4,))
def loop_while(n):
    total = 0
    while n > 0:
        n -= 1
        if n == 2:
            continue
        total += n * note(n)
    return total


@case(lambda: (3,))
def loop_nested(n):
    out = []
    for i in range(n):
        for j, k in zip(range(i), "abc"):
            out.append((i, j, k))
            while j > 0:
                j -= 1
                note(j)
    return out


@case(lambda: (1,), lambda: (0,), lambda: ("x",))
def try_except(x):
    try:
        note("in")
        y = 10 // x
        note(y)
    except ZeroDivisionError as e:
        note(str(e))
        y = -1
    except (TypeError, ValueError):
        y = note(-2)
    else:
        y += 1
    return y


@case(lambda: (1,), lambda: (0,))
def try_uncaught(x):
    try:
        note("in")
        return 1 // x
    except KeyError:
        return note("never")


@case(lambda: (1,), lambda: (0,))
def try_finally(x):
    y = 0
    try:
        y = 10 // x
        note(y)
    finally:
        note("finally")
        y += 1
    return y


@case(lambda: (3,))
def try_in_loop(n):
    total = 0
    for i in range(n):
        try:
            total += note(i)
            if i == 1:
                raise ValueError(i)
            total *= 2
        except ValueError as e:
            total += e.args[0] * 100
        finally:
            note(("round", i))
    return total


@case(lambda: (1,), lambda: (0,))
def try_nested(x):
    try:
        try:
            note("inner")
            z = 1 / x
        except ZeroDivisionError:
            note("first")
            raise KeyError("second")
        finally:
            note("finally")
    except KeyError as e:
        z = (e.args, type(e.__context__).__name__)
    return z


@case(lambda: (2,))
def return_in_finally_region(n):
    for i in range(n):
        try:
            if i == 1:
                return note(i)
            continue
        finally:
            note("f")
    return None


@case(lambda: (1,), lambda: (0,))
def with_plain(x):
    with Manager() as m:
        note(type(m).__name__)
        y = 10 // x
    return y + 1


@case(lambda: (0,))
def with_swallows(x):
    y = 5
    with Manager(ZeroDivisionError):
        y = note(1) // x
        note("never")
    note("after")
    return y


@case(lambda: (3,), lambda: (9,))
def with_and_for(n):
    total = 0
    with Manager(KeyError) as a, Manager(ValueError):
        for i in range(n):
            with contextlib.suppress(IndexError):
                total += note(i)
                if i == 1:
                    [].pop()
                if i == 5:
                    raise KeyError(i)
            total += 10
    return total


@case(lambda: (2,))
def return_from_with(n):
    with Manager():
        for i in range(5):
            if i == n:
                return note(i)
    return -1


@case(lambda: (1,))
def cells(a, b=2):
    c = a + b

    def inner(d):
        nonlocal c
        c += d
        return c + a

    r = inner(10)
    c *= 2
    return r, c, inner(1), b


def make_closure(free):
    other = (free,)

    def closure(x):
        nonlocal free, other
        free += x
        other += (free,)
        return [free, other, (lambda: x + free)()]

    return closure


CASES.append((make_closure(3), (lambda: (4,),)))


@case(lambda: (1, 2, 3, 4))
def star_args(a, *args, k=5, **kw):
    total = a + sum(args)
    for name in sorted(kw):
        total += kw[name]
    kw["new"] = note(k)
    return total, args, kw


@case(lambda: (1,))
def star_calls(a):
    args = (1, 2)
    kw = {"k": note(a), "z": 7}
    return star_args(*args, **kw), star_args(a, *args, z=4), star_args(a, k=note(3))


@case(lambda: (Point(3),))
def method_calls(p):
    return p.add(p.add(1, note(2)), note(p.me().add(k=note(3))), *[p.add(note(4))]) + p.me().me().x


@case(lambda: (Child(3),), lambda: (Point(1),))
def attributes(p):
    q = p + note(4)
    p.y = q.double + p.add(1)
    p.x += 1
    d = {}
    d["k"] = p.double
    d["k"] -= 1
    del p.y
    return q.x, p.x, d, hasattr(p, "y")


@case(lambda: (Child(3),))
def super_call(p):
    return Child.add(p, note(2))


@case(lambda: ([3, 1, 2],))
def comprehensions(xs):
    n = 10
    a = [x + n for x in xs if note(x) != 1]
    b = {x: [y for y in range(x)] for x in xs}
    c = {note(-x) for x in a}
    return a, b, sorted(c), sum(note(x) for x in xs), [(lambda: x)() for x in xs]


@case(lambda: ([1, 2],))
def comprehension_shadows(x):
    y = [x for x in x]
    z = [[x for x in range(y)] for y in y]
    return x, y, z


@case(lambda: (3,))
def comprehension_catches(n):
    try:
        return [1 // (i - 1) for i in range(note(n))]
    except ZeroDivisionError:
        note("caught")
    return n


@case(lambda: ([1, [2, 3], 4, 5],))
def unpacking(xs):
    a, (b, c), *rest = xs
    a, b = b, a
    first, *middle, last = [a, b, c, *rest]
    return a, b, c, rest, first, middle, last, {**{"a": note(a)}, "b": b}


@case(lambda: ("x", 3), lambda: ("", 0))
def booleans(a, b):
    c = a and note(b) or "neither"
    d = not a
    e = 1 < note(len(a) + 1) < 5
    f = a if b else None
    return c, d, e, f is None, "x" in a, f"{a!r:>5}|{b:03d}|{note(c)}", -b


@case(lambda: (3,))
def slices(n):
    xs = list(range(10))
    ys = xs[n:note(8)]
    xs[1:n] = ys[::2]
    del xs[0]
    xs[note(0)] += 5
    return xs, ys, xs[-1], xs[:2]


@case(lambda: (0,), lambda: (1,))
def asserts(x):
    try:
        assert note(x), "message"
    except AssertionError as e:
        return str(e)
    return "fine"


@case(lambda: (2,), lambda: (3,))
def raises(x):
    if x == 2:
        raise ValueError("bad", x)
    fail(KeyError)


@case(lambda: (2,))
def raises_from(x):
    try:
        fail(KeyError, note(x))
    except KeyError as e:
        raise ValueError(x) from e


@case(lambda: (2,))
def raises_in_call(x):
    y = note(x) + note(
        fail(IndexError, x)
    )
    return y


@case(lambda: (0,))
def bare_raise(x):
    for i in range(2):
        try:
            note(i)
            1 // (x - i + 1)
        except ZeroDivisionError:
            note("handling")
            raise


@case(lambda: (3,))
def handler_with_loop(n):
    total = 0
    try:
        fail(KeyError)
    except KeyError:
        for i in range(n):
            try:
                total += note(i)
                if i:
                    fail(ValueError)
            except ValueError:
                total += 10
            note(type(__import__("sys").exc_info()[1]).__name__)
    return total


@case(lambda: (3,))
def finally_with_loop(n):
    total = 0
    try:
        total = n // 0
    except ZeroDivisionError:
        pass
    finally:
        for i in range(n):
            total += note(i)
    return total


@case(lambda: (1,))
def deleted(x):
    y = x
    del y
    try:
        return y
    except UnboundLocalError:
        y = note(3)
    return y


@case(lambda: (1, 2))
def globals_and_builtins(a, b):
    global made
    made = max(a, note(b))
    r = made + len(log) * 0
    del made
    return r, print.__name__, isinstance(r, int)


@case(lambda: (4,))
def inner_function(n):
    def fact(k, acc=note(1), *, scale=2):
        return acc * scale if k <= 1 else fact(k - 1, acc * k)

    return fact(n), (lambda *a: a)(*range(n)), sorted([3, 1, 2], key=lambda v: -v)


@case(lambda: (2,))
def inner_class(n):
    class Local(Point):
        scale = n

        def scaled(self):
            return self.x * self.scale * n

    return Local(note(3)).scaled()


@case(lambda: (2,))
def imports(n):
    import os.path as p
    from math import ceil, floor

    return p.basename("a/b"), floor(note(n) + 0.5), ceil(n)


@case(lambda: (300,))
def many_constants(n):
    x = n
    x += 1001; x += 1002; x += 1003; x += 1004; x += 1005; x += 1006; x += 1007; x += 1008; x += 1009; x += 1010
    x += 2001; x += 2002; x += 2003; x += 2004; x += 2005; x += 2006; x += 2007; x += 2008; x += 2009; x += 2010
    for i in range(2):
        x += 3001; x += 3002; x += 3003; x += 3004; x += 3005; x += 3006; x += 3007; x += 3008; x += 3009; x += 3010
        note(x)
    return x

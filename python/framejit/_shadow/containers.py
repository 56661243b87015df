"""Reading and putting back containers of builtin types without the methods that a subclass has of its own.

A comparison runs no code of the program: neither of the two runs would have done what that does.
"""

import array
import collections
import types

# An OrderedDict keeps its order beside its dictionary: it stands before dict.
BUILTIN_BASES = (
    collections.OrderedDict,
    dict,
    list,
    collections.deque,
    set,
    frozenset,
    tuple,
    bytearray,
    array.array,
)
BASE_OF_ITSELF = {base: base for base in BUILTIN_BASES}


def reading_runs_code(value):
    """Whether a dictionary's order is out of reach: an OrderedDict hashes its keys to find the next one."""
    return isinstance(value, collections.OrderedDict) and any(map(hash_runs_code, dict.keys(value)))


def hash_runs_code(key):
    if isinstance(key, (tuple, frozenset)):
        return any(map(hash_runs_code, elements(key)))
    return not isinstance(type(key).__hash__, types.WrapperDescriptorType)


def builtin_base(value):
    return BASE_OF_ITSELF.get(type(value)) or next(base for base in BUILTIN_BASES if isinstance(value, base))


def items(value):
    """Of a dictionary, in its order: a list of pairs."""
    return list(builtin_base(value).items(value))


def elements(value):
    """Of any other container, in its order: a list."""
    return list(builtin_base(value).__iter__(value))


def same_objects(left, right):
    return len(left) == len(right) and all(one is other for one, other in zip(left, right))


def restore_sequence(value, saved):
    base = builtin_base(value)
    if same_objects(elements(value), saved):
        return
    if base is array.array:
        del value[:]
    else:
        base.clear(value)
    base.extend(value, saved)


def restore_set(value, saved):
    if set(map(id, elements(value))) != set(map(id, saved)):
        set.clear(value)
        set.update(value, saved)


def restore_dict(value, saved):
    base, now = builtin_base(value), items(value)
    if same_objects([key for key, _ in now], [key for key, _ in saved]):
        changed = [pair for pair, (_, current) in zip(saved, now) if pair[1] is not current]
    else:
        base.clear(value)
        changed = saved
    for key, then in changed:
        base.__setitem__(value, key, then)

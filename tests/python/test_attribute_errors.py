"""Errors of reads, writes and deletions of attributes: their words are those of the version that runs."""

import pytest
import torch

from support.same_as_eager import assert_same_as_eager


class Closed:
    def __init__(self):
        self.plain = 1

    @property
    def read_only(self):
        return 1

    write_only = property(None, lambda self, value: None)


def set_read_only(obj):
    obj.read_only = 2


def get_write_only(obj):
    return obj.write_only


def delete_read_only(obj):
    del obj.read_only


def delete_missing(obj):
    del obj.missing


def delete_twice(obj):
    del obj.plain
    del obj.plain


def object_deletes_missing(obj):
    object.__delattr__(obj, "missing")


def object_deletes_in_class(obj):
    object.__delattr__(obj, "read_only")


def module_deletes_missing(obj):
    del obj.module.missing


REFUSED = [set_read_only, get_write_only, delete_read_only, delete_missing, delete_twice]
REFUSED += [object_deletes_missing, object_deletes_in_class, module_deletes_missing]


@pytest.mark.parametrize("made_inside", [True, False], ids=["made inside", "from outside"])
@pytest.mark.parametrize("refused", REFUSED, ids=lambda fn: fn.__name__)
def test_errors_of_attributes_have_the_words_of_the_version(refused, made_inside):
    def f(x, obj):
        obj = Closed() if made_inside else obj
        y = x + 1
        try:
            refused(obj)
        except AttributeError as error:
            return y, str(error)
        return y

    obj = Closed()
    obj.module = torch.nn.ReLU()
    assert_same_as_eager(f, torch.ones(3), obj, breaks=None, graphs=None, warm=False)

"""Types with arguments that captured code makes: typing's forms, list[int] and int | str."""

import collections
import sys
import typing
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

import pytest
import torch

import framejit
from support.counts import counting
from support.same_as_eager import assert_same_as_eager

FORMS = {
    "union": lambda: Union[int, str],
    "optional": lambda: Optional[int],
    "alias": lambda: Dict[str, List[int]],
    "callable": lambda: Callable[[int, torch.Tensor], Any],
    "of_classes": lambda: Union[torch.Tensor, Tuple[torch.Tensor, ...]],
}
if sys.version_info >= (3, 9):
    FORMS["builtin"] = lambda: list[int]
    FORMS["nested"] = lambda: dict[str, tuple[torch.Tensor, ...]]
    FORMS["of_a_library"] = lambda: collections.deque[int]
    FORMS["union_of_builtins"] = lambda: Union[tuple[torch.Tensor], list[torch.Tensor]]
if sys.version_info >= (3, 10):
    FORMS["joined"] = lambda: int | str | None
    FORMS["joined_builtins"] = lambda: tuple[int, ...] | list[str]
    FORMS["optional_of_joined"] = lambda: Optional[int | str]


@pytest.mark.parametrize("which", FORMS)
def test_form_is_returned(which):
    make = FORMS[which]
    compiled = framejit.to_static(lambda x: (x + 1, make()))
    with counting() as counted:
        found = [compiled(torch.ones(2))[1] for _ in range(3)]
    assert found == [make()] * 3 and [form.__args__ for form in found] == [make().__args__] * 3
    assert (counted.captures, counted.hits, counted.breaks) == (1, 2, 0)


@pytest.mark.parametrize("which", FORMS)
def test_form_outlives_a_break(which):
    make = FORMS[which]

    def fn(x):
        form = make()
        framejit.graph_break()
        return x + 1, form

    compiled = framejit.to_static(fn)
    found = [compiled(torch.ones(2))[1] for _ in range(3)]
    assert found == [make()] * 3 and all(type(form) is type(make()) for form in found)
    assert [form.__args__ for form in found] == [make().__args__] * 3


@pytest.mark.parametrize("which", FORMS)
def test_cast_names_a_form(which):
    make = FORMS[which]
    assert_same_as_eager(lambda x: typing.cast(make(), x + 1) * 2, torch.ones(2))

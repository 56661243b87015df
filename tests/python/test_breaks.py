"""Every kind of graph break in every place: all that eager does happens, and the graphs on both sides stay."""

import pytest

from support import counts
from support.counts import at_least
from support.programs import CATCHING, FAILING_ASSERT, KINDS, PLACES, build, example_input
from support.same_as_eager import assert_same_as_eager


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_break_is_eager_with_graphs_on_both_sides(kind, place):
    fn = build(place, KINDS[kind])
    exact = place == "straight_line" and kind not in ("while", "numpy")
    compiled = assert_same_as_eager(
        fn, example_input(), False, graphs=2 if exact else at_least(2), breaks=1 if exact else at_least(1)
    )
    counts.check_captured(compiled, "sin", "cos")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", ["if", "print", "item", "graph_break"])
def test_exception_after_a_break_is_eager(kind, place):
    fn = build(place, KINDS[kind])
    raises = None if place in CATCHING else ValueError
    assert_same_as_eager(fn, example_input(), True, graphs=at_least(1), breaks=at_least(1), raises=raises)


@pytest.mark.parametrize("place", PLACES)
def test_failing_data_dependent_assert_is_eager(place):
    fn = build(place, FAILING_ASSERT)
    assert_same_as_eager(fn, example_input(), False, graphs=at_least(1), breaks=at_least(1), raises=AssertionError)

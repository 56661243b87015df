"""The data of tensors that are the same on each call is known to a capture: asking for it breaks nothing."""

import torch

from support.same_as_eager import assert_same_as_eager


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


def check(fn, *args, **options):
    return assert_same_as_eager(fn, *(args or (x3(),)), **options)


def test_branch_on_a_mask_of_ones():
    def f(x):
        mask = torch.ones(2, 3)
        if (mask == 1).all():
            return x + 1
        return x * mask

    check(f)


def test_numbers_of_ranges_and_shapes():
    def f(x):
        positions = torch.arange(x.shape[0])
        steps = torch.diff(positions, prepend=positions[:1] - 1)
        if (steps != 1).cumsum(-1)[-1] == 0:
            x = x * positions.sum().item()
        return x + float(torch.linspace(0, 1, 5).max()), int(positions[-1])

    check(f)


def test_writes_through_views_count():
    def f(x):
        table = torch.zeros(4)
        tail = table[1:]
        tail.fill_(2)
        table[0] = 7
        data = torch.tensor([1.0, 2.0])
        data.add_(1)
        return x + table.sum().item(), bool(data[0] == 2), torch.equal(table, torch.tensor([7.0, 2.0, 2.0, 2.0]))

    check(f)


def test_constant_written_with_an_input_is_not_known():
    def f(x):
        table = torch.zeros(3)
        view = table[:2]
        table.add_(x)
        if view.sum() > 0:
            return x + 1
        return x - 1

    check(f, breaks=1, graphs=2)
    check(f, -x3(), breaks=1, graphs=2)


def test_random_numbers_and_found_memory_are_not_known():
    def random(x):
        return x + 1 if torch.rand(2).sum() > 1 else x - 1

    def found(x):
        return (x + 1) * 0 if torch.empty(2).sum() == 12345.0 else x * 0

    check(random, breaks=1, graphs=2)
    check(found, breaks=1, graphs=2)


def test_large_constants_are_not_computed_during_capture():
    def f(x):
        if torch.ones(3000, 3000).sum() > 5:
            return x + 1
        return x

    check(f, breaks=1, graphs=2)


def test_constant_that_cannot_be_computed_fails_where_it_stands():
    def f(x):
        try:
            row = torch.index_select(torch.ones(3, 2), 0, torch.tensor([7]))
        except IndexError:
            return x - 1
        return x + 1 if row.sum() > 1 else x

    check(f, graphs=None, breaks=None)


def test_known_value_in_training():
    def f(x):
        weight = torch.ones(3) * 2
        if weight.sum() > 5:
            x = x * weight
        return (x * x).sum()

    check(f, x3().requires_grad_())


def test_program_is_told_that_nothing_is_compiling():
    def f(x):
        if torch.compiler.is_compiling():
            return x * 0
        return x + 1

    check(f)

"""Views, and tensors over the same memory, that are reshaped or written: results, layouts, bases and gradients as eager's."""

import pytest
import torch

import framejit

ROWS = {}


def row(history):
    """A function of `x`, a view of a 4x4 leaf; `history`: whether the leaf requires grad."""

    def add(fn):
        ROWS[f"{fn.__name__}{' with a history' if history else ''}"] = (fn, history)
        return fn

    return add


def attempt(run):
    try:
        return run()
    except RuntimeError as error:
        return torch.full((len(str(error)),), -1.0)


@row(False)
def view_of_what_is_transposed_after(x):
    row = x[0]
    x.t_()
    return row, x


@row(False)
@row(True)
def view_of_a_result_that_was_transposed(x):
    y = x * 2
    y.t_()
    return y[0], y, y[1:].view(-1)[:2]


@row(False)
@row(True)
def view_between_two_changes_of_sizes(x):
    y = x * 2
    y.t_()
    row = y[0]
    y.unsqueeze_(0)
    return row, y


@row(False)
@row(True)
def view_of_what_libtorch_gives_other_strides(x):
    return torch.flatten(torch.nn.functional.adaptive_avg_pool1d(x.view(2, 2, 4).transpose(1, 2), 1), 1)


@row(False)
@row(True)
def view_of_a_result_that_is_transposed_after(x):
    y = x * 2
    row = y[0]
    y.t_()
    return row, y


@row(False)
def view_of_a_view_that_is_transposed_after(x):
    y = (x * 2)[1:]
    row = y[0]
    y.t_()
    return row, y


@row(False)
def view_that_out_gives_other_sizes(x):
    flat = x.view(-1)
    attempt(lambda: torch.add(x, 1, out=flat))
    return flat


@row(False)
def result_that_out_gives_other_sizes(x):
    out = torch.empty(0)
    row = out.view(-1)
    torch.add(x, 1, out=out)
    return out, row


@row(False)
@row(True)
def view_of_data(x):
    return x.data.view(-1)


@row(True)
def data_and_a_view_of_it(x):
    y = x * 2
    data = y.data
    return y, data, data[0]


@row(False)
@row(True)
def data_that_is_transposed(x):
    y = x * 2
    data = y.data
    data.t_()
    return y, data


@row(False)
def data_of_what_is_transposed_after(x):
    view = x.view(x.shape)
    data = view.data
    view.t_()
    return view, data


@row(True)
def view_of_a_view_of_a_leaf_that_is_transposed(x):
    view = x.view(x.shape)
    return attempt(lambda: view.t_())


@row(False)
def write_to_an_expanded_view(x):
    wide = x.expand(2, 4, 4)
    return attempt(lambda: wide.add_(1)), wide


@row(False)
def write_over_a_part_of_what_is_read(x):
    return attempt(lambda: x[:3].mul_(x[1:])), x[:1]


@row(False)
@row(True)
def view_that_is_detached_in_place(x):
    return attempt(lambda: x.detach_())


@row(False)
def strides_beyond_the_storage(x):
    return attempt(lambda: x.as_strided((4, 4), (4, 1), 8)), attempt(lambda: x.as_strided((2, 2), (4, 1), 1))


@row(True)
def view_that_is_written_by_way_of_a_detached_one(x):
    flat = x.view(-1)
    x.detach().add_(1)
    return flat, x.view(-1)


@row(False)
@row(True)
def detached_that_gets_another_dimension(x):
    detached = x.detach()
    detached.unsqueeze_(0)
    return detached.sum(1), x


@row(False)
@row(True)
def detached_of_what_is_transposed_after(x):
    y = x * 2
    detached = y.detach()
    y.t_()
    return detached.sum(0), y + 1


@row(True)
def detached_result_that_gets_a_history(x):
    y = x + 1
    detached = y.detach()
    detached.mul_(x)
    return y, detached


@row(True)
def view_that_is_made_without_grad(x):
    y = x * 2
    with torch.no_grad():
        return y, x.view(-1), y[0]


@row(True)
def data_that_gets_a_history(x):
    y = x * 2
    data = y.data
    data.mul_(x)
    return y, data


def test_a_view_of_what_was_reshaped_is_in_the_graph():
    compiled = framejit.to_static(ROWS["view_of_what_libtorch_gives_other_strides"][0], full_graph=True)
    with torch.no_grad():
        compiled(torch.ones(4, 4))
    assert "as_strided_" in str(compiled.graphs[0])


@pytest.mark.runs_once("the eager run of a shadowed call asks the input for its history")
@pytest.mark.xfail(strict=True, reason="a graph whose results have no history does not ask its inputs for theirs")
def test_write_to_a_view_that_a_graph_has_read():
    """In eager an operator that reads a view makes the history that it has got from its base meanwhile."""

    def last(read):
        base = torch.ones(4, requires_grad=True) * 1
        written = base.detach()
        view = written[1:]
        written.add_(base)
        read(view)
        return view.mul_(2).grad_fn.name()

    def read(view):
        return view.sum().item()

    expected = last(read)
    assert last(framejit.to_static(read)) == expected


def account(value, others):
    base = [other is value._base for other in others] if value._is_view() else None
    shares = [other.untyped_storage().data_ptr() == value.untyped_storage().data_ptr() for other in others]
    return (
        value.tolist(),
        value.stride(),
        value.storage_offset(),
        value.requires_grad,
        value.is_leaf,
        value._is_view(),
        base,
        shares,
    )


def seen(fn, history, is_leaf):
    """What is seen of a call: the results beside the argument and the leaf, and the leaf's gradient."""
    leaf = torch.linspace(-2, 2, 16).reshape(4, 4).clone().requires_grad_(history)
    x = leaf if is_leaf else leaf.view(4, 4)
    results = fn(x)
    values = [leaf, x, *(results if isinstance(results, tuple) else (results,))]
    accounts = [account(value, values) for value in values]
    with_grad = [value for value in values if value.requires_grad]
    if with_grad:
        sum((value * value).sum() for value in with_grad).backward()
    return accounts, None if leaf.grad is None else leaf.grad.tolist()


@pytest.mark.runs_once("arguments are reshaped in place, which is not taken back between the runs")
@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("is_leaf", [True, False], ids=["leaf", "view"])
@pytest.mark.parametrize("name", ROWS)
def test_as_eager(name, is_leaf):
    fn, history = ROWS[name]
    try:
        expected = seen(fn, history, is_leaf)
    except RuntimeError as error:
        with pytest.raises(RuntimeError) as caught:
            seen(framejit.to_static(fn), history, is_leaf)
        assert str(caught.value).split("\n")[0] == str(error).split("\n")[0]
        return
    compiled = framejit.to_static(fn)
    for _ in range(2):
        assert seen(compiled, history, is_leaf) == expected
    assert framejit.stats()["captures"] or framejit.stats()["breaks"]

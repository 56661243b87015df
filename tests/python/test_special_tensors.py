"""Tensors that a graph cannot hold, and views that it can: sparse, quantized, nested, mkldnn, named, conjugate, negative;
as arguments, globals, intermediates and results. What cannot be captured breaks, and gives what eager gives."""

import pytest
import torch

import framejit
from support import counts

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

INDICES = torch.tensor([[0, 1], [1, 0]])
SQUARE = torch.arange(4.0).reshape(2, 2)
SPARSE, CSR = SQUARE.to_sparse(), SQUARE.to_sparse_csr()
COMPLEX = torch.complex(SQUARE, SQUARE + 1)


def x23():
    return torch.arange(6.0).reshape(2, 3)


def coo(x):
    return torch.sparse_coo_tensor(INDICES, x[0, :2], (2, 2))


def quantized(x):
    return torch.quantize_per_tensor(x + 1, 0.5, 0, torch.qint8)


def plain(value):
    """What two values must agree in."""
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    if not isinstance(value, torch.Tensor):
        return value
    if value.is_nested:
        return ["nested", plain(list(value.unbind()))]
    if value.layout != torch.strided:
        return [value.layout, plain(value.to_dense())]
    if value.is_quantized:
        return [value.q_scale(), value.q_zero_point(), plain(value.int_repr())]
    return [value.tolist(), value.dtype, value.is_conj(), value.is_neg(), value.stride()]


def check(fn, make, **expected):
    wanted = plain(fn(make()))
    compiled = framejit.to_static(fn)
    with counts.expect_counts(**expected):
        assert plain(compiled(make())) == wanted
    assert plain(compiled(make())) == wanted


MADE_INSIDE = {
    "sparse": lambda x: coo(x),
    "sparse, asked": lambda x: (lambda s: (s.is_sparse, s.layout, s))(coo(x)),
    "sparse, to_dense": lambda x: coo(x).to_dense() + 1,
    "sparse, multiplied": lambda x: torch.sparse.mm(coo(x), SQUARE),
    "sparse, added": lambda x: SQUARE + coo(x),
    "sparse, without a size": lambda x: torch.sparse_coo_tensor(INDICES, x[0, :2]).to_dense(),
    "sparse, coalesced": lambda x: coo(x).coalesce().values() + 1,
    "csr": lambda x: torch.sparse_csr_tensor(INDICES[0].new_tensor([0, 1, 2]), INDICES[0], x[0, :2], (2, 2)).to_dense(),
    "a sparse layout": lambda x: (torch.zeros(2, 2, layout=torch.sparse_coo).is_sparse, x + 1),
    "a sparse layout, like": lambda x: (torch.zeros_like(x, layout=torch.sparse_coo).layout, x + 1),
    "to_sparse": lambda x: (x + 1).to_sparse().to_dense() * 2,
    "to_sparse_csr": lambda x: (x + 1).to_sparse_csr().to_dense() * 2,
    "to_mkldnn": lambda x: (x + 1).to_mkldnn().to_dense() * 2,
    "nested": lambda x: torch.nested.nested_tensor([x[0] + 1, x[1, :2]]).unbind()[0] + 1,
    "as_nested": lambda x: torch.nested.as_nested_tensor([x[0] + 1, x[1, :2]]),
    "quantized": quantized,
    "quantized, asked": lambda x: (lambda q: (q.is_quantized, q.dtype, q.qscheme(), q.q_scale(), q))(quantized(x)),
    "quantized, dequantized": lambda x: quantized(x).dequantize() * 2,
    "quantized, viewed": lambda x: quantized(x).view(-1)[1:],
    "quantized, relu": lambda x: torch.relu(quantized(x)),
}


@pytest.mark.runs_once("a result that no account describes is the eager run's, and breaks are counted")
@pytest.mark.parametrize("name", MADE_INSIDE)
def test_made_inside_breaks(name):
    check(MADE_INSIDE[name], x23, breaks=counts.at_least(1))


ARGUMENTS = {
    "sparse": (lambda s: torch.sparse.mm(s, SQUARE) + 1, lambda: SQUARE.to_sparse()),
    "sparse, asked": (lambda s: (s.is_sparse, s.layout, s.to_dense() + 1), lambda: SQUARE.to_sparse()),
    "csr": (lambda s: (s @ SQUARE) + 1, lambda: SQUARE.to_sparse_csr()),
    "quantized": (lambda q: (q.dequantize() + 1, q.q_scale(), q.is_quantized, q.dtype), lambda: quantized(x23())),
    "nested": (lambda n: (n * 2).unbind()[0] + 1, lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])),
    "mkldnn": (lambda m: m.to_dense() + 1, lambda: SQUARE.to_mkldnn()),
    "a sparse global": (lambda x: x + SPARSE.to_dense(), lambda: SQUARE),
    "a csr global": (lambda x: CSR @ x, lambda: SQUARE),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_break(name):
    function, make = ARGUMENTS[name]
    check(function, make, breaks=counts.at_least(1))


VIEWS = {
    "conjugate": (lambda z: (z.conj() * 2, z.conj().is_conj(), z.conj(), z.H, z.conj().resolve_conj()), lambda: COMPLEX),
    "negative": (lambda z: (z.conj().imag, z.conj().imag.is_neg(), z.conj().imag + 1), lambda: COMPLEX),
    "real": (lambda z: (torch.view_as_real(z) + 1, z.real, torch.view_as_complex(z.real[:, :, None].expand(2, 2, 2).clone())),
             lambda: COMPLEX),
    "a conjugate argument": (lambda z: (z + 1, z.is_conj(), z.real), lambda: COMPLEX.conj()),
    "a negative argument": (lambda z: (z + 1, z.is_neg(), z.abs()), lambda: COMPLEX.conj().imag),
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
def test_views_of_complex_tensors_are_one_graph(name):
    function, make = VIEWS[name]
    check(function, make, graphs=1, breaks=0)


@pytest.mark.skipif(not hasattr(torch.Tensor, "refine_names"), reason="named dimensions are gone")
def test_named_dimensions():
    check(lambda x: (x.refine_names("C", "D") + 1).sum("C").rename(None), x23)
    check(lambda n: (n + 1).sum("C").rename(None), lambda: x23().refine_names("C", "D"))


@pytest.mark.skipif(not hasattr(torch.Tensor, "refine_names"), reason="named dimensions are gone")
def test_names_given_inside_are_the_results():
    def run(fn):
        x = x23()
        return fn(x).names, x.names

    for fn in (
        lambda x: x.refine_names("C", "D") + 1,
        lambda x: x.refine_names("C", "D"),
        lambda x: (x + 1).rename_("C", "D"),
        lambda x: x.rename_("C", "D") * 2,
        lambda x: torch.zeros(2, 3, names=("C", "D")) + x,
    ):
        compiled = framejit.to_static(fn)
        assert run(compiled) == run(compiled) == run(fn)


def test_gradient_that_is_sparse():
    embedding = torch.nn.Embedding(4, 2, sparse=True)

    def gradient(run):
        embedding.zero_grad()
        run(torch.tensor([1, 2])).sum().backward()
        return plain(embedding.weight.grad)

    wanted = gradient(embedding)
    compiled = framejit.to_static(lambda i: embedding(i) * 1)
    assert gradient(compiled) == gradient(compiled) == wanted


def test_max_pool1d_reads_memory_where_no_gradient_is_recorded():
    x = torch.randn(1, 2, 8)
    check(lambda x: torch.nn.functional.max_pool1d(x, 2), lambda: x, breaks=1)
    check(
        lambda x: torch.nn.functional.max_pool1d(x, 2).detach(), lambda: x.clone().requires_grad_(), graphs=1, breaks=0
    )


def test_flags_of_a_class_change_by_themselves():
    class Holder:
        pass

    def f(x):
        return x + 1, Holder.__flags__ & 1 << 9

    compiled = framejit.to_static(f)
    for _ in range(3):
        Holder.changed = 1  # the interpreter marks what it has cached of a class among the flags
        assert compiled(x23())[1] == f(x23())[1]

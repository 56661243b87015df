"""Operators that the executor computes itself: random numbers for dropout, to the bit, and matrix products, rounded otherwise."""

import numpy
import pytest
import torch
import torch.nn.functional as F

import framejit


def draws_one_by_one():
    """Whether LibTorch takes two numbers of MT19937 for each: the other way is MKL's, by release and processor."""
    torch.manual_seed(1)
    drawn = torch.empty(64).bernoulli_(0.5).tolist()
    words = numpy.random.RandomState(1).randint(0, 2**32, size=128, dtype=numpy.uint64).tolist()
    numbers = [(upper << 32 | lower) & (2**53 - 1) for upper, lower in zip(words[::2], words[1::2])]
    return drawn == [float(number < 2**52) for number in numbers]


ONE_BY_ONE = draws_one_by_one()
BACKENDS = ["aten", "native"]


def drawn():
    return framejit._C.kernel_stats()["drawn"]


def both(program, compiled, *given, skipped=0):
    """What each gives after the generator has given `skipped` numbers, with the numbers and the state behind it."""
    outcomes = []
    for run in (program, compiled, compiled):
        torch.manual_seed(5)
        torch.rand(skipped)
        result = run(*given)
        outcomes.append((result, torch.rand(3), torch.get_rng_state()))
    return outcomes


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("size", [1, 255, 256, 257, 4097, 100003])
def test_dropout(backend, size):
    def program(x):
        return F.dropout(x, 0.1), F.dropout(x, 0.75), F.dropout(x, 1.0), F.dropout(x, 0.0)

    framejit.reset()
    compiled, x, before = framejit.to_static(program, backend=backend, full_graph=True), torch.rand(size), drawn()
    for skipped in (0, 1, 311, 623, 624):  # an odd count parts a pair of numbers
        eager, *others = both(program, compiled, x, skipped=skipped)
        for results, numbers, state in others:
            assert all(torch.equal(a, b) for a, b in zip(results, eager[0]))
            assert torch.equal(numbers, eager[1]) and torch.equal(state, eager[2])
    assert (drawn() > before) == (size >= 256 and ONE_BY_ONE)
    assert framejit.stats()["graphs"] == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_left_to_libtorch(backend):
    generator = torch.Generator()

    def program(x):
        return (
            x.bernoulli_(0.3, generator=generator),
            torch.empty(512, dtype=torch.float64).bernoulli_(0.3),
            torch.empty(512, dtype=torch.uint8).bernoulli_(0.3),
            torch.empty(512, dtype=torch.bfloat16).bernoulli_(0.3),
            torch.empty(32, 32).t().bernoulli_(0.3),
            torch.empty(64, 64)[:, ::2].bernoulli_(0.3),
            torch.empty(512).bernoulli_(torch.full((512,), 0.3)),
        )

    framejit.reset()
    compiled, before, outcomes = framejit.to_static(program, backend=backend), drawn(), []
    for run in (program, compiled, compiled):
        torch.manual_seed(7)
        generator.manual_seed(8)
        outcomes.append([*run(torch.empty(700)), torch.rand(3), torch.rand(3, generator=generator)])
    for other in outcomes[1:]:
        assert all(torch.equal(a, b) for a, b in zip(other, outcomes[0]))
    assert drawn() == before and framejit.stats()["captures"] > 0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("size", [255, 256, 4097])
def test_booleans(backend, size):
    def program(x):
        mask = torch.empty_like(x, dtype=torch.bool).bernoulli_(0.3)
        return mask, x * mask

    framejit.reset()
    compiled, x, before = framejit.to_static(program, backend=backend, full_graph=True), torch.rand(size), drawn()
    for skipped in (0, 311, 623):
        eager, *others = both(program, compiled, x, skipped=skipped)
        for results, numbers, state in others:
            assert all(torch.equal(a, b) for a, b in zip(results, eager[0]))
            assert torch.equal(numbers, eager[1]) and torch.equal(state, eager[2])
    assert (drawn() > before) == (size >= 256 and ONE_BY_ONE)
    assert framejit.stats()["graphs"] == 1


@pytest.mark.parametrize("p", [-0.5, 1.5, float("nan")])
def test_a_probability_that_is_none(p):
    def program(x):
        return torch.empty_like(x).bernoulli_(p)

    compiled = framejit.to_static(program)
    with pytest.raises(RuntimeError) as eager:
        program(torch.ones(512))
    with pytest.raises(RuntimeError) as refused:
        compiled(torch.ones(512))
    assert str(refused.value) == str(eager.value)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_and_versions(backend):
    def program(x, noise):
        noise.bernoulli_(0.6)
        return (F.dropout(x, 0.4) * noise).sum()

    framejit.reset()
    compiled = framejit.to_static(program, backend=backend)
    outcomes = []
    for run in (program, compiled, compiled):
        torch.manual_seed(9)
        x, noise = torch.linspace(0, 1, 1000, requires_grad=True), torch.empty(1000)
        run(x, noise).backward()
        outcomes.append((x.grad, noise, torch.tensor(noise._version)))
    for other in outcomes[1:]:
        assert all(torch.equal(a, b) for a, b in zip(other, outcomes[0]))


def test_numbers_that_a_failing_graph_drew_are_taken_back():
    log = []

    def program(x, index):
        log.append("begun")
        y = F.dropout(x, 0.5)
        return y[index]

    compiled = framejit.to_static(program)
    compiled(torch.ones(600), torch.tensor([1, 2]))
    states = []
    for run in (program, compiled):
        torch.manual_seed(3)
        with pytest.raises(IndexError):
            run(torch.ones(600), torch.tensor([1, 600]))
        states.append(torch.get_rng_state())
    assert torch.equal(*states)


def test_generator_that_was_set():
    compiled, x = framejit.to_static(lambda x: F.dropout(x, 0.5)), torch.ones(1000)
    torch.manual_seed(2)
    torch.rand(7)
    state = torch.get_rng_state()
    expected = F.dropout(x, 0.5), torch.randn(3)
    for _ in range(2):
        torch.set_rng_state(state)
        assert torch.equal(compiled(x), expected[0])
        assert torch.equal(torch.randn(3), expected[1])


def computes_products():
    """Whether oneDNN multiplies faster here: MKL has its best kernels for another maker's processors."""
    made_by = next(line for line in open("/proc/cpuinfo") if line.startswith("vendor_id"))
    return "AuthenticAMD" in made_by and torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()


def multiplied():
    return framejit._C.kernel_stats()["multiplied"]


def check(program, given, backend, is_product):
    """What the program gives is as near to the exact result as a product is, and laid out as eager's; and a product of
    the executor's has computed it where one should."""
    expected, exact = program(*given), program(*(each.double() for each in given))
    sums = program(*(each.double().abs() for each in given))  # of what errors are small beside
    framejit.reset()
    compiled, before = framejit.to_static(program, backend=backend, full_graph=True), multiplied()
    for _ in range(2):
        with torch.no_grad():
            result = compiled(*given)
        assert torch.equal(result, expected) or backend == "native"
        assert ((result - exact).abs() <= 8 * torch.finfo(torch.float32).eps * sums).all()
        assert result.dtype == expected.dtype and result.stride() == expected.stride()
        assert result.untyped_storage().nbytes() == expected.untyped_storage().nbytes()
    assert (multiplied() > before) == (is_product and backend == "native" and computes_products())
    assert framejit.stats()["graphs"] == 1


WIDE = (256, 512, 256)
PRODUCTS = {
    "mm": (lambda a, b, c: a @ b, True),
    "second transposed": (lambda a, b, c: a @ b.t().contiguous().t(), True),
    "with a row added": (lambda a, b, c: torch.addmm(c[0], a, b), True),
    "of a linear layer": (lambda a, b, c: F.linear(a, b.t().contiguous(), c[0]), True),
    "first transposed": (lambda a, b, c: a.t().contiguous().t() @ b, True),
    "first transposed, with a row added": (lambda a, b, c: torch.addmm(c[0], a.t().contiguous().t(), b), True),
    "with a matrix added": (lambda a, b, c: torch.addmm(c, a, b), False),
    "with a column added": (lambda a, b, c: torch.addmm(c[:, :1], a, b), False),
    "scaled": (lambda a, b, c: torch.addmm(c[0], a, b, alpha=2), False),
    "of another type": (lambda a, b, c: a.double() @ b.double(), False),
    "no columns": (lambda a, b, c: a @ b[:, :0], False),
    "few numbers": (lambda a, b, c: a[:100] @ b, False),
    "rows apart": (lambda a, b, c: a[:, :256] @ b[:256], False),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name, backend):
    program, is_large = PRODUCTS[name]
    torch.manual_seed(0)
    rows, inner, columns = WIDE
    check(program, (torch.randn(rows, inner), torch.randn(inner, columns), torch.randn(rows, columns)), backend, is_large)


BATCHES = {
    "bmm": (lambda a, b: a @ b, True),
    "second transposed": (lambda a, b: a @ b.transpose(1, 2).contiguous().transpose(1, 2), True),
    "first transposed": (lambda a, b: a.transpose(1, 2).contiguous().transpose(1, 2) @ b, True),
    "few numbers": (lambda a, b: a[:2] @ b[:2], False),
    "rows apart": (lambda a, b: a[:, ::2] @ b, False),
    "matrices apart": (lambda a, b: a.transpose(0, 1).contiguous().transpose(0, 1) @ b, False),
    "of another type": (lambda a, b: a.double() @ b.double(), False),
    "added": (lambda a, b: torch.baddbmm(a[:, :, :1], a, b), False),
    "no columns": (lambda a, b: a @ b[:, :, :0], False),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", BATCHES)
def test_products_of_batches(name, backend):
    program, is_large = BATCHES[name]
    torch.manual_seed(0)
    check(program, (torch.randn(16, 197, 64), torch.randn(16, 64, 131)), backend, is_large)


def test_products_of_batches_that_are_not_finite():
    a, b = torch.ones(16, 128, 64), torch.ones(16, 64, 128)
    a[3, 5, 5], a[4, 4, 4], b[7, 9, 1], b[4, 4, 0] = float("nan"), float("inf"), float("-inf"), 0
    compiled, before = framejit.to_static(torch.bmm, backend="native", full_graph=True), multiplied()
    for _ in range(2):
        torch.testing.assert_close(compiled(a, b), torch.bmm(a, b), equal_nan=True)
    assert (multiplied() > before) == computes_products()


IMAGES = (2, 64, 56, 56)
CONVOLUTIONS = {
    "of pixels": (lambda x, w, b: F.conv2d(x, w), True),
    "with a bias": (lambda x, w, b: F.conv2d(x, w, b), True),
    "weight channels last": (lambda x, w, b: F.conv2d(x, w.contiguous(memory_format=torch.channels_last), b), True),
    "every other pixel": (lambda x, w, b: F.conv2d(x, w, b, stride=2), False),
    "with a border": (lambda x, w, b: F.conv2d(x, w, b, padding=1), False),
    "of groups": (lambda x, w, b: F.conv2d(x, w[:, :32].contiguous(), b, groups=2), False),
    "transposed": (lambda x, w, b: F.conv_transpose2d(x, w.transpose(0, 1).contiguous(), b), False),
    "weight apart": (lambda x, w, b: F.conv2d(x, w.repeat(1, 2, 1, 1)[:, ::2], b), False),
    "few images": (lambda x, w, b: F.conv2d(x[:1, :, :28], w, b), False),
    "rows first": (lambda x, w, b: F.conv2d(x.contiguous(), w, b), False),
    "of another type": (lambda x, w, b: F.conv2d(x.double(), w.double()), False),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_that_are_products(name, backend):
    program, is_product = CONVOLUTIONS[name]
    torch.manual_seed(0)
    x = torch.randn(IMAGES).to(memory_format=torch.channels_last)
    given = x, torch.randn(64, 64, 1, 1), torch.randn(64)
    check(program, given, backend, is_product)


# Program, sizes of images and weight, and whether the gradients are products.
GRADIENTS = {
    "of pixels": (lambda x, w, b: F.conv2d(x, w, b), (2, 64, 28, 28), True),
    "without a bias": (lambda x, w, b: F.conv2d(x, w), (2, 64, 28, 28), True),
    "few pixels": (lambda x, w, b: F.conv2d(x, w, b), (3, 512, 7, 7), True),
    "every other pixel": (lambda x, w, b: F.conv2d(x, w, b, stride=2), (2, 256, 33, 28), True),
    "every third row": (lambda x, w, b: F.conv2d(x, w, b, stride=(3, 1)), (2, 128, 41, 28), True),
    "images channels last": (
        lambda x, w, b: F.conv2d(x.contiguous(memory_format=torch.channels_last), w, b),
        (2, 64, 28, 28),
        False,
    ),
    "weight apart": (lambda x, w, b: F.conv2d(x, w.repeat(1, 2, 1, 1)[:, ::2], b), (2, 64, 28, 28), False),
    "few numbers": (lambda x, w, b: F.conv2d(x, w, b), (2, 64, 14, 14), False),
    "with a border": (lambda x, w, b: F.conv2d(x, w, b, padding=1), (2, 64, 28, 28), False),
    "of groups": (lambda x, w, b: F.conv2d(x, w[:, ::2].contiguous(), b, groups=2), (2, 64, 28, 28), False),
    "of another type": (lambda x, w, b: F.conv2d(x.double(), w.double()), (2, 64, 28, 28), False),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_that_are_products(name, backend):
    program, size, are_products = GRADIENTS[name]
    torch.manual_seed(0)
    given = [torch.randn(size), torch.randn(64, size[1], 1, 1), torch.randn(64)]

    def gradients(call, of=lambda each: each):
        wanted = [of(each).requires_grad_() for each in given]
        result = call(*wanted)
        tangent = torch.randn(result.shape, generator=torch.Generator().manual_seed(1))
        return torch.autograd.grad(result, wanted, of(tangent).to(result.dtype), allow_unused=True)

    expected, exact = gradients(program), gradients(program, torch.Tensor.double)
    sums = gradients(program, lambda each: each.double().abs())  # of what errors are small beside
    framejit.reset()
    compiled, before = framejit.to_static(program, backend=backend, full_graph=True), multiplied()
    for _ in range(2):
        for mine, theirs, number, scale in zip(gradients(compiled), expected, exact, sums):
            if theirs is None:
                assert mine is None
                continue
            assert torch.equal(mine, theirs) or backend == "native"
            assert backend == "aten" or ((mine - number).abs() <= 32 * torch.finfo(torch.float32).eps * scale).all()
            assert mine.dtype == theirs.dtype and mine.stride() == theirs.stride()
    assert (multiplied() >= before + 2) == (are_products and backend == "native" and computes_products())
    assert framejit.stats()["graphs"] == 1


def test_products_of_a_backward():
    torch.manual_seed(0)
    model, x = (
        torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.GELU(), torch.nn.Linear(512, 256)),
        torch.randn(256, 512),
    )
    model(x).square().sum().backward()
    expected = [p.grad for p in model.parameters()]
    model.zero_grad()
    framejit.reset()
    compiled = framejit.to_static(lambda x: model(x).square().sum(), backend="native", full_graph=True)
    loss, before = compiled(x), multiplied()
    loss.backward()
    assert (multiplied() > before) == computes_products()
    for parameter, gradient in zip(model.parameters(), expected):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-4, atol=1e-2)


def test_products_of_what_is_not_finite():
    def program(a, b):
        return a @ b

    a, b = torch.ones(256, 512), torch.ones(512, 256)
    a[3, 5], a[4, 4], b[7, 9], b[4, 0] = float("nan"), float("inf"), float("-inf"), 0
    compiled, before = framejit.to_static(program, backend="native", full_graph=True), multiplied()
    for _ in range(2):
        torch.testing.assert_close(compiled(a, b), program(a, b), equal_nan=True)
    assert (multiplied() > before) == computes_products()


def test_products_where_onednn_is_off():
    a, b = torch.randn(256, 512), torch.randn(512, 256)
    compiled, before = framejit.to_static(lambda a, b: a @ b, backend="native", full_graph=True), multiplied()
    with torch.backends.mkldnn.flags(enabled=False):
        assert torch.equal(compiled(a, b), a @ b)
    assert multiplied() == before

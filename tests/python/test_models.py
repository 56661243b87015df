"""Real models under `to_static`: one graph, no break, and bit for bit what eager does."""

import gc
import weakref

import pytest
import torch

import framejit
from models import EXTRA, MODELS, build, loss_of, missing_package, tensors_of
from support.counts import at_least, expect_counts

# Small enough for the whole matrix, large enough for every code path of the models.
SIZES = {"layers": 4, "side": 64}
GPT_SIZES = {"layers": 12}
SEED = 1234
ONE_GRAPH = {"captures": 1, "graphs": 1, "breaks": 0, "fallbacks": 0}
WARM = {"captures": 0, "graphs": 0, "breaks": 0, "fallbacks": 0, "misses": 0, "hits": at_least(1)}


def make(name, mode):
    """An eager case and a converted one with bit-equal weights and inputs."""
    package = missing_package(name)
    if package is not None:
        pytest.skip(f"{package} is not installed")
    sizes = GPT_SIZES if name == "gpt" else SIZES
    eager = build(name, mode, **sizes)
    compiled = build(name, mode, **sizes)
    keys = list(compiled.model.state_dict())
    model = framejit.to_static(compiled.model)
    assert model is compiled.model
    assert list(model.state_dict()) == keys
    return eager, compiled


def forward(case):
    return case.model(*case.args, **case.kwargs)


def run_infer(case):
    torch.manual_seed(SEED)
    with torch.no_grad():
        result = forward(case)
    return {"result": result, "outputs": tensors_of(result), "rng": torch.random.get_rng_state()}


def run_train(case):
    """One forward and backward; everything that eager and compiled must agree on."""
    torch.manual_seed(SEED)
    case.model.zero_grad(set_to_none=True)
    result = forward(case)
    loss = loss_of(result)
    loss.backward()
    return {
        "result": result,
        "outputs": [t.detach() for t in tensors_of(result)],
        "loss": loss.detach(),
        "gradients": {name: p.grad for name, p in case.model.named_parameters()},
        "buffers": {name: b.clone() for name, b in case.model.named_buffers()},
        "rng": torch.random.get_rng_state(),
    }


def assert_bit_equal(expected, actual, where=""):
    """Equal dtypes, shapes and bits, through dicts and lists."""
    if isinstance(expected, dict):
        assert list(expected) == list(actual), where
        for key in expected:
            assert_bit_equal(expected[key], actual[key], f"{where}.{key}")
    elif isinstance(expected, list):
        assert len(expected) == len(actual), where
        for index, pair in enumerate(zip(expected, actual)):
            assert_bit_equal(*pair, f"{where}[{index}]")
    elif isinstance(expected, torch.Tensor):
        assert expected.dtype == actual.dtype, where
        assert expected.stride() == actual.stride(), where
        if not torch.equal(expected, actual):
            difference = (expected.double() - actual.double()).abs().max()
            raise AssertionError(f"{where}: largest difference {difference}")
    else:
        assert expected is None and actual is None, where


def assert_same_run(expected, actual):
    assert type(expected.pop("result")) is type(actual.pop("result"))
    assert_bit_equal(expected, actual)


@pytest.mark.parametrize("name", MODELS)
def test_inference_is_one_graph_and_equals_eager(name):
    eager, compiled = make(name, "infer")
    expected = run_infer(eager)
    with expect_counts("first call", **ONE_GRAPH):
        first = run_infer(compiled)
    with expect_counts("second call", **WARM):
        second = run_infer(compiled)
    assert_same_run(dict(expected), first)
    assert_same_run(expected, second)


@pytest.mark.parametrize("name", MODELS)
def test_training_is_one_graph_and_equals_eager(name):
    eager, compiled = make(name, "train")
    with expect_counts("first step", **ONE_GRAPH):
        first = run_train(compiled)
    with expect_counts("second step", **WARM):
        second = run_train(compiled)
    assert_same_run(run_train(eager), first)
    # Each step moves the BatchNorm statistics, so the second step is compared with eager's second.
    assert_same_run(run_train(eager), second)


def cached_length(cache):
    """How many positions a transformers cache holds; before 4.47 its outside form is a tuple of (key, value) pairs."""
    return cache[0][0].shape[-2] if isinstance(cache, tuple) else cache.get_seq_length()


@pytest.mark.parametrize("name", ["gpt2_cache", "llama_cache"])
def test_key_value_cache_is_rebuilt_and_equals_eager(name):
    assert name in EXTRA
    eager, compiled = make(name, "infer")
    expected = run_infer(eager)
    with expect_counts("first call", **ONE_GRAPH):
        first = run_infer(compiled)
    assert type(first["result"].past_key_values) is type(expected["result"].past_key_values)
    assert cached_length(first["result"].past_key_values) == compiled.args[0].shape[1]
    assert_same_run(expected, first)


@pytest.mark.parametrize("mode", ["infer", "train"])
def test_padding_mask_whose_values_decide_equals_eager(mode):
    # Depending on the release, the model reads the mask's values, which breaks the graph.
    eager, compiled = make("bert_mask", mode)
    run = run_infer if mode == "infer" else run_train
    assert_same_run(run(eager), run(compiled))
    with expect_counts("second call", captures=0, fallbacks=0):
        second = run(compiled)
    assert_same_run(run(eager), second)


@pytest.mark.parametrize("name", ["mlp", "mobilenet_v3"])
def test_switching_between_train_and_eval_keeps_both_entries(name):
    eager, compiled = make(name, "train")
    for case in (eager, compiled):
        run_train(case)
        case.model.eval()
        run_infer(case)
        case.model.train()
    with expect_counts("back in train mode", captures=0, hits=at_least(1)):
        trained = run_train(compiled)
    assert_same_run(run_train(eager), trained)
    eager.model.eval()
    compiled.model.eval()
    with expect_counts("back in eval mode", captures=0, hits=at_least(1)):
        inferred = run_infer(compiled)
    assert_same_run(run_infer(eager), inferred)


def test_optimizer_steps_between_calls_need_no_recapture():
    eager, compiled = make("mlp", "train")
    optimizers = [torch.optim.SGD(case.model.parameters(), lr=0.1, momentum=0.9) for case in (eager, compiled)]
    for step in range(4):
        runs = []
        for case, optimizer in zip((eager, compiled), optimizers):
            with expect_counts(f"step {step}", captures=int(step == 0 and case is compiled)):
                runs.append(run_train(case))
            optimizer.step()
        assert_same_run(*runs)


def test_gradients_accumulate_over_two_backward_passes():
    eager, compiled = make("gpt", "train")
    gradients = []
    for case in (eager, compiled):
        torch.manual_seed(SEED)
        for _ in range(2):
            loss_of(forward(case)).backward()
        gradients.append({name: p.grad for name, p in case.model.named_parameters()})
    assert_bit_equal(*gradients)


def test_deleted_model_is_freed():
    _, compiled = make("gpt", "train")
    run_train(compiled)
    watched = [weakref.ref(compiled.model)] + [weakref.ref(p) for p in compiled.model.parameters()]
    del compiled
    gc.collect()
    assert [ref() for ref in watched if ref() is not None] == []

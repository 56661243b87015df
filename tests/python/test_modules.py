"""torch.nn.Module inside captured code: calls, hooks, containers, buffers, attributes that forward writes."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import framejit
from support.same_as_eager import assert_same_as_eager

LOG = []


def x23():
    return torch.tensor([[0.5, -1.5, 2.0], [1.0, 0.25, -3.0]])


def check(fn, *args, **options):
    torch.manual_seed(0)
    return assert_same_as_eager(fn, *(args or (x23(),)), **options)


def linear():
    torch.manual_seed(1)
    return nn.Linear(3, 3)


def test_module_call():
    layer = linear()
    check(lambda x: layer(x))


def test_module_called_through_forward():
    layer = linear()
    check(lambda x: layer.forward(x) + type(layer).forward(layer, x))


def test_sequential_and_containers():
    model = nn.Sequential(linear(), nn.ReLU(), nn.Sequential(linear(), nn.Tanh()))
    layers = nn.ModuleList([linear(), linear()])
    table = nn.ModuleDict({"a": linear(), "b": nn.GELU()})

    def f(x):
        x = model(x)
        for i, layer in enumerate(layers):
            x = layer(x) * i
        for name, layer in table.items():
            x = layer(x) + len(name)
        return model[0](x), model[-1][1](x), layers[1](x), table["b"](x), len(model), "a" in table, x, [*table.keys()]

    check(f)


def test_functional_with_parameters():
    layer = linear()
    check(lambda x: functional.linear(functional.relu(x), layer.weight, layer.bias) + layer.weight.sum())


def test_nested_user_modules_share_parameters():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = linear()
            self.b = nn.Linear(3, 3, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    tied = Tied()
    check(lambda x: tied(x))


def test_forward_writes_attributes_and_buffers():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0
            self.register_buffer("seen", torch.zeros(()))
            self.register_buffer("mean", torch.zeros(3))

        def forward(self, x):
            self.calls += 1
            self.seen += 1
            self.mean = self.mean * 0.9 + x.mean(0) * 0.1
            self.last = x
            return x * self.calls + self.mean

    module = Counting()
    check(lambda x: module(x))


def test_parameter_assigned_inside():
    class Lazy(nn.Module):
        def forward(self, x):
            if not hasattr(self, "weight"):
                self.weight = nn.Parameter(torch.ones(3))
            return x * self.weight

    module = Lazy()
    check(lambda x: module(x), breaks=None, graphs=None, miss=None)


def test_forward_hooks():
    layer = linear()
    layer.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    layer.register_forward_hook(lambda module, args, output: output * 2)
    layer.register_forward_hook(lambda module, args, output: LOG.append(len(args)))
    check(lambda x: layer(x))


def test_forward_hooks_with_keywords():
    class Scale(nn.Module):
        def forward(self, x, scale=1):
            return x * scale

    scale = Scale()
    scale.register_forward_pre_hook(lambda module, args, kwargs: (args, {"scale": kwargs["scale"] + 1}), with_kwargs=True)
    scale.register_forward_hook(lambda module, args, kwargs, output: output + kwargs["scale"], with_kwargs=True)
    check(lambda x: scale(x, scale=2))


def test_hook_that_always_runs():
    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError("from forward")

    module = Fails()
    module.register_forward_hook(lambda module, args, output: LOG.append("hook ran"), always_call=True)
    check(lambda x: module(x + 1), raises=ValueError, graphs=None, breaks=None)


def test_global_forward_hooks():
    layer = linear()
    registry = nn.modules.module
    handles = [
        registry.register_module_forward_pre_hook(lambda module, args: LOG.append(type(module).__name__)),
        registry.register_module_forward_hook(lambda module, args, output: output + 1),
    ]
    try:
        check(lambda x: layer(x))
    finally:
        for handle in handles:
            handle.remove()


def test_full_backward_hook():
    layer = linear()
    layer.register_full_backward_hook(lambda module, grad_in, grad_out: LOG.append(len(grad_in)))

    def f(x):
        return layer(x)

    def after(y):
        y.sum().backward()
        return layer.weight.grad

    check(f, after=after, breaks=None, graphs=None, miss=None, warm=False)  # the hook object is new each time


def test_hook_registered_inside():
    layer = linear()

    def f(x):
        handle = layer.register_forward_hook(lambda module, args, output: output + 1)
        y = layer(x)
        handle.remove()
        return y, layer(x)

    check(f, breaks=None, graphs=None, warm=False)


def test_training_flag_is_read():
    drop = nn.Dropout(0.5)
    check(lambda x: drop(x) if drop.training else x)
    drop.eval()
    check(lambda x: (drop(x) + 1, drop.training))


def test_train_and_eval_called_inside():
    model = nn.Sequential(linear(), nn.Dropout(0.5))

    def f(x):
        model.eval()
        y = model(x)
        model.train()
        return y, model(x)

    check(f, breaks=None)


def test_walks_over_the_module_tree():
    model = nn.Sequential(linear(), nn.Sequential(linear(), nn.ReLU()))

    def f(x):
        total = x
        for name, parameter in model.named_parameters():
            total = total + parameter.sum() * len(name)
        for module in model.modules():
            total = total + len(list(module.children()))
        for name, buffer in model.named_buffers():
            total = total + buffer.sum()
        return total, sorted(model.state_dict()), sum(p.numel() for p in model.parameters())

    check(f, breaks=None)


def test_module_made_inside():
    def f(x):
        layer = nn.ReLU()
        return nn.Identity()(layer(x)) + nn.Flatten()(x)

    check(f, breaks=None)


def test_module_with_parameters_made_inside():
    check(lambda x: nn.Linear(3, 2)(x), breaks=None)


def test_get_submodule_and_parameter():
    model = nn.Sequential(linear(), nn.Sequential(linear()))
    check(lambda x: model.get_submodule("1.0")(x) + model.get_parameter("0.weight").sum())


def test_module_in_a_plain_object_and_list():
    class Holder:
        def __init__(self):
            self.layers = [linear(), nn.Tanh()]

        def __call__(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    holder = Holder()
    check(lambda x: holder(x))


def test_module_passed_as_an_argument():
    check(lambda module, x: module(x) + 1, linear(), x23())


def test_module_returned():
    layer = linear()
    check(lambda x: (layer, layer(x), layer.weight))


def test_norms_and_embeddings():
    torch.manual_seed(0)
    batch, layer, group = nn.BatchNorm1d(3), nn.LayerNorm(3), nn.GroupNorm(1, 3)
    embedding = nn.Embedding(5, 3)
    tokens = torch.tensor([[0, 4], [2, 2]])
    check(lambda x: (batch(x), layer(x), group(x), batch.num_batches_tracked, embedding(tokens)))
    batch.eval()
    check(lambda x: batch(x) + layer(x))


def test_convolution_and_pooling():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1))
    check(lambda x: model(x).flatten(1), torch.rand(2, 1, 4, 4))


def test_attention():
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(6, 2, batch_first=True)
    encoder = nn.TransformerEncoderLayer(6, 2, 12, dropout=0.0, batch_first=True)
    check(lambda x: (attention(x, x, x)[0], functional.scaled_dot_product_attention(x, x, x)), torch.rand(2, 4, 6), breaks=None)
    check(lambda x: encoder(x), torch.rand(2, 4, 6), breaks=None)


def test_recurrent_cells():
    torch.manual_seed(0)
    gru, cell = nn.GRU(3, 4, batch_first=True), nn.LSTMCell(3, 4)
    check(lambda x: gru(x), torch.rand(2, 5, 3), breaks=None)

    def f(xs):
        state = (torch.zeros(2, 4), torch.zeros(2, 4))
        for x in xs.unbind(1):
            state = cell(x, state)
        return state

    check(f, torch.rand(2, 5, 3), breaks=None)


def test_losses():
    target = torch.tensor([0, 2])

    def f(x):
        return [
            functional.cross_entropy(x, target), nn.MSELoss()(x, x * 0), functional.nll_loss(x.log_softmax(1), target),
            functional.binary_cross_entropy_with_logits(x, torch.ones_like(x)), functional.smooth_l1_loss(x, x + 1),
        ]  # fmt: skip

    check(f)


def test_parametrized_module():
    layer = nn.utils.parametrizations.weight_norm(linear())
    # The backward of _weight_norm_interface has no Meta kernel, so that nothing can be captured with gradients.
    check(lambda x: layer(x), breaks=None, graphs=None, fallbacks=None, miss=None)


def test_missing_attribute_of_a_module():
    layer = linear()
    check(lambda x: layer.missing(x + 1), raises=AttributeError, graphs=None, breaks=None)


def test_wrong_shape_given_to_a_module():
    layer = linear()
    check(lambda x: layer(x[:, :2]), raises=RuntimeError, graphs=None, breaks=None)


def test_extra_argument_given_to_a_module():
    layer = linear()
    check(lambda x: layer(x, 1), raises=TypeError, graphs=None, breaks=None)


def test_gradient_checkpoint():
    from torch.utils.checkpoint import checkpoint

    layer = linear()
    check(lambda x: checkpoint(layer, x, use_reentrant=False), breaks=None, graphs=None, miss=None)


def test_functional_call():
    layer = linear()
    check(lambda x: torch.func.functional_call(layer, {"weight": torch.ones(3, 3), "bias": torch.zeros(3)}, (x,)))


def test_deepcopy_and_state_dict_inside():
    import copy

    layer = linear()

    def f(x):
        other = copy.deepcopy(layer)
        other.load_state_dict({name: value + 1 for name, value in layer.state_dict().items()})
        return other(x)

    # A parameter made inside cannot be rebuilt: the whole frame runs eagerly.
    check(f, breaks=None, graphs=None, fallbacks=None, miss=None)


def looks_up(module, x):
    return getattr(module, "missing", 3), hasattr(module, "weight"), x + 1


def sets(module, x):
    module.added = 1
    return module.added, x + 1


def outcome(fn, *args):
    try:
        return fn(*args)
    except (TypeError, AttributeError) as error:
        return str(error)


@pytest.mark.parametrize("use", [looks_up, sets])
@pytest.mark.parametrize("tables", [{"_parameters": 3}, {"_buffers": None}, {"_modules": [1]}], ids=str)
def test_a_table_that_is_no_dictionary(use, tables):
    """torch's code then fails at it, or finds names in it."""
    compiled = framejit.to_static(use)

    def run(fn):
        module = nn.Linear(2, 2)
        vars(module).update(tables)
        return outcome(fn, module, torch.ones(2))

    expected = str(run(use))
    assert [str(run(compiled)) for _ in range(3)] == [expected] * 3
    stats = framejit.stats()
    assert stats["captures"] and stats["break_reasons"]["UnsupportedAttribute"]


def test_a_table_that_was_missing_comes_back():
    module = nn.Linear(2, 2)
    compiled = framejit.to_static(looks_up)
    table = vars(module).pop("_parameters")
    assert compiled(module, torch.ones(2))[:2] == (3, False)
    vars(module)["_parameters"] = table
    assert compiled(module, torch.ones(2))[:2] == (3, True)
    assert framejit.stats()["captures"] == 2


class Doubling(dict):
    """As tables that fetch what they hold when it is asked for: each look-up counts, and gives another value."""

    asked = 0

    def __contains__(self, name):
        return name == "made_up" or super().__contains__(name)

    def __getitem__(self, name):
        type(self).asked += 1
        return torch.ones(2) if name == "made_up" else super().__getitem__(name) * 2


@pytest.mark.runs_once("a second run of the look-ups counts too")
def test_a_table_that_looks_names_up_in_its_own_way():
    def program(module, x):
        return functional.linear(x, module.weight, module.bias) + (module.made_up if hasattr(module, "made_up") else 0)

    module, x = nn.Linear(2, 2), torch.ones(2)
    plain = program(module, x)
    compiled = framejit.to_static(program)
    assert torch.equal(compiled(module, x), plain)
    table = vars(module)["_parameters"]
    vars(module)["_parameters"] = Doubling(table)
    Doubling.asked = 0
    expected, asked = program(module, x), Doubling.asked
    for _ in range(3):
        Doubling.asked = 0
        assert torch.equal(compiled(module, x), expected)
        assert Doubling.asked == asked
    vars(module)["_parameters"] = table
    assert torch.equal(compiled(module, x), plain)
    assert framejit.stats()["captures"] and framejit.stats()["hits"]

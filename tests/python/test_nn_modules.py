"""Modules of torch.nn, in training and in evaluation: results and gradients are eager's to the bit, in one graph."""

import copy
import warnings

import pytest
import torch
from torch import nn

import framejit
from support import counts


def t(*sizes):
    return torch.linspace(-1.5, 1.5, int(torch.tensor(sizes).prod())).view(*sizes)


ROWS, OTHERS, CLASSES = t(3, 4), t(3, 4).flip(0), torch.tensor([0, 1, 2])
WORDS = torch.tensor([[0, 1], [2, 3]])


class Unpooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool, self.unpool = nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)

    def forward(self, x):
        return self.unpool(*self.pool(x))


class SelfAttention(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.attention, self.options = nn.MultiheadAttention(4, 2, batch_first=True), options

    def forward(self, x):
        return self.attention(x, x, x, **self.options)


MODULES = {
    "Linear": lambda: (nn.Linear(4, 4), ROWS),
    "Bilinear": lambda: (nn.Bilinear(4, 4, 2), ROWS, OTHERS),
    "Flatten": lambda: (nn.Sequential(nn.Flatten(), nn.Linear(12, 2)), t(2, 3, 4)),
    "Unflatten": lambda: (nn.Sequential(nn.Linear(4, 4), nn.Unflatten(1, (2, 2))), ROWS),
    "FractionalMaxPool2d": lambda: (nn.FractionalMaxPool2d(2, output_size=3), t(1, 2, 6, 6)),
    "MaxUnpool2d": lambda: (Unpooled(), t(2, 2, 6, 6)),
    "Threshold": lambda: (nn.Threshold(0.1, 2), ROWS),
    "GLU": lambda: (nn.GLU(), ROWS),
    "Softmax2d": lambda: (nn.Softmax2d(), t(2, 3, 4, 4)),
    "BatchNorm without momentum": lambda: (nn.BatchNorm1d(3, momentum=None), t(4, 3)),
    "LayerNorm": lambda: (nn.LayerNorm(4), ROWS),
    "GroupNorm": lambda: (nn.GroupNorm(2, 4), t(2, 4, 3)),
    "LocalResponseNorm": lambda: (nn.LocalResponseNorm(2), t(2, 4, 3, 3)),
    "Embedding": lambda: (nn.Embedding(5, 3, padding_idx=0), WORDS),
    "Embedding with max_norm": lambda: (nn.Embedding(5, 3, max_norm=1.0), WORDS),
    "EmbeddingBag": lambda: (nn.EmbeddingBag(5, 3, mode="sum"), WORDS),
    "EmbeddingBag with offsets": lambda: (nn.EmbeddingBag(5, 3), WORDS.view(-1), torch.tensor([0, 2])),
    "LSTM with projections": lambda: (nn.LSTM(3, 4, proj_size=2), t(5, 2, 3)),
    "self-attention": lambda: (SelfAttention(), t(2, 5, 4)),
    "self-attention of each head": lambda: (SelfAttention(average_attn_weights=False), t(2, 5, 4)),
    "self-attention without weights": lambda: (SelfAttention(need_weights=False), t(2, 5, 4)),
    "masked self-attention": lambda: (SelfAttention(attn_mask=torch.triu(torch.full((5, 5), float("-inf")), 1)), t(2, 5, 4)),
    "cross attention": lambda: (nn.MultiheadAttention(4, 2), t(5, 2, 4), t(6, 2, 4), t(6, 2, 4)),
    "encoder layer": lambda: (nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), t(2, 5, 4)),
    "encoder layer, norm first": lambda: (nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, norm_first=True), t(2, 5, 4)),
    "encoder": lambda: (nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 2), t(2, 5, 4)),
    "encoder, sequences first": lambda: (nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2), t(5, 2, 4)),
    "decoder": lambda: (nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8), 2), t(5, 2, 4), t(6, 2, 4)),
    "Transformer": lambda: (nn.Transformer(4, 2, 1, 1, 8), t(5, 2, 4), t(6, 2, 4)),
    "BCELoss": lambda: (nn.BCELoss(), ROWS.sigmoid(), OTHERS.sigmoid().detach()),
    "CrossEntropyLoss": lambda: (nn.CrossEntropyLoss(weight=torch.ones(4), ignore_index=1), ROWS, CLASSES),
    "CrossEntropyLoss, smoothed": lambda: (nn.CrossEntropyLoss(label_smoothing=0.1), ROWS, CLASSES),
    "NLLLoss": lambda: (nn.NLLLoss(), ROWS.log_softmax(-1), CLASSES),
    "CosineEmbeddingLoss": lambda: (nn.CosineEmbeddingLoss(), ROWS, OTHERS, torch.tensor([1, -1, 1])),
    "TripletMarginLoss": lambda: (nn.TripletMarginLoss(), ROWS, OTHERS, ROWS * 2),
    "TripletMarginWithDistanceLoss": lambda: (nn.TripletMarginWithDistanceLoss(), ROWS, OTHERS, ROWS * 2),
    "MarginRankingLoss": lambda: (nn.MarginRankingLoss(), ROWS[0], OTHERS[0], torch.ones(4, dtype=torch.long)),
    "HingeEmbeddingLoss": lambda: (nn.HingeEmbeddingLoss(), ROWS, torch.sign(OTHERS).long()),
    "CosineSimilarity": lambda: (nn.CosineSimilarity(), ROWS, OTHERS),
    "PairwiseDistance": lambda: (nn.PairwiseDistance(), ROWS, OTHERS),
    "PixelShuffle": lambda: (nn.PixelShuffle(2), t(1, 4, 4, 4)),
    "PixelUnshuffle": lambda: (nn.PixelUnshuffle(2), t(1, 4, 4, 4)),
    "ConstantPad2d": lambda: (nn.ConstantPad2d(1, 3.0), t(1, 2, 4, 4)),
    "Fold": lambda: (nn.Fold((4, 4), 2), t(1, 8, 9)),
    "Unfold": lambda: (nn.Unfold(2), t(1, 2, 4, 4)),
    "ParameterList": lambda: (Listed(), ROWS),
}


class Listed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({"one": nn.Linear(4, 4), "two": nn.Tanh()})
        self.factors = nn.ParameterList([torch.ones(4), torch.full((4,), 2.0)])
        self.named = nn.ParameterDict({"k": nn.Parameter(torch.ones(4))})

    def forward(self, x):
        for layer in self.layers.values():
            x = layer(x)
        for factor in self.factors:
            x = x * factor
        return x + self.named["k"]


def add(name, make):
    MODULES[name] = make


for d in (1, 2, 3):
    grid, odd = (2, 2, *[6] * d), (2, 2, *[5] * d)
    for kind in ("Conv", "ConvTranspose"):
        add(f"{kind}{d}d", lambda kind=kind, d=d, odd=odd: (getattr(nn, f"{kind}{d}d")(2, 4, 3, padding=1), t(*odd)))
    for kind in ("MaxPool", "AvgPool", "AdaptiveAvgPool", "AdaptiveMaxPool"):
        add(f"{kind}{d}d", lambda kind=kind, d=d, grid=grid: (getattr(nn, f"{kind}{d}d")(2), t(*grid)))
    for kind in ("BatchNorm", "InstanceNorm"):
        options = {"affine": True, "track_running_stats": True}
        add(f"{kind}{d}d", lambda kind=kind, d=d, o=options: (getattr(nn, f"{kind}{d}d")(3, **o), t(2, 3, *[4] * d)))
for kind in ("ReflectionPad2d", "ReplicationPad2d", "ZeroPad2d", "CircularPad2d"):
    add(kind, lambda kind=kind: (getattr(nn, kind)(1), t(1, 2, 4, 4)))
for mode in ("nearest", "bilinear", "bicubic", "area"):
    add(f"Upsample, {mode}", lambda mode=mode: (nn.Upsample(scale_factor=2, mode=mode), t(1, 2, 4, 4)))
for kind in "ReLU ReLU6 ELU SELU CELU GELU SiLU Mish Sigmoid Tanh Softplus Softsign Softshrink Hardshrink Tanhshrink".split():
    add(kind, lambda kind=kind: (getattr(nn, kind)(), ROWS))
for kind in "LogSigmoid Hardswish Hardsigmoid Hardtanh LeakyReLU PReLU RReLU".split():
    add(kind, lambda kind=kind: (getattr(nn, kind)(), ROWS))
for kind in "Softmin Softmax LogSoftmax".split():
    add(kind, lambda kind=kind: (getattr(nn, kind)(-1), ROWS))
for kind in "Dropout Dropout2d AlphaDropout FeatureAlphaDropout".split():
    add(kind, lambda kind=kind: (nn.Sequential(getattr(nn, kind)(), nn.ReLU()), t(2, 3, 4, 4)))
for kind in "RNN LSTM GRU".split():
    add(kind, lambda kind=kind: (getattr(nn, kind)(3, 4, 2, bidirectional=True, batch_first=True), t(2, 5, 3)))
    add(f"{kind} with dropout", lambda kind=kind: (getattr(nn, kind)(3, 4, 2, dropout=0.2), t(5, 2, 3)))
    add(f"{kind}Cell", lambda kind=kind: (getattr(nn, f"{kind}Cell")(3, 4), t(2, 3)))
for kind in "L1Loss MSELoss SmoothL1Loss HuberLoss KLDivLoss PoissonNLLLoss BCEWithLogitsLoss MultiLabelSoftMarginLoss".split():
    add(kind, lambda kind=kind: (getattr(nn, kind)(), ROWS, OTHERS.sigmoid()))

BREAKS = {  # in training, in evaluation
    "BatchNorm without momentum": (1, 0),  # reads its count of batches
    "MaxPool1d": (0, 1),  # LibTorch's own function reads the data where nothing is differentiated
}
if torch.__version__.startswith("2.4."):
    BREAKS["EmbeddingBag"] = (1, 0)  # its backward looks at the words


def observe(module, args, training):
    torch.manual_seed(0)
    args = [arg.clone().requires_grad_(training and arg.is_floating_point()) for arg in args]
    module.train(training)
    module.zero_grad()
    with torch.set_grad_enabled(training):
        results = [leaf for leaf in torch.utils._pytree.tree_leaves(module(*args)) if isinstance(leaf, torch.Tensor)]
    differentiable = [result for result in results if result.requires_grad]
    if differentiable:
        sum(result.square().sum() for result in differentiable).backward()
    grads = [tensor.grad for tensor in (*args, *module.parameters()) if tensor.grad is not None]
    return [*results, *grads, *module.buffers()]


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("name", sorted(MODULES))
def test_module(name, training):
    torch.manual_seed(0)
    module, *args = MODULES[name]()
    args = [arg.detach() for arg in args]
    eager, compiled = copy.deepcopy(module), framejit.to_static(module, backend="aten")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about nested tensors and weights that are not contiguous
        for turn in range(3):
            expected = observe(eager, args, training)
            with counts.counting() as counted:
                got = observe(compiled, args, training)
            assert len(got) == len(expected)
            for one, other in zip(got, expected):
                assert one.dtype is other.dtype and one.stride() == other.stride() and torch.equal(one, other)
            assert not counted.fallbacks and (turn == 0 or counted.hits)
            if turn == 0:
                assert counted.breaks == BREAKS.get(name, (0, 0))[not training], counted.break_reasons

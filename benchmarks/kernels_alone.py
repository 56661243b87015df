"""Operators that are alone between others that no kernel computes: LibTorch's, and framejit's `native`.

    python benchmarks/kernels_alone.py [--repeats 15]

Which of them become kernels is decided in `is_worth_a_kernel` (codegen/kernels/lower.cpp) and in the rows of
codegen/kernels/written_out.cpp, which products oneDNN computes in runtime/torch/products.cpp; depthwise convolutions are
those of runtime/torch/depthwise.cpp. One intra-op thread, f32.
"""

import functools

import contestants
import harness
import torch
import torch.nn.functional as F

SIZE = (256, 3072)
ROWS = (4, 16, 64, 256, 1000, 4096)
FUNCTIONS = {
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "sin": torch.sin,
    "erf": torch.erf,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "mish": F.mish,
    "softplus": F.softplus,
    "elu": F.elu,
    "gelu": F.gelu,
    "gelu, tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_backward, tanh": lambda x: torch.ops.aten.gelu_backward(x, x, approximate="tanh"),
    "dropout": lambda x: F.dropout(x, 0.1),
}
OF_ROWS = {
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "softmax + 1": lambda x: F.softmax(x, -1) + 1,
    "log_softmax": lambda x: F.log_softmax(x, -1),
}


# Rows, inner, columns; the layouts of the factors.
PRODUCTS = [(256, 256, 256), (256, 256, 768), (256, 1024, 256), (256, 256, 1024), (394, 768, 192), (1024, 1024, 1024)]
LAYOUTS = {
    "mm": lambda a, b: (a, b),
    "mm, second transposed": lambda a, b: (a, b.t().contiguous().t()),
    "mm, first transposed": lambda a, b: (a.t().contiguous().t(), b),
}
# Batches, rows, inner, columns: of attention.
BATCHES = [(16, 128, 32, 128), (16, 128, 128, 64), (6, 197, 64, 197), (6, 197, 197, 64)]
# Channels, those of the result, rows and columns of pixels; two images.
CONVOLUTIONS = [(24, 72, 56), (64, 256, 56), (256, 64, 56), (512, 128, 28), (256, 1024, 14), (2048, 512, 7)]
# The same with a stride, not channels last.
OF_PIXELS = [(64, 256, 56, 1), (256, 512, 56, 2), (1024, 256, 14, 1), (2048, 512, 7, 1)]
# Channels, rows and columns of pixels, window, stride; two images. MobileNet-v3 has them.
DEPTHWISE = [(16, 112, 3, 2), (72, 56, 3, 2), (88, 28, 3, 1), (96, 28, 5, 2), (240, 14, 5, 1), (576, 7, 5, 1)]


def differentiate(wanted, stride, padding, groups):
    return functools.partial(
        torch.ops.aten.convolution_backward,
        bias_sizes=None,
        stride=[stride] * 2,
        padding=[padding] * 2,
        dilation=[1, 1],
        transposed=False,
        output_padding=[0, 0],
        groups=groups,
        output_mask=[wanted == "images", wanted == "weight", False],
    )


def gradient_cases():
    for channels, outputs, width, stride in OF_PIXELS:
        images, weight = torch.rand(2, channels, width, width), torch.rand(outputs, channels, 1, 1)
        gradient = torch.rand_like(F.conv2d(images, weight, stride=stride))
        for wanted in ("images", "weight"):
            name = f"convolution by 1 x 1, gradient of the {wanted}"
            size = (channels, outputs, width, stride)
            yield name, size, differentiate(wanted, stride, 0, 1), (gradient, images, weight)


def depthwise_cases():
    for channels, width, window, stride in DEPTHWISE:
        images, weight = torch.rand(2, channels, width, width), torch.rand(channels, 1, window, window)
        options = {"stride": stride, "padding": window // 2, "groups": channels}
        convolve = functools.partial(F.conv2d, **options)
        size = (channels, width, window, stride)
        yield "depthwise convolution", size, convolve, (images, weight)
        gradient = torch.rand_like(convolve(images, weight))
        for wanted in ("images", "weight"):
            name = f"depthwise convolution, gradient of the {wanted}"
            yield name, size, differentiate(wanted, stride, window // 2, channels), (gradient, images, weight)


def cases():
    """Name, sizes, function and its arguments."""
    for name, function in FUNCTIONS.items():
        yield name, SIZE, function, (torch.rand(SIZE) + 0.1,)
    for name, function in OF_ROWS.items():
        for length in ROWS:
            size = (SIZE[0] * SIZE[1] // length, length)
            yield name, size, function, (torch.rand(size) + 0.1,)
    for name, laid_out in LAYOUTS.items():
        for rows, inner, columns in PRODUCTS:
            yield name, (rows, inner, columns), torch.mm, laid_out(torch.rand(rows, inner), torch.rand(inner, columns))
    for batches, rows, inner, columns in BATCHES:
        size = (batches, rows, inner, columns)
        yield "bmm", size, torch.bmm, (torch.rand(batches, rows, inner), torch.rand(batches, inner, columns))
    for channels, outputs, width in CONVOLUTIONS:
        images = torch.rand(2, channels, width, width).to(memory_format=torch.channels_last)
        weight = torch.rand(outputs, channels, 1, 1)
        yield "convolution by 1 x 1, channels last", (channels, outputs, width), torch.conv2d, (images, weight)
    yield from gradient_cases()
    yield from depthwise_cases()


def measure(function, arguments, chosen, repeats):
    """Microseconds of a call, a summary by contestant."""
    calls = {c.name: functools.partial(c.convert(lambda *given: function(*given)), *arguments) for c in chosen}
    with torch.no_grad():
        taken = harness.interleave(calls, repeats=repeats)
    for contestant in chosen:
        contestant.reset()
    return {name: harness.summarize(samples.scaled(1e6).cpu) for name, samples in taken.items()}


def main():
    parser = harness.parser(__doc__, "kernels_alone")
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    chosen = contestants.choose(arguments.contestants, "eager,framejit-native")
    rows, lines = [], []
    for name, size, function, given in cases():
        taken = measure(function, given, chosen, arguments.repeats)
        rows.append({"operator": name, "size": list(size), "us": taken})
        lines.append([name, "x".join(map(str, size)), *(taken[c.name].text(0) for c in chosen)])
    harness.write_json(arguments.json, rows)
    harness.show_table(
        "operators alone, us", ["operator", "size", *(c.name for c in chosen)], lines, "median [middle half]"
    )


if __name__ == "__main__":
    main()

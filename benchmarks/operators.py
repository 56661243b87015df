"""Time to capture one operator: with its rule in graph/infer, and through LibTorch's Meta kernel instead.

    python benchmarks/operators.py [--rounds 30] [--markdown docs/operator_times.md]

Each operator is recorded many times in a row, by its overload, in one process and in turns: the figure is what a capture
pays for it below the bytecode (LibTorch's dispatch down to the recorder, what the operator returns, the node, the fake
result), in thread CPU time. The Meta kernel is asked through a switch that only tests have.
"""

import os
import time

import harness
import torch

from framejit import _C

NATIVE_CALLS = 200  # of each round
META_CALLS = 20
PAGE = """\
<!-- Written by benchmarks/operators.py --markdown. -->
# Time per captured operator

What a capture pays for one operator, in microseconds of thread CPU time: with the rule that graph/ has for it, and where that is left
out and LibTorch's Meta kernel is asked, as for operators without an entry. Medians of {rounds} rounds, in turns in one process, with the
middle half of them; Python {python}, torch {torch}, {cpu}. The sum over all operators of the table: {native:.0f} us native,
{meta:.0f} us through Meta, {factor:.1f} times as long.

| operator | native, us | through Meta, us | longer by |
|---|---|---|---|
{lines}
"""


def cases():
    """[(overload, arguments)] over tensors of the sizes that a small transformer and a small ResNet have."""
    aten = torch.ops.aten
    x, y = torch.randn(8, 64, 256), torch.randn(8, 64, 256)
    matrix, weight, row = torch.randn(512, 256), torch.randn(256, 256), torch.randn(256)
    batch, images, kernel = torch.randn(8, 64, 64), torch.randn(2, 16, 32, 32), torch.randn(32, 16, 3, 3)
    channels, ids = torch.randn(16), torch.randint(0, 256, (8, 64))
    heads = torch.randn(2, 4, 64, 32)
    return [
        (aten.add.Tensor, (x, row)),
        (aten.mul.Tensor, (x, y)),
        (aten.div.Tensor, (x, y)),
        (aten.pow.Tensor_Scalar, (x, 3.0)),
        (aten.eq.Scalar, (ids, 0)),
        (aten.exp.default, (x,)),
        (aten.relu.default, (x,)),
        (aten.gelu.default, (x,)),
        (aten.where.self, (ids > 3, ids, ids)),
        (aten.masked_fill.Scalar, (batch, batch > 0, 0.0)),
        (aten.add_.Tensor, (x, y)),
        (aten.sum.dim_IntList, (x, [1], True)),
        (aten.mean.dim, (x, [-1])),
        (aten.amax.default, (x, [2])),
        (aten.argmax.default, (x, 1)),
        (aten.var.correction, (x, [1])),
        (aten._softmax.default, (x, -1, False)),
        (aten.view.default, (x, [512, 256])),
        (aten.permute.default, (x, [1, 0, 2])),
        (aten.transpose.int, (x, 1, 2)),
        (aten.slice.Tensor, (x, 1, 0, 32)),
        (aten.select.int, (x, 1, 0)),
        (aten.expand.default, (row, [512, 256])),
        (aten.split.Tensor, (x, 64, 2)),
        (aten.cat.default, ([x, y], 1)),
        (aten.clone.default, (x,)),
        (aten.mm.default, (matrix, weight)),
        (aten.addmm.default, (row, matrix, weight)),
        (aten.bmm.default, (batch, batch)),
        (aten.embedding.default, (weight, ids)),
        (aten.gather.default, (matrix, 1, ids.reshape(512, 1))),
        (aten.convolution.default, (images, kernel, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)),
        (aten.max_pool2d_with_indices.default, (images, [2, 2])),
        (aten.native_layer_norm.default, (x, [256], row, row, 1e-5)),
        (aten.native_batch_norm.default, (images, channels, channels, channels, channels, True, 0.1, 1e-5)),
        (aten._scaled_dot_product_flash_attention_for_cpu.default, (heads, heads, heads)),
        (aten.zeros.default, ([8, 64],)),
        (aten.rand_like.default, (x,)),
    ]  # fmt: skip


def take(overload, arguments, calls, meta_only):
    """Seconds of one call that is recorded."""
    leaves, spec = torch.utils._pytree.tree_flatten(arguments)
    tensors = tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))
    taken = []

    def program(*fakes):
        rest = iter(fakes)
        values = [next(rest) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        given = torch.utils._pytree.tree_unflatten(values, spec)
        overload(*given)
        start = time.thread_time()
        for _ in range(calls):
            overload(*given)
        taken.append((time.thread_time() - start) / calls)
        return ()

    before = _C._testing.set_meta_only(meta_only)
    try:
        with torch.no_grad():
            _C._testing.record(program, tensors)
    finally:
        _C._testing.set_meta_only(before)
    return taken[0]


def measure(rounds):
    rows = []
    todo = cases()
    assert all(_C._testing.has_rule(overload.name()) for overload, _ in todo)
    taken = {overload.name(): ([], []) for overload, _ in todo}
    for turn in range(rounds):
        harness.progress(f"round {turn + 1} of {rounds}")
        for overload, arguments in todo[turn % len(todo) :] + todo[: turn % len(todo)]:
            native, meta = taken[overload.name()]
            native.append(take(overload, arguments, NATIVE_CALLS, False) * 1e6)
            meta.append(take(overload, arguments, META_CALLS, True) * 1e6)
    for name, (native, meta) in taken.items():
        native, meta = harness.summarize(native), harness.summarize(meta)
        rows.append({"operator": name, "native_us": native, "meta_us": meta, "factor": meta.median / native.median})
    return rows


def lines(rows):
    for row in sorted(rows, key=lambda row: row["native_us"].median):
        yield row["operator"], row["native_us"].text(1), row["meta_us"].text(1), f"{row['factor']:.1f} x"


def write_page(file, rows, rounds):
    facts = harness.environment()
    native, meta = (sum(row[key].median for row in rows) for key in ("native_us", "meta_us"))
    text = PAGE.format(
        rounds=rounds,
        python=facts["python"],
        torch=torch.__version__.partition("+")[0],
        cpu=facts["cpu"],
        native=native,
        meta=meta,
        factor=meta / native,
        lines="\n".join("| `" + "` | ".join((line[0], " | ".join(line[1:]))) + " |" for line in lines(rows)),
    )
    with open(os.path.join(harness.ROOT, file), "w") as out:
        out.write(text)


def main():
    parser = harness.parser(__doc__, "operators")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument(
        "--markdown", default="", help="also write the table as a page, for instance docs/operator_times.md"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = measure(arguments.rounds)
    harness.write_json(arguments.json, rows)
    note = "median [middle half] of thread CPU time"
    harness.show_table(
        "one captured operator, us", ["operator", "native", "through Meta", "longer by"], list(lines(rows)), note
    )
    if arguments.markdown:
        write_page(arguments.markdown, rows, arguments.rounds)


if __name__ == "__main__":
    main()

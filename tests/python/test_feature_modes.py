"""Features in every mode of to_static, as a user's own suite would test them."""

import dataclasses

import torch
from torch import nn

import framejit
from framejit import testing

CALLS = {"count": 0}


@dataclasses.dataclass
class Batch:
    values: torch.Tensor
    scale: float = 2.0


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(width), nn.Linear(width, width)
        self.dropout = nn.Dropout(0.5)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen.add_(1)
        return x + self.dropout(torch.relu(self.linear(self.norm(x))))


class TestFunctions(testing.ToStaticTestCase):
    def setUp(self):
        self.x = torch.randn(3, 4)

    def test_operators(self):
        y = self.check(lambda x: torch.relu(x @ x.t()).sum(-1) / 2, self.x)
        self.assertCaptured(graphs=1)
        self.assertEqual(y.shape, (3,))

    def test_operators_in_place(self):
        before = self.x.clone()

        def scale(x, factor):
            x.mul_(factor)
            return x

        self.assertIs(self.check(scale, self.x, factor=3), self.x)
        self.assertTrue(torch.equal(self.x, before * 3))
        self.assertCaptured()

    def test_containers(self):
        def collect(x, into):
            for index, row in enumerate(x):
                into.setdefault(index % 2, []).append(row * index)
            return {key: sum(rows) for key, rows in into.items()}

        rows = {}
        self.assertEqual(set(self.check(collect, self.x, rows)), {0, 1})
        self.assertEqual([len(rows[0]), len(rows[1])], [2, 1])
        self.assertCaptured()

    def test_global(self):
        def counted(x):
            CALLS["count"] += 1
            return x + CALLS["count"]

        compiled = self.to_static(counted)
        CALLS["count"] = 0
        for calls in (1, 2, 3):
            self.check(compiled, self.x)
            self.assertEqual(CALLS, {"count": calls})

    def test_closure(self):
        total = 0.0

        def add(x):
            nonlocal total
            total += 0.5
            return x * total

        self.check(add, self.x)
        self.assertEqual(total, 0.5)
        self.assertCaptured()

    def test_dataclass(self):
        def double(batch):
            batch.scale *= 2
            return dataclasses.replace(batch, values=batch.values * batch.scale)

        batch = Batch(self.x)
        self.assertTrue(torch.equal(self.check(double, batch).values, self.x * 4))
        self.assertEqual(batch.scale, 4.0)

    def test_random_numbers(self):
        self.check(lambda x: x + torch.rand(3, 4) * torch.randint(5, (4,)), self.x)
        self.assertCaptured()

    def test_exception(self):
        def pick(x, table):
            y = x + 1
            return y * table["missing"]

        with self.assertRaises(KeyError):
            self.check(pick, self.x, {})

    def test_shapes(self):
        compiled = self.to_static(lambda x: x.reshape(-1).softmax(0))
        for rows in (1, 2, 3):
            self.check(compiled, self.x[:rows])
            self.assertCaptured(graphs=1)
        self.check(compiled, self.x)
        self.assertCaptured(graphs=0)


class TestModules(testing.ToStaticTestCase):
    def setUp(self):
        self.block, self.x = Block(4), torch.randn(2, 4)

    def test_training(self):
        y = self.check(self.block, self.x)
        self.assertCaptured(graphs=1)
        self.assertEqual(self.block.seen.item(), 1)
        y.sum().backward()
        self.assertIsNotNone(self.block.linear.weight.grad)

    def test_evaluation(self):
        self.block.eval()
        with torch.no_grad():
            self.check(self.block, self.x)
        self.assertCaptured(graphs=1)

    def test_state_dict_is_untouched(self):
        keys = list(self.block.state_dict())
        self.assertIs(self.to_static(self.block), self.block)
        self.assertEqual(list(self.block.state_dict()), keys)


class TestBreaks(testing.ToStaticTestCase):
    def setUp(self):
        self.x = torch.arange(4.0)

    @testing.disable("full_graph_*", reason="the graph breaks on purpose")
    def test_break(self):
        def parts(x):
            y = x + 1
            framejit.graph_break()
            return y * 2

        self.check(parts, self.x)
        self.assertCaptured(graphs=2, breaks=1)

    @testing.expect_failure("full_graph_*", reason="a branch on data breaks the graph")
    def test_branch_on_data(self):
        def branch(x):
            if x.sum() > 3:
                return x * 2
            return x - 2

        compiled = self.to_static(branch)
        self.check(compiled, self.x)
        self.check(compiled, -self.x)

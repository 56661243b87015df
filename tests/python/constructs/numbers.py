"""random, numpy, and numbers."""

from __future__ import annotations

import random

import numpy as np
import torch

from .registry import Group

construct = Group("Random numbers, numpy, numbers")


@construct("random.random")
def random_random(x):
    return x * random.random()


@construct("random branch")
def random_branch(x):
    if random.random() < 0.5:
        return x.sin()
    return x.cos()


@construct("random.choice, randint and shuffle")
def random_choice_randint_and_shuffle(x):
    order = [1, 2, 3]
    random.shuffle(order)
    return x * random.randint(1, 5) + order[0], random.choice(["a", "b"])


@construct("random.seed, then a number")
def random_seed_then_a_number(x):
    random.seed(7)
    return x + random.uniform(0.0, 1.0)


@construct("random.Random of its own")
def random_of_its_own(x):
    generator = random.Random(3)
    return x * generator.gauss(0.0, 1.0)


@construct("dropout in training")
def dropout_in_training(x):
    return torch.nn.functional.dropout(x, 0.5, training=True)


@construct("numpy.random")
def numpy_random(x):
    return x * float(np.random.rand())


@construct("numpy array made into a tensor")
def numpy_array_made_into_a_tensor(x):
    weights = np.arange(3, dtype=np.float32)
    return x * torch.from_numpy(weights)


@construct("tensor made into a numpy array")
def tensor_made_into_a_numpy_array(x):
    array = x.sin().numpy()
    return torch.as_tensor(np.flip(array).copy()).cos()


@construct("numpy scalar in arithmetic")
def numpy_scalar_in_arithmetic(x):
    return x * np.float32(1.5) + np.pi


@construct("integer arithmetic")
def integer_arithmetic(x):
    n = x.shape[0]
    return x * (n**2 // 2 % 5) + (n << 2 ^ 1 | 8 & ~n), divmod(-7, n), pow(3, 4, 5)


@construct("int, float and complex numbers")
def int_float_and_complex_numbers(x):
    z = complex(1, 2) * 1j
    return x * z.real + int("12") + float("0.5"), abs(z.conjugate()), round(2.567, 1), (0.5).as_integer_ratio()


@construct("infinities and NaN")
def infinities_and_nan(x):
    high = float("inf")
    return x.clamp(-high, high), high > 1e308, high - high != high - high


@construct("big integers")
def big_integers(x):
    n = 2**70
    return x * (n >> 69), n.bit_length(), n % 1000


@construct("fractions and decimal")
def fractions_and_decimal(x):
    from decimal import Decimal
    from fractions import Fraction

    return x * float(Fraction(1, 4) + Fraction(1, 2)), str(Decimal("0.1") * 3)


@construct("tensor.item in arithmetic")
def tensor_item_in_arithmetic(x):
    return x * x.max().item()


@construct("range and slice objects as values")
def range_and_slice_objects_as_values(x):
    steps = range(0, 10, 4)
    part = slice(None, None, 2)
    return x[part] * len(steps), steps[1:], 8 in steps, part.indices(3)

"""Functions and small models that the overhead benchmark measures."""

import torch


def add_one(x):
    return x + 1


def sum_list(tensors):
    total = tensors[0]
    for tensor in tensors:
        total = total + tensor
    return total


def sum_arguments(count):
    """A function of `count` tensor arguments, written out."""
    names = [f"x{index}" for index in range(count)]
    source = f"def f({', '.join(names)}):\n    return {' + '.join(names)} + 1\n"
    return _compiled(source, {})


class Settings:
    """A plain object whose attributes a captured function reads."""


def read_attributes(count):
    """A function that reads `count` float attributes of an object outside it."""
    settings = Settings()
    for index in range(count):
        setattr(settings, f"a{index}", index + 0.5)
    terms = " + ".join(f"settings.a{index}" for index in range(count))
    return _compiled(f"def f(x):\n    return x * ({terms})\n", {"settings": settings})


def five_prints(x):
    """Six segments with a print between them."""
    x = torch.sin(x) + 1
    print("", end="")
    x = torch.cos(x) * 2
    print("", end="")
    x = torch.relu(x) - 1
    print("", end="")
    x = torch.tanh(x) * 3
    print("", end="")
    x = torch.exp(-x) + 1
    print("", end="")
    return torch.sigmoid(x)


def five_branches(x):
    """Six segments with a data-dependent branch between them."""
    x = x + 1 if x.sum() > 0 else x - 1
    x = x * 2 if x.mean() > 0 else x * 3
    x = torch.sin(x) if x.max() > 0 else torch.cos(x)
    x = x + 2 if x.sum() > 0 else x - 2
    x = torch.relu(x) if x.min() > 0 else torch.tanh(x)
    return x * 2


def _compiled(source, namespace):
    exec(compile(source, "<benchmark>", "exec"), namespace)
    return namespace["f"]

"""Dataclasses, named tuples and enumerations."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, NamedTuple

import torch

from .registry import Group

construct = Group("Dataclasses, named tuples, enumerations")


@dataclasses.dataclass
class Batch:
    inputs: Any
    rate: float = 0.5
    tags: list = dataclasses.field(default_factory=list)

    def scaled(self):
        return self.inputs * self.rate


@dataclasses.dataclass(frozen=True)
class Config:
    width: int = 3
    scale: float = 2.0


@dataclasses.dataclass
class Normed:
    value: Any
    norm: Any = dataclasses.field(init=False)

    def __post_init__(self):
        self.norm = self.value.abs().sum()


@construct("dataclass")
def dataclass_made(x):
    batch = Batch(x, tags=["first"])
    batch.tags.append("second")
    return batch.scaled(), batch.tags


@construct("dataclass with a default_factory, given back")
def dataclass_with_a_default_factory_given_back(x):
    return Batch(x.sin())


@construct("frozen dataclass as a configuration")
def frozen_dataclass_as_a_configuration(x):
    config = Config(scale=4.0)
    try:
        config.width = 5
    except dataclasses.FrozenInstanceError:
        x = x + 1
    return x * config.scale + config.width


@construct("dataclasses.replace")
def dataclasses_replace(x):
    batch = dataclasses.replace(Batch(x), rate=0.25)
    return batch.scaled(), dataclasses.replace(Config(), width=1) == Config(1)


@construct("dataclass with __post_init__")
def dataclass_with_post_init(x):
    normed = Normed(x)
    return normed.value / normed.norm


@construct("dataclasses.asdict and fields")
def dataclasses_asdict_and_fields(x):
    config = Config()
    values = dataclasses.asdict(config)
    return x * values["scale"], [field.name for field in dataclasses.fields(config)]


construct.source(
    "dataclass with slots",
    """
    import dataclasses

    @dataclasses.dataclass(slots=True)
    class State:
        hidden: object
        step: int = 0

    def f(x):
        state = State(x.sin())
        state.step += 1
        return state.hidden * state.step
    """,
    since=(3, 10),
)


class Pair(NamedTuple):
    left: Any
    right: Any = 1.0

    def product(self):
        return self.left * self.right


@construct("namedtuple with a method")
def namedtuple_with_a_method(x):
    pair = Pair(x, right=x.cos())
    left, right = pair
    return pair.product(), left + pair[1]


@construct("namedtuple _replace and given back")
def namedtuple_replace_and_given_back(x):
    return Pair(x.sin())._replace(right=2.0)


class Activation(enum.Enum):
    RELU = "relu"
    TANH = "tanh"

    def apply(self, value):
        return torch.relu(value) if self is Activation.RELU else torch.tanh(value)


class Stage(enum.IntEnum):
    TRAIN = 1
    TEST = 2


class Flags(enum.Flag):
    BIAS = enum.auto()
    NORM = enum.auto()


@construct("Enum members and their methods")
def enum_members_and_their_methods(x):
    return [activation.apply(x) for activation in Activation], Activation("tanh").name


@construct("IntEnum in arithmetic")
def int_enum_in_arithmetic(x):
    return x * Stage.TEST + Stage.TRAIN, Stage.TRAIN < Stage.TEST


@construct("Flag combined and tested")
def flag_combined_and_tested(x):
    flags = Flags.BIAS | Flags.NORM
    return x + 1 if flags & Flags.NORM else x

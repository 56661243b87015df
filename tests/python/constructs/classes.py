"""Classes that the program defines, and instances that the trace makes."""

from __future__ import annotations

import abc

from .registry import Group

construct = Group("Classes")


class Normalizer:
    count = 0
    epsilon = 1e-3

    def __init__(self, mean, scale):
        self.mean, self.scale = mean, scale

    def __call__(self, value):
        return (value - self.mean) * self.scale

    @property
    def variance(self):
        return self.scale * self.scale

    @variance.setter
    def variance(self, value):
        self.scale = value**0.5

    @classmethod
    def unit(cls):
        return cls(0.0, 1.0)

    @staticmethod
    def clip(value):
        return value.clamp(-1, 1)


class Centered(Normalizer):
    def __init__(self, mean):
        super().__init__(mean, 2.0)

    def __call__(self, value):
        return super().__call__(value).sin()


@construct("instance made in the trace")
def instance_made_in_the_trace(x):
    return Normalizer(x.mean(), 2.0)(x)


@construct("instance made and given back")
def instance_made_and_given_back(x):
    return Normalizer(x.mean(), x.abs())


@construct("super() in __init__ and in a method")
def super_in_init_and_in_a_method(x):
    return Centered(x.mean())(x)


@construct("property and its setter")
def property_and_its_setter(x):
    normalizer = Normalizer(x, 3.0)
    normalizer.variance = 16.0
    return x * normalizer.variance + normalizer.scale


@construct("classmethod and staticmethod")
def classmethod_and_staticmethod(x):
    return Normalizer.unit()(x) + Centered.clip(x)


@construct("class attribute read through an instance")
def class_attribute_read_through_an_instance(x):
    normalizer = Normalizer(x, 1.0)
    normalizer.epsilon = normalizer.epsilon * 2
    return x + normalizer.epsilon, Normalizer.epsilon


@construct("class attribute written")
def class_attribute_written(x):
    Normalizer.count += 1
    return x + Normalizer.count


@construct("class made in the call")
def class_made_in_the_call(x):
    class Local:
        factor = 3

        def apply(self, value):
            return value * self.factor

    return Local().apply(x)


@construct("two bases, method resolution order")
def two_bases_method_resolution_order(x):
    return Both().apply(x)


class First:
    def apply(self, value):
        return value + 1


class Second(First):
    def apply(self, value):
        return super().apply(value) * 2


class Third(First):
    def apply(self, value):
        return super().apply(value) * 3


class Both(Second, Third):
    pass


class Clamped:
    """A data descriptor."""

    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner=None):
        return self if instance is None else getattr(instance, self.name)

    def __set__(self, instance, value):
        setattr(instance, self.name, value.clamp(-1, 1))


class Cell:
    state = Clamped()


@construct("descriptor")
def descriptor(x):
    cell = Cell()
    cell.state = x * 2
    return cell.state + 1


class Settings:
    def __init__(self, values):
        self.values = values

    def __getattr__(self, name):
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None


@construct("__getattr__")
def getattr_hook(x):
    settings = Settings({"scale": 2.0})
    return x * settings.scale + getattr(settings, "shift", 1.0), hasattr(settings, "none")


@construct("__setattr__ and __delattr__")
def setattr_and_delattr_hooks(x):
    tracked = Tracked()
    tracked.value = x
    tracked.value = tracked.value + 1
    out = tracked.value
    del tracked.value
    return out, tracked.log


class Tracked:
    def __init__(self):
        object.__setattr__(self, "log", [])

    def __setattr__(self, name, value):
        self.log.append(f"set {name}")
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        self.log.append(f"del {name}")
        object.__delattr__(self, name)


class Slotted:
    __slots__ = ("weight", "bias")

    def __init__(self, weight, bias=0.0):
        self.weight, self.bias = weight, bias


@construct("__slots__")
def slots(x):
    layer = Slotted(2.0)
    layer.bias = x.sin()
    return x * layer.weight + layer.bias


class Registry(type):
    names = []

    def __new__(mcs, name, bases, body):
        cls = super().__new__(mcs, name, bases, body)
        cls.tag = name.lower()
        return cls

    def __len__(cls):
        return 3


class Registered(metaclass=Registry):
    pass


@construct("metaclass")
def metaclass(x):
    return x * len(Registered), Registered.tag, type(Registered).__name__


class Block(abc.ABC):
    def run(self, value):
        return self.forward(value) + 1

    @abc.abstractmethod
    def forward(self, value): ...


class SineBlock(Block):
    def forward(self, value):
        return value.sin()


@construct("abstract base class")
def abstract_base_class(x):
    try:
        Block()
    except TypeError:
        return SineBlock().run(x), isinstance(SineBlock(), Block)


@construct("__new__ that gives back one instance")
def new_that_gives_back_one_instance(x):
    return x * 2 if Single() is Single() else x


class Single:
    instance = None

    def __new__(cls):
        if cls.instance is None:
            cls.instance = super().__new__(cls)
        return cls.instance


@construct("__init_subclass__")
def init_subclass(x):
    class Base:
        def __init_subclass__(cls, factor=1, **kwargs):
            super().__init_subclass__(**kwargs)
            cls.factor = factor

    class Tripled(Base, factor=3):
        pass

    return x * Tripled.factor


@construct("vars() of an instance")
def vars_of_an_instance(x):
    normalizer = Normalizer(x, 2.0)
    return {name: value * 2 for name, value in vars(normalizer).items()}


@construct("type() called with three arguments")
def type_called_with_three_arguments(x):
    made = type("Made", (), {"factor": 4, "apply": lambda self, value: value * self.factor})
    return made().apply(x)


construct.source(
    "type parameters",
    """
    class Box[T]:
        def __init__(self, value: T):
            self.value = value

    def first[T](values: list[T]) -> T:
        return values[0]

    def f(x):
        return first([x + 1]), Box(x * 2).value
    """,
    since=(3, 12),
)

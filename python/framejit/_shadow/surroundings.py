"""What a run may change without naming it: random generators, torch's switches, context variables."""

import contextvars
import functools
import hashlib
import random

import torch
from torch.utils._device import DeviceContext  # what set_default_device() enters

from framejit import _C

try:
    import numpy
except ImportError:  # framejit does not need it
    numpy = None


@functools.lru_cache(maxsize=None)
def has_cuda():
    return torch.cuda.is_available()


def seed_all(seed):
    random.seed(seed)
    # Without a device torch.manual_seed keeps each seed, with the stack of its caller, for the day when there is one.
    (torch.manual_seed if has_cuda() else torch.default_generator.manual_seed)(seed)
    if numpy is not None:
        numpy.random.seed(seed)


def random_states():
    """A line for each random generator of the process."""
    yield f"random {hash(random.getstate())}"
    yield f"torch {hashlib.sha1(torch.get_rng_state().numpy().tobytes()).hexdigest()}"
    if torch.cuda.is_initialized():
        for state in torch.cuda.get_rng_state_all():
            yield f"cuda {hashlib.sha1(state.numpy().tobytes()).hexdigest()}"
    if numpy is not None:
        name, keys, position, has_gauss, cached = numpy.random.get_state()
        yield f"numpy {name} {hashlib.sha1(keys.tobytes()).hexdigest()} {position} {has_gauss} {cached}"


def is_watched():
    """Whether a mode of the program sees each operator, and so would see those of a comparison."""
    functions = [torch._C._get_function_stack_at(index) for index in range(torch._C._len_torch_function_stack())]
    return torch._C._len_torch_dispatch_stack() > 0 or any(type(mode) is not DeviceContext for mode in functions)


class RandomState:
    """Of all random generators that a program uses without naming one."""

    def __init__(self):
        self._python = random.getstate()
        self._numpy = None if numpy is None else numpy.random.get_state()
        self._torch = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None

    def restore(self):
        random.setstate(self._python)
        if numpy is not None:
            numpy.random.set_state(self._numpy)
        torch.set_rng_state(self._torch)
        if self._cuda is not None:
            torch.cuda.set_rng_state_all(self._cuda)


def torch_switches():
    return {
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "default dtype": torch.get_default_dtype(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "threads": torch.get_num_threads(),
    }


class Switches:
    """torch's switches, the default device and `enable_to_static`."""

    def __init__(self):
        self.values = torch_switches()
        # torch.get_default_device() of torch 2.4 fails after set_default_device(None)
        with torch._C.DisableTorchFunctionSubclass():
            self.values["default device"] = torch.empty(0).device
        self.values["enable_to_static"] = enabled = _C.set_enabled(True)
        _C.set_enabled(enabled)

    def changes(self):
        """What differs now, in words."""
        now = Switches().values
        return [
            "{} was {}, is {}".format(name, before, now[name])
            for name, before in self.values.items()
            if now[name] != before
        ]

    def restore(self):
        before, now = self.values, Switches().values
        _C.set_enabled(before["enable_to_static"])
        torch.set_grad_enabled(before["grad"])
        torch.set_default_dtype(before["default dtype"])
        torch.set_autocast_enabled("cpu", before["autocast"])
        if now["deterministic"] != before["deterministic"]:
            torch.use_deterministic_algorithms(before["deterministic"])
        if now["threads"] != before["threads"]:
            torch.set_num_threads(before["threads"])
        if now["default device"] != before["default device"]:
            torch.set_default_device(None if before["default device"].type == "cpu" else before["default device"])


class Surroundings:
    """All of the above with the context variables, at the time of construction."""

    def __init__(self):
        self._random, self._switches = RandomState(), Switches()
        self._variables = contextvars.copy_context()

    def lost_by_run(self):
        """Kinds of what a run has changed and `restore` cannot put back: a variable that was not set."""
        return ["a context variable" for variable in contextvars.copy_context() if variable not in self._variables]

    def restore(self):
        self._random.restore()
        self._switches.restore()
        for variable, value in self._variables.items():
            if variable.get() is not value:
                variable.set(value)

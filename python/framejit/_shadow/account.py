"""What one call did, as lines of text: result or exception, mutations, output, random generators, torch's switches."""

import contextlib
import difflib
import io

import torch

from framejit._shadow import scope
from framejit._shadow.describe import Describer
from framejit._shadow.snapshot import MISSING
from framejit._shadow.surroundings import random_states, torch_switches

# Of enum.Flag, which enters there each combination that it has made; which run made it makes no difference.
PRIVATE_CACHES = {"_value2member_map_"}


class Account:
    """Run `run(*args, **kwargs)` and keep what it did.

    Attributes:
        lines: all that it did, to be compared with those of another run from the same state.
        result: what it returned, or MISSING.
        raised: the exception, or None.
        printed: its standard output, which has gone nowhere.
        undescribed: the exception of an object that does not let itself be described; then there are no lines.
    """

    def __init__(self, run, args, kwargs, snapshot, after=None):
        self.result, self.raised = MISSING, None
        afterwards = MISSING
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            try:
                self.result = run(*args, **kwargs)
                if after is not None:
                    afterwards = after(self.result)
            except Exception as error:
                self.raised = error
        self.printed = printed.getvalue()
        self.lines, self.undescribed = None, None
        with torch._C.DisableTorchFunctionSubclass():
            try:
                self.lines = describe_run(args, kwargs, snapshot, self, afterwards)
            except Exception as error:
                self.undescribed = error

    def difference(self, other):
        """Of this run, the eager one, and a compiled one: a unified diff, empty if there is none."""
        if self.undescribed or other.undescribed:
            raise self.undescribed or other.undescribed
        if self.lines == other.lines:
            return ""
        return "\n".join(difflib.unified_diff(self.lines, other.lines, "eager", "compiled", lineterm="", n=2))


def describe_run(args, kwargs, snapshot, run, afterwards):
    """Lines for all that a run did, in the order in which identities are numbered: arguments, results, the rest."""
    describer = Describer(snapshot.versions)
    lines = describer.lines
    lines += [f"printed: {line}" for line in run.printed.splitlines(True)]
    lines += [f"random state: {text}" for text in random_states()] + [f"switches: {torch_switches()}"]
    for index, value in enumerate(args):
        describer.describe(f"args[{index}]", value)
    for name, value in kwargs.items():
        describer.describe(f"kwargs[{name}]", value)
    if run.result is not MISSING:
        describer.describe("result", run.result)
    if afterwards is not MISSING:
        describer.describe("after", afterwards)
    if run.raised is not None:
        describe_exception(describer, "raised", run.raised)
    describe_surroundings(describer, snapshot)
    return lines


def describe_surroundings(describer, snapshot):
    """Globals, cells and attributes that the function and the functions it names can reach."""
    for name, value in snapshot.named_globals():
        if value is MISSING:
            describer.lines.append(f"global {name}: none")
        elif not getattr(value, "__name__", "").startswith("framejit"):
            describer.describe(f"global {name}", value)
    for index, cell in enumerate(snapshot.cells()):
        describer.describe(f"cell {index}", cell)
    for cls in snapshot.classes():
        for name, value in sorted(vars(cls).items()):
            if not name.startswith("__") and name not in PRIVATE_CACHES:
                describer.describe(f"class {cls.__qualname__}.{name}", value)


def describe_exception(describer, path, error):
    describer.describe(path, error)
    describer.lines.append(f"{path} message: {error}")
    describer.lines.append(f"{path} suppress_context: {error.__suppress_context__}")
    for line in user_lines(error.__traceback__):
        describer.lines.append(f"{path} at {line}")
    for name in ("__cause__", "__context__"):
        if getattr(error, name) is not None:
            describe_exception(describer, f"{path}.{name}", getattr(error, name))


def user_lines(traceback):
    """'function line n: text' of each traceback entry in the program's own code, outermost first."""
    lines = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if scope.is_user_code(code.co_filename):
            lines.append(f"{code.co_name} in {code.co_filename} line {traceback.tb_lineno}")
        traceback = traceback.tb_next
    return lines

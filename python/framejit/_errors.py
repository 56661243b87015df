"""The exceptions that framejit itself raises. All others are the program's own."""


class GraphBreakError(RuntimeError):
    """A function under `full_graph=True` cannot be captured whole: where, why, and what to change."""


class ShadowError(RuntimeError):
    """Under FRAMEJIT_SHADOW=N: a compiled call did something else than the eager one. A fault of framejit."""


class GraphError(RuntimeError):
    """A graph cannot be read, built or run like this: what was expected and what was found, or what to do instead."""


class InternalError(RuntimeError):
    """A fault of framejit. Raised under FRAMEJIT_STRICT=1; otherwise the code runs eagerly and the fault is logged once."""

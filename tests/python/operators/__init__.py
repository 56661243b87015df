"""Each operator of PyTorch's own sample database (OpInfo), eagerly and under `to_static`."""

from .differential import measure
from .samples import full_name, operators

__all__ = ["full_name", "measure", "operators"]

"""Each operator of PyTorch's own sample database (OpInfo), eagerly and under `to_static`."""

from . import inference
from .differential import measure
from .inference import compare_inference
from .samples import DTYPES, full_name, operators

__all__ = ["DTYPES", "compare_inference", "full_name", "inference", "measure", "operators"]

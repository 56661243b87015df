"""Where the standard library, torch and framejit lie, as beginnings of file names."""

import importlib.util
import os
import site
import sys
import sysconfig

from framejit import _C

STANDARD_NAMES = ("<frozen", "<string>", "<__array_function__")
# Of torch: function transforms, optimisers, and the marks of torch.compile that lead to them.
WHOLE = ("_functorch/", "optim/", "_dynamo/", "_compile.py")
# What torch itself reckons and compiles with: no tensors of a program are in there.
COMPILERS = ("sympy", "mpmath", "networkx", "jinja2", "triton")
PACKAGES = ("site-packages", "dist-packages")


def skipped_prefixes():
    """Beginnings of the file names whose frames run as they are when an uncaptured instruction reaches them.

    They may still be captured as callees of the user's code; these lists only say where no capture starts by itself.

    Returns:
        tuple: two lists, of the standard library and of torch and framejit. A capture does not end inside the first, to
        which parts of torch belong, see WHOLE, and what it compiles with: a call of those is captured to its
        end, or runs eagerly as a whole.
    """
    import torch

    paths = sysconfig.get_paths()
    # site-packages lies inside the standard library's folder, and is the user's code.
    standard = list(STANDARD_NAMES)
    # It puts functions of its own into typing.
    typing_extensions = sys.modules.get("typing_extensions")
    if typing_extensions is not None:
        standard.append(typing_extensions.__file__)
    for folder in sorted({paths["stdlib"], paths["platstdlib"], os.path.dirname(os.__file__)}):
        standard += _inside(folder, keep=PACKAGES)
    standard += [os.path.join(os.path.dirname(torch.__file__), *part.split("/")) for part in WHOLE]
    specs = [importlib.util.find_spec(name) for name in COMPILERS]
    standard += [folder + os.sep for spec in specs if spec for folder in spec.submodule_search_locations or ()]
    return standard, [os.path.dirname(module.__file__) + os.sep for module in (torch, _C)]


def installed_prefixes():
    """Beginnings of the names of all files that are not the user's own: the above and what is in site-packages.

    Folders of that name count wherever they lie on the path: another environment's may be there too.

    Returns:
        tuple
    """
    standard, libraries = skipped_prefixes()
    paths = sysconfig.get_paths()
    installed = {paths["purelib"], paths["platlib"], *site.getsitepackages()}
    installed |= {os.path.abspath(entry) for entry in sys.path if os.path.basename(entry) in PACKAGES}
    return tuple(standard + libraries + [folder + os.sep for folder in sorted(installed)])


def _inside(folder, keep):
    """`folder` itself, or all in it but the folders named in `keep`, as prefixes of paths."""
    if not any(os.path.isdir(os.path.join(folder, name)) for name in keep):
        return [folder + os.sep]
    with os.scandir(folder) as entries:
        return [
            entry.path + (os.sep if entry.is_dir() else "")
            for entry in entries
            if entry.name not in keep and (entry.is_dir() or entry.name.endswith(".py"))
        ]

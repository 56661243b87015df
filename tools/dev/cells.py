"""The matrix: a cell is one Python with one torch. tools/requirements/py<tag>-torch<version>.txt is one, with all its
packages pinned; nothing else lists the cells. Beside them, each debug interpreter that is found makes a cell with the
packages of the release interpreter of its version."""

import glob
import json
import os
import re
from typing import NamedTuple, Optional

import steps

REQUIREMENTS = steps.path("tools", "requirements")
DEBIAN_DEBUG_PYTHON = "/usr/bin/python3.11-dbg"
_PROBE = (
    "import json,sys,sysconfig; print(json.dumps({'version': '%d.%d' % sys.version_info[:2],"
    " 'full': list(sys.version_info[:3]), 'debug': hasattr(sys, 'gettotalrefcount'),"
    " 'implementation': sys.implementation.name, 'include': sysconfig.get_path('include')}))"
)


class Interpreter(NamedTuple):
    path: str
    version: str  # "3.12"
    full: tuple
    debug: bool
    include: str


class Cell(NamedTuple):
    python: str  # "3.12"
    torch: str  # "2.4.1"
    debug_python: Optional[str] = None  # path of a debug interpreter

    @property
    def tag(self):
        return self.python.replace(".", "")

    @property
    def release_name(self):
        return "py%s-torch%s" % (self.tag, self.torch)

    @property
    def name(self):
        return "py%sd-torch%s" % (self.tag, self.torch) if self.debug_python else self.release_name

    @property
    def venv(self):
        return steps.path(".venv", self.name)

    @property
    def venv_python(self):
        return os.path.join(self.venv, "bin", "python")

    @property
    def build(self):
        return steps.path("build", self.name)

    @property
    def requirements(self):
        """The files that pin this cell's packages."""
        names = (self.release_name + ".txt", "models-%s.txt" % self.release_name)
        return [file for file in (os.path.join(REQUIREMENTS, name) for name in names) if os.path.exists(file)]


def version_key(text):
    return [int(part) for part in re.findall(r"\d+", text)]


def matrix():
    """All release cells, in order."""
    cells = []
    for file in glob.glob(os.path.join(REQUIREMENTS, "py*-torch*.txt")):
        tag, torch = re.fullmatch(r"py(\d+)-torch([\d.]+)\.txt", os.path.basename(file)).groups()
        cells.append(Cell("%s.%s" % (tag[0], tag[1:]), torch))
    return sorted(cells, key=lambda cell: (version_key(cell.python), version_key(cell.torch)))


def probe(executable):
    """The interpreter at a path, or None if it is no CPython that runs."""
    facts = steps.output_of([executable, "-c", _PROBE])
    if facts is None:
        return None
    facts = json.loads(facts)
    if facts["implementation"] != "cpython":
        return None
    return Interpreter(executable, facts["version"], tuple(facts["full"]), facts["debug"], facts["include"])


def _candidates(version):
    """Paths where a Python `version` may be, the preferred ones first."""
    for entry in filter(None, os.environ.get("FRAMEJIT_PYTHONS", "").split(":")):
        if os.path.isdir(entry):
            yield from (os.path.join(entry, "bin", "python" + version), os.path.join(entry, "python" + version))
        else:
            yield entry
    pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    folders = glob.glob(os.path.join(pyenv, "versions", version + "*"))
    for folder in sorted(folders, key=version_key, reverse=True):
        yield os.path.join(folder, "bin", "python" + version)
    for folder in os.environ.get("PATH", "").split(":"):
        if "shims" not in folder:
            yield os.path.join(folder, "python" + version)


def find_interpreter(version):
    """The release interpreter of a version, or None."""
    for executable in _candidates(version):
        if os.access(executable, os.X_OK):
            found = probe(executable)
            if found and found.version == version and not found.debug:
                return found
    return None


def debug_cells():
    """A cell for each debug interpreter: Debian's, and those of FRAMEJIT_DEBUG_PYTHON."""
    paths = filter(None, os.environ.get("FRAMEJIT_DEBUG_PYTHON", "").split(":"))
    cells = {}
    for executable in [DEBIAN_DEBUG_PYTHON] + list(paths):
        found = probe(executable)
        if not found or not found.debug:
            raise steps.Failure("%s is no debug build of CPython" % executable)
        release = [cell for cell in matrix() if cell.python == found.version]
        if not release:
            raise steps.Failure("%s is Python %s, which the matrix does not have" % (executable, found.version))
        cells[found.version] = release[0]._replace(debug_python=executable)  # a later one replaces Debian's
    return list(cells.values())


def choose(python=None, torch=None):
    """The cell that ./dev works in: as asked for, else the newest Python that is here with the newest torch."""
    cells = [cell for cell in matrix() if python in (None, cell.python) and torch in (None, cell.torch)]
    for cell in reversed(cells):
        if find_interpreter(cell.python):
            return cell
    asked = " ".join(filter(None, [python and "Python " + python, torch and "torch " + torch])) or "any of the matrix"
    raise steps.Failure(
        "no interpreter for %s is here: the matrix is %s; they are sought in FRAMEJIT_PYTHONS, pyenv's folder and PATH"
        % (asked, ", ".join(cell.name for cell in matrix()))
    )

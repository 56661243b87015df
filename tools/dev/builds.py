"""Configure and compile: the rooms without Python once per string ABI in build/shared-abi<N>, each cell in build/<cell>.

A cell's interpreter finds the result by itself: its environment has a .pth that points to build/<cell>/packages.
"""

import os
import threading

import steps
import venvs

# One build of the shared rooms at a time: two cells that run side by side use the same folder.
_shared_lock = threading.Lock()
_shared_done = set()


def compiler_cache():
    """Objects are found again in a checkout at another path."""
    return {"CCACHE_BASEDIR": steps.ROOT, "CCACHE_NOHASHDIR": "1"}


def torch_facts(cell):
    text = steps.output_of([cell.venv_python, "-E", steps.path("tools", "torch_facts.py")])
    return dict(line.split("=", 1) for line in (text or "").splitlines())


def configure(folder, arguments, name):
    """cmake runs when its arguments or the presets changed or there is no build.ninja; after that, ninja sees to it."""
    stamp = os.path.join(folder, ".framejit-configure")
    key = steps.digest(steps.read(steps.path("CMakePresets.json")), *arguments)
    if os.path.exists(os.path.join(folder, "build.ninja")) and steps.is_done(stamp, key):
        return
    command = ["cmake", "-S", steps.ROOT, "-B", folder] + arguments
    steps.run(command, name + " configure", env=compiler_cache())
    steps.mark_done(stamp, key)


def compile_folder(folder, name, jobs):
    steps.run(["ninja", "-C", folder, "-j", str(jobs)], name + " build", env=compiler_cache())


def build_shared(abi, jobs):
    folder = steps.path("build", "shared-abi%s" % abi)
    with _shared_lock:
        if folder not in _shared_done:
            name = os.path.basename(folder)
            configure(folder, ["--preset", name], name)
            compile_folder(folder, name, jobs)
            _shared_done.add(folder)
    return folder


def build(cell, jobs=None):
    """Compile the cell. Returns the folders whose ctest belongs to it."""
    jobs = jobs or steps.cores()
    steps.say("%s: building" % cell.name)
    arguments, folders = ["--preset", cell.name], [cell.build]
    if cell.debug_python:
        # Debug checks change what the shared rooms are compiled to, so this build has its own.
        arguments = ["--preset", "debug-python", "-B", cell.build, "-DFRAMEJIT_PYTHON=" + cell.venv_python]
    else:
        shared = build_shared(torch_facts(cell).get("torch_cxx11_abi", "1"), jobs)
        arguments.append("-DFRAMEJIT_SHARED_DIR=" + shared)
        folders.insert(0, shared)
    configure(cell.build, arguments, cell.name)
    compile_folder(cell.build, cell.name, jobs)
    venvs.link_build(cell)
    steps.say("%s: built" % cell.name)
    return folders

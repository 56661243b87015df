"""The lints: those of tools/lint over the whole tree, clang-format, ruff, and clang-tidy on the files that changed."""

import json
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor

import builds
import steps
import venvs

sys.path.insert(0, steps.path("tools", "lint"))

import layering
import limits
import tree
import unnamed
import version_macros

LINT_VENV = steps.path(".venv", "lint")
TREE_LINTS = (layering, version_macros, limits, unnamed)
CHANGED_SINCE = "FRAMEJIT_CHANGED_SINCE"  # a git revision; clang-tidy looks at the files changed after it
TIDY_AT_MOST = "FRAMEJIT_TIDY_AT_MOST"  # how many of them, those changed last; about eight seconds each

TOGETHER = re.compile(r"/together/\w+\.cpp$")
INCLUDED = re.compile(r'^#include "([^"]+)"$', re.MULTILINE)
PRECOMPILED = re.compile(r" -Winvalid-pch| -include \S+/cmake_pch\.hxx")

# clang does not find its own atomics in CPython 3.13's pyatomic.h, since it says that it is GCC 4.2.
CLANG_ATOMICS = "--extra-arg=-D_Py_USE_GCC_BUILTIN_ATOMICS=1"


def ensure_tools():
    """ruff and pytest at their pinned versions."""
    requirements = steps.path("tools", "requirements", "lint.txt")
    stamp, key = os.path.join(LINT_VENV, ".framejit-setup"), steps.digest(steps.read(requirements))
    if steps.is_done(stamp, key):
        return
    uv = venvs.find_uv()
    if not os.path.exists(os.path.join(LINT_VENV, "bin", "python")):
        steps.run([uv, "venv", "-q", "--python", sys.executable, LINT_VENV], "lint venv")
    python = os.path.join(LINT_VENV, "bin", "python")
    steps.run([uv, "pip", "install", "-q", "--python", python, "-r", requirements], "lint packages")
    steps.mark_done(stamp, key)


def lint_tool(name):
    return os.path.join(LINT_VENV, "bin", name)


def cpp_files():
    names = tree.files(steps.ROOT, tree.C_SUFFIXES)
    return [name for name in names if not tree.is_generated(tree.read(steps.ROOT, name))]


def format_tree():
    ensure_tools()
    steps.run(["clang-format", "-i"] + cpp_files(), "clang-format")
    steps.run([lint_tool("ruff"), "check", "-q", "--fix"], "ruff fix", check=False)
    steps.run([lint_tool("ruff"), "format", "-q"], "ruff format")
    steps.say("formatted")


def run_checker(command, name):
    status, log = steps.run(command, name, check=False)
    return [] if status == 0 else [steps.tail(log, 200)]


def check_format():
    return run_checker(["clang-format", "--dry-run", "-Werror"] + cpp_files(), "clang-format")


def check_ruff():
    found = run_checker([lint_tool("ruff"), "check", "--output-format=concise"], "ruff")
    return found + run_checker([lint_tool("ruff"), "format", "--check", "-q"], "ruff format check")


def check_generated():
    return run_checker([lint_tool("python"), steps.path("tools", "lint", "generated.py")], "generated files")


def changed_files():
    """Files changed since FRAMEJIT_CHANGED_SINCE; without it since the branch left its upstream, and where that is this
    very commit, as in a fresh clone, in the commits of the day before the last one. Those changed last come first."""
    base = os.environ.get(CHANGED_SINCE)
    if not base:
        head = (steps.output_of(["git", "rev-parse", "HEAD"]) or "").strip()
        base = (steps.output_of(["git", "merge-base", "HEAD", "@{upstream}"]) or head).strip()
        if base == head:
            base = last_commit_of_an_older_day()
    names = steps.output_of(["git", "diff", "--name-only", base, "--"]) or ""
    new = steps.output_of(["git", "ls-files", "--others", "--exclude-standard"]) or ""
    changed = set(names.split("\n") + new.split("\n"))
    uncommitted = steps.output_of(["git", "diff", "--name-only", "HEAD", "--"]) or ""
    history = steps.output_of(["git", "log", "--name-only", "--format=", "-n", "200"]) or ""
    newest_first = new.split("\n") + uncommitted.split("\n") + history.split("\n") + sorted(changed)
    return [name for name in dict.fromkeys(newest_first) if name in changed]


def last_commit_of_an_older_day():
    newest = int(steps.output_of(["git", "log", "-1", "--format=%ct"]))
    older = steps.output_of(["git", "rev-list", "-1", "--before=%d" % (newest - 86400), "HEAD"])
    empty_tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
    return older.strip() if older and older.strip() else empty_tree


def each_by_itself(entry):
    """The entry of a file that includes those that compile together, as one for each of these."""
    if not TOGETHER.search(entry["file"]):
        return [entry]
    command = entry["command"]
    return [
        dict(entry, file=steps.path(file), command=command.replace(entry["file"], steps.path(file)))
        for file in INCLUDED.findall(steps.read(entry["file"]))
    ]


def compile_commands(folders):
    """{source file: folder with its compile_commands.json} of all that the build folders compile. Each file is read by
    itself and without precompiled headers, which would hide includes that are missing; and clang does not read GCC's."""
    sources = {}
    for folder in folders:
        with open(os.path.join(folder, "compile_commands.json")) as f:
            entries = [each for entry in json.load(f) for each in each_by_itself(entry)]
        for entry in entries:
            entry["command"] = PRECOMPILED.sub("", entry["command"])
        commands = steps.path("build", "tidy", os.path.basename(folder))
        os.makedirs(commands, exist_ok=True)
        with open(os.path.join(commands, "compile_commands.json"), "w") as f:
            json.dump(entries, f, indent=1)
        for entry in entries:
            sources.setdefault(os.path.relpath(entry["file"], steps.ROOT), commands)
    return sources


def tidy_key(name, folder):
    """Changes with the file, any header of the tree that it may include, and the checks."""
    headers = [tree.read(steps.ROOT, header) for header in tree.files(steps.ROOT, (".h", ".def"))]
    return steps.digest(tree.read(steps.ROOT, name), steps.read(steps.path(".clang-tidy")), *headers)


def tidy_file(name, folder):
    stamp = steps.path("build", "tidy", name.replace("/", "__"))
    key = tidy_key(name, folder)
    if steps.is_done(stamp, key):
        return []
    found = run_checker(["clang-tidy", "-p", folder, "--quiet", CLANG_ATOMICS, steps.path(name)], "clang-tidy " + name)
    if not found:
        steps.mark_done(stamp, key)
    return found


def check_tidy(folders):
    os.makedirs(steps.path("build", "tidy"), exist_ok=True)
    sources = compile_commands(folders)
    every = [name for name in changed_files() if name in sources]
    changed = every[: int(os.environ.get(TIDY_AT_MOST, len(every)))]
    steps.say("clang-tidy on %d of %d changed files" % (len(changed), len(every)))
    with ThreadPoolExecutor(steps.cores()) as pool:
        return [text for found in pool.map(lambda name: tidy_file(name, sources[name]), changed) for text in found]


def check_own_tests():
    """A lint that cannot fail is none: tests/lint feeds each of them what it must refuse."""
    return run_checker([lint_tool("python"), "-m", "pytest", "-q", steps.path("tests", "lint")], "tests of the lints")


def lint(cell):
    ensure_tools()
    folders = builds.build(cell)
    checks = [(module.__name__, lambda module=module: module.check(steps.ROOT)) for module in TREE_LINTS]
    checks.append(("generated files", check_generated))
    checks += [("clang-format", check_format), ("ruff", check_ruff), ("clang-tidy", lambda: check_tidy(folders))]
    checks.append(("tests of the lints", check_own_tests))
    failed = []
    for name, check in checks:
        complaints = check()
        steps.say("lint %s: %s" % (name, "%d complaints" % len(complaints) if complaints else "clean"))
        if complaints:
            failed.append(name)
            steps.show("\n".join(complaints))
    if failed:
        steps.show("lint failed: " + ", ".join(failed))
    return int(bool(failed))

"""./dev: everything that is done to framejit's source tree, each from one command."""

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor

if sys.version_info < (3, 9):
    sys.exit("./dev needs Python 3.9 or newer, and python3 on PATH is %d.%d" % sys.version_info[:2])

import builds
import cells
import linting
import steps
import system
import testing
import venvs


def prepare(cell):
    system.ensure(system.BUILD, "system packages")
    venvs.ensure(cell)


def command_setup(args):
    prepare(cells.choose(args.python, args.torch))


def command_build(args):
    cell = cells.choose(args.python, args.torch)
    prepare(cell)
    builds.build(cell)


def command_test(args):
    system.ensure(system.BUILD, "system packages")
    other = testing.test_cpython if args.cpython else testing.test_long if args.long else None
    if args.all:
        return test_all(other or test_one_of_many)
    cell = cells.choose(args.python, args.torch)
    counts = other(cell) if other else testing.test_cell(cell, arguments=args.pytest)
    steps.show(str(counts))
    return int(counts.failed > 0)


def test_all(test_cell):
    """Every cell of the matrix and the debug interpreters, as many at a time as there are cores."""
    system.ensure(system.DEBUG_PYTHON, "debug interpreter")
    system.wish(system.BROWSER, "browser")
    present, missing = [], []
    for cell in cells.matrix():
        (present if cells.find_interpreter(cell.python) else missing).append(cell)
    for cell in missing:
        steps.say(
            "%s: no Python %s here; looked in FRAMEJIT_PYTHONS, pyenv's folder and PATH" % (cell.name, cell.python)
        )
    # The longest first, so that none of them runs alone at the end.
    present = cells.debug_cells() + sorted(present, key=testing.is_short)
    results = {cell.name: testing.Counts(failed=1) for cell in missing if steps.in_ci()}
    with ThreadPoolExecutor(steps.cores()) as pool:
        for cell, counts in zip(present, pool.map(lambda cell: counts_of(test_cell, cell), present)):
            results[cell.name] = counts
    width = max(map(len, results), default=0)
    for name, counts in results.items():
        steps.show("%-*s  %s" % (width, name, counts))
    total = sum(results.values(), testing.Counts())
    steps.show(str(total))
    return int(total.failed > 0 or not results)


def test_one_of_many(cell):
    counts = testing.test_cell(cell, threads=1, ignored=testing.left_out(cell))
    if cell.name == testing.SHADOWED_CELL:
        counts += testing.run_shadowed(cell)
    return counts


def counts_of(test_cell, cell):
    try:
        return test_cell(cell)
    except steps.Failure as failure:
        steps.show("==== %s: %s" % (cell.name, failure))
        return testing.Counts(failed=1)


def command_demo(args):
    cell = cells.choose(args.python, args.torch)
    prepare(cell)
    builds.build(cell)
    steps.say("demo")
    os.execv(cell.venv_python, [cell.venv_python, steps.path("benchmarks", "demo.py")] + args.arguments)


def command_lint(args):
    system.ensure(dict(system.BUILD, **system.LINT), "system packages")
    cell = cells.choose(args.python, args.torch)
    venvs.ensure(cell)
    builds.build(cell)
    return linting.lint(cell)


def command_format(args):
    system.ensure(system.LINT, "system packages")
    linting.format_tree()


def command_env(args):
    cell = cells.choose(args.python, args.torch)
    steps.show("cell          %s" % cell.name)
    steps.show("interpreter   %s" % cell.venv_python)
    steps.show("build folder  %s" % cell.build)
    for other in cells.matrix():
        found = cells.find_interpreter(other.python)
        steps.show("%-20s  %s" % (other.name, found.path if found else "no interpreter"))


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./dev", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")

    def add(name, function, text):
        sub = commands.add_parser(name, help=text, description=text)
        sub.add_argument("--python", help="as 3.12; the newest here if left out")
        sub.add_argument("--torch", help="as 2.4.1; the newest that the matrix has for that Python if left out")
        sub.set_defaults(function=function)
        return sub

    add("setup", command_setup, "install system packages, and fill the virtual environment")
    add("build", command_build, "setup, then compile")
    test = add("test", command_test, "build, then run GoogleTest and pytest")
    test.add_argument("--all", action="store_true", help="the whole matrix and the debug interpreter")
    instead = test.add_mutually_exclusive_group()
    instead.add_argument(
        "--cpython", action="store_true", help="CPython's own tests, captured, in the place of framejit's"
    )
    instead.add_argument(
        "--long", action="store_true", help="CPython's own tests whole, and random tests of thousands of examples"
    )
    test.add_argument("pytest", nargs="*", help="arguments for pytest, after --")
    demo = add("demo", command_demo, "build, then show what framejit does on real models")
    demo.add_argument("arguments", nargs="*", help="arguments for benchmarks/demo.py, after --")
    add("lint", command_lint, "layering, version macros, size limits, format, clang-tidy, ruff, generated files")
    add("format", command_format, "format the C++ and Python files in place")
    add("env", command_env, "say which interpreters and folders the commands use")
    return parser.parse_args(sys.argv[1:] if sys.argv[1:] not in ([], ["help"]) else ["--help"])


def main():
    args = parse_arguments()
    os.chdir(steps.ROOT)
    try:
        return args.function(args) or 0
    except steps.Failure as failure:
        steps.show("./dev: %s" % failure)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())

"""Make TARGET mirror the Python files and templates of SOURCE by links: link_package.py SOURCE TARGET.

A link whose file is gone is removed; what the build itself put into TARGET (extensions, _build_info.py) stays.
"""

import os
import sys

SUFFIXES = (".py", ".pyi", ".typed", ".jinja")


def python_files(source):
    """Paths of the package's Python files, relative to the package."""
    for folder, _, names in os.walk(source):
        for name in names:
            if name.endswith(SUFFIXES):
                yield os.path.relpath(os.path.join(folder, name), source)


def remove_stale_links(target, wanted):
    for folder, _, names in os.walk(target):
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith(SUFFIXES) and os.path.islink(path) and os.path.relpath(path, target) not in wanted:
                os.remove(path)


def make_link(original, link):
    os.makedirs(os.path.dirname(link), exist_ok=True)
    if os.path.islink(link) and os.readlink(link) == original:
        return
    if os.path.lexists(link):
        os.remove(link)
    os.symlink(original, link)


def main():
    source, target = (os.path.abspath(arg) for arg in sys.argv[1:3])
    wanted = set(python_files(source))
    remove_stale_links(target, wanted)
    for path in wanted:
        make_link(os.path.join(source, path), os.path.join(target, path))


if __name__ == "__main__":
    main()

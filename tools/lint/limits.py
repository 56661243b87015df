"""Hard limits on length: 800 lines a file, 80 lines a function, in C++ and Python. Tables and generated files are free."""

import ast
import bisect
import re

import tree

MAX_FILE_LINES = 800
MAX_FUNCTION_LINES = 80
_NOT_A_FUNCTION = re.compile(
    r"^\s*(?:extern\b[^(]*|(?:inline\s+)?namespace\b[^(]*|(?:typedef\s+)?(?:class|struct|union|enum)\b.*)$", re.DOTALL
)
_CONTROL = re.compile(r"^\s*(?:\}?\s*else\b|if\b|for\b|while\b|switch\b|do\b|try\b|catch\b|case\b|default\b)")
_BRACES = re.compile(r"[{};]")


def without_preprocessor(text):
    """Directives, with their continued lines, become empty lines."""
    return re.sub(
        r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda match: "\n" * match.group().count("\n"), text, flags=re.MULTILINE
    )


def is_function_header(header):
    """Whether the text between the last `;`, `{` or `}` and a `{` starts a function's body."""
    if not header.strip() or _CONTROL.match(header) or "(" not in header:
        return False
    if header.rstrip().endswith(("=", ",", "(", "return")):  # an initialiser list
        return False
    return not _NOT_A_FUNCTION.match(header)


def cpp_functions(text):
    """(first line, last line) of each function body, lambdas inside a function being part of it."""
    text = without_preprocessor(tree.blank_comments_and_strings(text))
    stack, start = [], 0
    line_starts = [0] + [match.end() for match in re.finditer("\n", text)]

    def line_of(offset):
        return bisect.bisect_right(line_starts, offset)

    for match in _BRACES.finditer(text):
        header = text[start : match.start()]
        if match.group() == "{":
            inside = any(entry is not None for entry in stack)
            first = start + len(header) - len(header.lstrip())
            stack.append(line_of(first) if not inside and is_function_header(header) else None)
        elif match.group() == "}" and stack:
            first_line = stack.pop()
            if first_line is not None:
                yield first_line, line_of(match.start())
        start = match.end()


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno


def check(root):
    complaints = []
    for name in tree.files(root, tree.C_SUFFIXES + (".py",)):
        text = tree.read(root, name)
        if tree.is_generated(text):
            continue
        lines = text.count("\n")
        if lines > MAX_FILE_LINES:
            complaints.append("%s: %d lines, at most %d" % (name, lines, MAX_FILE_LINES))
        find = python_functions if name.endswith(".py") else cpp_functions
        for first, last in find(text):
            if last - first + 1 > MAX_FUNCTION_LINES:
                complaints.append(
                    "%s:%d: a function of %d lines, at most %d" % (name, first, last - first + 1, MAX_FUNCTION_LINES)
                )
    return complaints


if __name__ == "__main__":
    tree.main(check)

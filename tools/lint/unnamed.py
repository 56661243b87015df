"""Files of one room that are compiled together (cmake/FramejitRoom.cmake) share one unnamed namespace: a name that two of
them define in it would be an error at best, at worst another overload of the other."""

import collections
import re

import tree

ROOMS = ("bytecode", "eval_frame", "tracer", "codegen", "runtime", "runtime/torch")
NEEDS_NO_PYTHON = ("codegen/kernels/", "bytecode/decoder.cpp", "bytecode/line_table.cpp")  # and compiles file by file

_OPENED = re.compile(r"namespace \{")
_TYPE = re.compile(r"(?:struct|class|enum class|enum|union) (\w+)\b(?!;)|using (\w+) =")
_OTHER = re.compile(
    r"(?!(?:using|class|struct|enum|union) )(?:template <.*> )?[A-Za-z][\w:<>*&, \[\]\"]*?[ *&](\w+)(?:\(|\[|\{|;| =)"
)
_KEYWORDS = {"operator", "using", "namespace", "return", "if", "for"}


def names_of(text):
    """{name: line} of what the file's unnamed namespaces define."""
    names, unnamed = {}, False
    for number, line in enumerate(
        tree.blank_comments_and_strings(text.replace("}  // namespace\n", "}#\n")).split("\n"), 1
    ):
        if _OPENED.match(line):
            unnamed = True
        elif line == "}#":
            unnamed = False
        elif unnamed:
            match = _TYPE.match(line) or _OTHER.match(line)
            if match and match.group(match.lastindex) not in _KEYWORDS:
                names.setdefault(match.group(match.lastindex), number)
    return names


def check(root):
    places = collections.defaultdict(list)
    for name in tree.files(root, (".cpp",)):
        room = tree.room_of(name)
        if room in ROOMS and not name.startswith(NEEDS_NO_PYTHON):
            for defined, number in names_of(tree.read(root, name)).items():
                places[room, defined].append("%s:%d" % (name, number))
    return [
        "%s: %s is in the unnamed namespace of %s too: files of a room are compiled together"
        % (found[1], name, found[0])
        for (room, name), found in sorted(places.items())
        if len(found) > 1
    ]


if __name__ == "__main__":
    tree.main(check)

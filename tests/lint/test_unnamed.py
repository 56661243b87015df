import pytest
import unnamed

FILE = "namespace framejit {\nnamespace {\n%s\n}  // namespace\n%s\n}  // namespace framejit\n"


def complaints(make_tree, first, second, names=("tracer/a.cpp", "tracer/b.cpp")):
    return unnamed.check(make_tree({names[0]: FILE % (first, ""), names[1]: FILE % (second, "")}))


@pytest.mark.parametrize(
    "first, second",
    [
        ("Ref text(const char* name) {", "void* text(std::string_view a, int b) {"),
        ("struct Row {", "class Row : public Base {"),
        ("constexpr int Row = 2;", "const Row kRows[] = {\nenum class Row { kA };"),
        ("template <typename T> T Row(T t) {", "thread_local bool Row = false;"),
        ("using Row = int;", "std::vector<std::pair<int, bool>> Row{};"),
    ],
)
def test_name_of_two_files_is_refused(make_tree, first, second):
    (complaint,) = complaints(make_tree, first, second)
    name = "text" if "text" in first else "Row"
    assert complaint.startswith(
        "tracer/b.cpp:%d: %s is in the unnamed namespace of tracer/a.cpp:3 too" % (second.count("\n") + 3, name)
    )


@pytest.mark.parametrize(
    "names",
    [
        ("tracer/a.cpp", "runtime/a.cpp"),
        ("graph/a.cpp", "graph/b.cpp"),
        ("codegen/kernels/a.cpp", "codegen/kernels/b.cpp"),
    ],
)
def test_files_that_are_not_compiled_together_may_share_a_name(make_tree, names):
    assert complaints(make_tree, "struct Row {", "struct Row {", names) == []


def test_only_definitions_in_the_unnamed_namespace_count(make_tree):
    outside = "Ref Type::text(int a) {\n  return text(a);\n}\nvoid both(int a) {}\nvoid both(bool a) {}"
    tree = {
        "tracer/%s.cpp" % name: FILE % ("class Forward;\nusing graph::Node;\n// Ref same(int a) {", outside)
        for name in "ab"
    }
    assert unnamed.check(make_tree(tree)) == []


def test_overloads_in_one_file_are_allowed(make_tree):
    assert complaints(make_tree, "void f(int a) {\n}\nvoid f(bool a) {\n}", "void g() {\n}") == []

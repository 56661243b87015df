import pytest
import version_macros


@pytest.mark.parametrize(
    "name, line",
    [
        ("tracer/simulator.cpp", "#if PY_VERSION_HEX >= 0x030B0000"),
        ("eval_frame/hook.c", "#if PY_MINOR_VERSION > 10"),
        ("bytecode/decoder.cpp", "int tag = FRAMEJIT_PYTHON_TAG;"),
        ("python/framejit/api.py", "if sys.version_info >= (3, 11):"),
    ],
)
def test_version_test_elsewhere_is_refused(make_tree, name, line):
    (complaint,) = version_macros.check(make_tree({name: "\n" + line + "\n"}))
    assert complaint.startswith(name + ":2: ")


@pytest.mark.parametrize(
    "name", ["eval_frame/abi_311.c", "bytecode/code_object_abi_38.cpp", "tests/unit/bytecode/decoder_test.cpp"]
)
def test_version_test_in_an_abi_file_is_allowed(make_tree, name):
    assert version_macros.check(make_tree({name: "#if PY_VERSION_HEX >= 0x030B0000\n#endif\n"})) == []

import glob
import json

import pytest

import cells
import linting
import steps
import system
import testing
from conftest import ROOT

REPORT = """<testsuites><testsuite><testcase name="a"/><testcase name="b"><failure>x</failure></testcase>
<testcase name="c"><skipped/></testcase><testcase name="d" status="notrun"/><testcase name="e"><error/></testcase>
</testsuite></testsuites>"""


def test_matrix_is_the_requirement_files_and_each_cell_has_a_preset():
    names = [cell.name for cell in cells.matrix()]
    assert names[0] == "py38-torch2.4.1"
    assert names[-1].startswith("py313-torch2.")
    presets = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
    assert [preset["name"] for preset in presets if preset.get("inherits") == "cell"] == names


def test_every_cell_pins_its_torch():
    for cell in cells.matrix():
        assert "torch==%s\n" % cell.torch in steps.read(cell.requirements[0])


def test_interpreter_that_is_nowhere_is_named(monkeypatch):
    monkeypatch.setattr(cells, "find_interpreter", lambda version: None)
    with pytest.raises(steps.Failure, match=r"Python 3\.12 torch 2\.4\.1"):
        cells.choose("3.12", "2.4.1")


def test_framejit_pythons_comes_first(monkeypatch, tmp_path):
    monkeypatch.setenv("FRAMEJIT_PYTHONS", "%s:%s/python3.9" % (tmp_path, tmp_path))
    assert list(cells._candidates("3.9"))[:3] == [
        "%s/bin/python3.9" % tmp_path,
        "%s/python3.9" % tmp_path,
        "%s/python3.9" % tmp_path,
    ]


def test_counts_of_a_report(tmp_path):
    (tmp_path / "r.xml").write_text(REPORT)
    assert testing.count_junit(str(tmp_path / "r.xml")) == testing.Counts(1, 2, 2)


def test_user_who_is_not_root_gets_the_line_to_type(monkeypatch):
    monkeypatch.setattr(system.os, "geteuid", lambda: 1000)
    with pytest.raises(steps.Failure, match="sudo apt-get install -y --no-install-recommends framejit-none"):
        system.ensure({"framejit-none": "/nonexistent"}, "system packages")


def test_failed_command_shows_the_end_of_its_log(monkeypatch, tmp_path):
    monkeypatch.setattr(steps, "LOGS", str(tmp_path))
    with pytest.raises(steps.Failure, match="last words"):
        steps.run(["sh", "-c", "echo last words; exit 3"], "try")


def test_clang_tidy_reads_each_source_alone_and_without_precompiled_headers(monkeypatch, tmp_path):
    monkeypatch.setattr(steps, "ROOT", str(tmp_path))
    build = tmp_path / "build" / "cell"
    together = build / "room" / "together" / "room_0.cpp"
    together.parent.mkdir(parents=True)
    together.write_text('#include "room/a.cpp"\n#include "room/b.cpp"\n')
    command = "c++ -Wall -Winvalid-pch -include %s/room/cmake_pch.hxx -o a.o -c %%s" % build
    files = [str(together), str(tmp_path / "c.cpp")]
    entries = [{"directory": str(build), "file": file, "command": command % file} for file in files]
    (build / "compile_commands.json").write_text(json.dumps(entries))
    commands = linting.compile_commands([str(build)])
    assert list(commands) == ["room/a.cpp", "room/b.cpp", "c.cpp"]
    with open(commands["room/a.cpp"] + "/compile_commands.json") as f:
        found = [entry["command"] for entry in json.load(f)]
    assert found == ["c++ -Wall -o a.o -c %s/%s" % (tmp_path, name) for name in commands]


def test_matrix_runs_kernel_tests_with_the_oldest_and_the_newest_torch():
    everywhere = {cell.name: testing.left_out(cell) for cell in cells.matrix() + cells.debug_cells()}
    kernels = [name for name, ignored in everywhere.items() if "test_native*.py" not in ignored]
    assert kernels == ["py38-torch2.4.1", "py313-torch2.15.0"]
    assert everywhere["py38-torch2.4.1"] == testing.CUDA_TEXTS and everywhere[testing.CUDA_CELL] == []
    long = [cell.name for cell in cells.matrix() if not testing.is_short(cell)]
    assert long == ["py38-torch2.4.1", "py312-torch2.4.1", "py313-torch2.15.0"]
    for pattern in testing.VARIES_WITH_TORCH + testing.CUDA_TEXTS:
        assert glob.glob(steps.path("tests", "python", pattern)), pattern

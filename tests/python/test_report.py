"""explain() as text and as an HTML page, the page checked in a headless browser."""

import html
import json
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree

import pytest
import torch

import framejit
from framejit import _drawing

PROBE = """
<script>
const boxes = [...document.querySelectorAll("svg g")].map(g => g.querySelector("rect").getBoundingClientRect());
const texts = [...document.querySelectorAll("svg g")].map(g => g.querySelector("text").getBoundingClientRect());
const overlaps = boxes.filter((a, i) => boxes.some((b, j) => i < j && a.left < b.right && b.left < a.right &&
                                                             a.top < b.bottom && b.top < a.bottom)).length;
const overflows = boxes.filter((box, i) => texts[i].right > box.right + 1 || texts[i].width < 1).length;
const colour = state => { const line = document.querySelector(".line." + state);
                          return line && getComputedStyle(line).backgroundColor; };
document.title = JSON.stringify({
  captures: document.querySelectorAll(".capture").length, boxes: boxes.length, overlaps, overflows,
  paths: document.querySelectorAll("svg path").length,
  colours: ["captured", "broken", "eager"].map(colour),
  broken: [...document.querySelectorAll(".line.broken")].map(line => line.textContent),
  page: document.documentElement.scrollWidth <= window.innerWidth,
});
</script>
"""


def prints(x):
    y = torch.relu(x) + 1
    print("half-way")
    if y.shape[0] > 100:
        y = y * 2
    return y * y + x


def reads(x):
    return x + 1 if x.sum() > 0 else x


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


@pytest.fixture
def chromium():
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("no chromium on this machine")
    return path


def look_at(chromium, page, folder):
    file = folder / "page.html"
    file.write_text(page.replace("</body>", PROBE + "</body>"), encoding="utf-8")
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + str(folder / "profile")]
    done = subprocess.run(command + ["--dump-dom", file.as_uri()], capture_output=True, text=True, timeout=120)
    found = re.search("<title>(.*?)</title>", done.stdout, re.S)
    assert found, done.stderr[-2000:]
    return json.loads(html.unescape(found.group(1)))


def test_text_has_times_guards_breaks_and_hints(capsys):
    report = framejit.explain(prints, x3())
    text = str(report)
    for part in ("breaks 1", "test_report.py", "print", "guard: ", " ms", "aten.relu"):
        assert part in text, text
    assert len(report.captures) == 2
    assert all(capture.capture_s > 0 and capture.lines for capture in report.captures)


def test_where_nothing_can_be_captured_is_a_break_too():
    def named(x):
        return x + 1, sys._getframe().f_code.co_name

    report = framejit.explain(named, x3())
    assert report.stats["breaks"] == 2 and [item.eager for item in report.breaks] == [False, True]
    for item in report.breaks:
        assert item.what() in str(report)


def test_graph_as_data():
    (graph,) = framejit.explain(lambda x: torch.relu(x) + x, x3()).graphs
    (first, type_text) = graph.inputs[0]
    assert type_text == "tensor<3xf32, cpu>"
    relu, add = graph.nodes
    assert (relu[0], relu[1]) == ("aten.relu", [first])
    assert add[1] == [relu[2][0][0], first] and graph.outputs == [add[2][0][0]]
    assert add[3].endswith("test_report.py") and add[4] > 0


def test_graph_in_the_language_of_graphviz(tmp_path):
    (graph,) = framejit.explain(lambda x: torch.relu(x) * x * x, x3()).graphs
    lines = graph.to_dot().splitlines()
    assert lines[0] == "digraph captured {" and lines[-1] == "}"
    boxes, edges = [line for line in lines if "label=" in line and "->" not in line], [line for line in lines if "->" in line]
    assert [re.search(r'label="([^\\]+)\\n(.+?)",', box).groups() for box in boxes] == [
        (name, "tensor<3xf32, cpu>") for name in ("%0", "relu", "mul.Tensor", "mul.Tensor")
    ]
    assert [edge.split(" [")[0].strip() for edge in edges] == ["n0 -> n1", "n0 -> n2", "n0 -> n3", "n1 -> n2", "n2 -> n3"]
    assert 'label="%0"' in edges[0] and "test_report.py" in boxes[1] and "penwidth" in boxes[3]
    if shutil.which("dot"):
        subprocess.run(["dot", "-Tsvg", "-o", str(tmp_path / "out.svg")], input=graph.to_dot(), text=True, check=True)


def test_texts_of_graphviz_are_quoted():
    assert _drawing.quoted('a "b"\n\\c') == r'"a \"b\"\n\\c"'


def test_graph_in_a_notebook():
    (graph,) = framejit.explain(lambda x: torch.relu(x) + x, x3()).graphs
    root = xml.etree.ElementTree.fromstring(graph._repr_svg_())
    space = "{http://www.w3.org/2000/svg}"
    assert root.tag == space + "svg" and "svg .op rect" in root.find(space + "style").text
    assert [text.text for text in root.iter(space + "text")] == ["%0", "relu", "add.Tensor"]
    assert len(root.findall(space + "path")) == 3
    nothing = framejit.explain(lambda x: x, x3()).captures[0]
    assert nothing.ops == 0 and nothing._repr_svg_() is None


def test_page_in_a_browser(chromium, tmp_path, capsys):
    path = tmp_path / "explained.html"
    report = framejit.explain(prints, x3())
    page = report.to_html(path, title="a <b> & c")
    assert path.read_text(encoding="utf-8") == page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")  # nothing else is loaded
    assert "a &lt;b&gt; &amp; c" in page
    seen = look_at(chromium, page, tmp_path)
    assert seen["captures"] == 2 and seen["page"]
    # relu, add of the first graph with its input; mul and add of the second with two.
    assert (seen["boxes"], seen["paths"]) == (7, 5)
    assert (seen["overlaps"], seen["overflows"]) == (0, 0)
    assert len(set(seen["colours"])) == 3 and None not in seen["colours"]
    (broken,) = seen["broken"]
    assert 'print("half-way")' in broken and report.breaks[0].what() in broken


def test_page_of_a_model(chromium, tmp_path):
    layers = [torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.GELU()]
    report = framejit.explain(torch.nn.Sequential(*layers * 6), torch.rand(2, 8))
    seen = look_at(chromium, report.to_html(), tmp_path)
    assert seen["captures"] == 1 and seen["boxes"] > 18
    assert (seen["overlaps"], seen["overflows"], seen["broken"]) == (0, 0, [])


def test_source_that_is_not_there(tmp_path):
    namespace = {"torch": torch}
    exec(compile("def f(x):\n    return x + 1\n", "<made up>", "exec"), namespace)
    page = framejit.explain(namespace["f"], x3()).to_html()
    assert "made up" in page


# FRAMEJIT_LOG


@pytest.fixture
def log(caplog):
    from framejit import _C, _log

    def start(topics):
        _log.start(topics)
        return caplog

    yield start
    _C.set_on_capture(None)


def test_log_of_breaks_and_graphs(log, capsys):
    caplog = log("breaks,graphs")
    framejit.to_static(prints)(x3())
    loggers = [record.name for record in caplog.records]
    assert sorted(set(loggers)) == ["framejit.breaks", "framejit.graphs"]
    assert loggers.count("framejit.breaks") == 1 and loggers.count("framejit.graphs") == 2
    assert "test_report.py" in caplog.text and "aten.relu" in caplog.text


def test_log_says_which_guard_failed(log):
    caplog = log("guards")
    compiled = framejit.to_static(lambda x, scale: x * scale)
    compiled(x3(), 2)
    assert "failed" not in caplog.text
    compiled(x3(), 3)
    assert "this failed: " in caplog.text and "scale" in caplog.text and "found 3" in caplog.text
    caplog.clear()
    compiled(torch.ones(2, 2), 3)
    assert "shape=torch.Size([2, 2])" in caplog.text


@pytest.mark.runs_once("a shadowed call is made twice, and counts how often what it holds is captured")
def test_log_says_which_comparison_of_a_number_came_out_otherwise(log):
    caplog = log("guards")
    compiled = framejit.to_static(lambda x, scale: x * scale if scale > 0.5 else x)
    for scale in (0.75, 1.5, 2.5):
        compiled(torch.ones(2), scale)
    caplog.clear()
    compiled(torch.ones(2), 3.5)
    assert "failed" not in caplog.text
    compiled(torch.ones(2), 0.25)
    assert "this failed: (scale > 0.5) is True, found 0.25" in caplog.text



def test_log_of_code(log, capsys):
    caplog = log("code")
    compiled = framejit.to_static(prints)
    compiled(x3())
    compiled(torch.ones(2, 2))  # by now there is code to run between the graphs
    assert {record.name for record in caplog.records} == {"framejit.code"}
    assert "half-way" in caplog.text and "Call" in caplog.text


def test_log_topics_are_checked():
    from framejit import _log

    with pytest.raises(ValueError, match="breaks, guards, code, graphs"):
        _log.start("breaks,colours")


def test_log_from_the_environment(tmp_path):
    import os
    import sys

    program = tmp_path / "program.py"
    program.write_text("import torch, framejit\nprint(framejit.to_static(lambda x: x + 1)(torch.ones(1)))\n")
    env = dict(os.environ, FRAMEJIT_LOG="graphs", PYTHONPATH=os.pathsep.join(sys.path))
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, env=env, timeout=120)
    assert "aten.add" in done.stderr and "tensor([2.])" in done.stdout, done.stderr

"""An explanation as one HTML page that needs nothing else: the source annotated, each graph drawn."""

import collections
import dis
import linecache
import os

import jinja2  # torch depends on both
import networkx

BOX_HEIGHT, ROW, GAP, CHARACTER, MARGIN = 24, 56, 18, 6.7, 12
ORDERING_PASSES = 4


def render(explanation, title):
    """The page as text.

    Args:
        explanation: framejit.Explanation
        title: heading of the page.
    """
    folder = os.path.dirname(os.path.abspath(__file__))
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(folder), autoescape=True, trim_blocks=False)
    stats = explanation.stats
    return environment.get_template("_report.html.jinja").render(
        title=title,
        totals=[
            ("graphs", stats["graphs"]),
            ("operators", stats["ops"]),
            ("breaks", stats["breaks"]),
            ("capture, ms", "{:.1f}".format(1e3 * stats["capture_s"])),
        ],
        breaks=[{"place": b.stop_location or b.location, "what": b.what(), "hint": b.hint} for b in explanation.breaks],
        files=annotated_files(explanation),
        graphs=[describe(capture) for capture in explanation.captures],
    )


def describe(capture):
    return {
        "location": capture.location,
        "ops": capture.ops,
        "milliseconds": "{:.2f}".format(1e3 * capture.capture_s),
        "end": "ends in a break" if capture.breaks else "ends with the function",
        "guards": capture.guards,
        "text": capture.text if capture.ops else "",
        "backward": capture.backward,
        "drawing": draw(capture) if capture.ops else None,
    }


# Source


def annotated_files(explanation):
    """For each file that was captured from: blocks of lines, those of the functions that captures went through."""
    captured = collections.defaultdict(set)
    for capture in explanation.captures:
        for name, line in capture.lines:
            captured[name].add(line)
    broken = collections.defaultdict(dict)
    for item in explanation.breaks:
        name, _, line = item.stop_location.rpartition(":")
        if line.isdigit():
            broken[name][int(line)] = item.what()
    return [
        {"name": name, "blocks": annotated_blocks(name, captured[name], broken[name])}
        for name in sorted(set(captured) | set(broken))
    ]


def annotated_blocks(name, captured, broken):
    text = linecache.getlines(name)
    functions = code_spans(name, "".join(text))
    spans = {innermost(functions, line) for line in captured | set(broken)}
    blocks = []
    for first, last, _ in sorted(spans, key=lambda span: (span[0], -span[1])):
        if blocks and first <= blocks[-1][-1]["number"]:
            continue  # inside the one before
        rows = []
        for number in range(first, min(last, len(text)) + 1):
            state = "broken" if number in broken else "captured" if number in captured else ""
            if not state and any(number in span[2] for span in functions if span[0] >= first and span[1] <= last):
                state = "eager"
            rows.append(
                {"number": number, "text": text[number - 1].rstrip("\n"), "state": state, "why": broken.get(number, "")}
            )
        if rows:
            blocks.append(rows)
    return blocks


def innermost(functions, line):
    """The span of the smallest function around a line, or of the line alone."""
    around = [span for span in functions if span[0] <= line <= span[1]]
    return min(around, key=lambda span: span[1] - span[0], default=(line, line, frozenset([line])))


def code_spans(name, text):
    """(first line, last line, lines with code) of each function in a file; none if it is no Python source."""
    try:
        pending = [compile(text, name, "exec", dont_inherit=True)]
    except (SyntaxError, ValueError):
        return []
    spans = []
    while pending:
        code = pending.pop()
        for constant in code.co_consts:
            if hasattr(constant, "co_code"):
                pending.append(constant)
                lines = frozenset(line for _, line in dis.findlinestarts(constant) if line)
                if lines:
                    spans.append((constant.co_firstlineno, max(lines), lines - {constant.co_firstlineno}))
    return spans


# Drawings


def draw(capture):
    """Boxes in layers, operands above what uses them.

    Returns:
        dict of width, height, boxes (dicts of x, y, width, height, text, title, kind) and edges (SVG paths).
    """
    graph, maker = networkx.DiGraph(), {}
    for value, type_text in capture.inputs:
        maker[value] = ("input", value)
        graph.add_node(("input", value), text="%" + str(value), title=type_text, kind="input")
    outputs = set(capture.outputs)
    for index, (op, operands, results, name, line) in enumerate(capture.nodes):
        node = ("op", index)
        kind = "op output" if any(value in outputs for value, _ in results) else "op"
        title = "{}\n{}\n{}:{}".format(op, ", ".join(text for _, text in results), name, line)
        graph.add_node(node, text=op.partition(".")[2] or op, title=title, kind=kind)
        for value in operands:
            if value in maker:
                graph.add_edge(maker[value], node)
        for value, _ in results:
            maker[value] = node
    for node in [node for node in graph if node[0] == "input" and not graph.degree(node)]:
        graph.remove_node(node)
    return place(graph)


def place(graph):
    layers = [list(layer) for layer in networkx.topological_generations(graph)]
    order_layers(graph, layers)
    boxes, bottom = {}, MARGIN
    for layer in layers:
        left = MARGIN
        for node in layer:
            data = graph.nodes[node]
            width = round(CHARACTER * len(data["text"]) + 12)
            boxes[node] = dict(data, x=left, y=bottom, width=width, height=BOX_HEIGHT)
            left += width + GAP
        bottom += ROW
    edges = [curve(boxes[source], boxes[target]) for source, target in graph.edges]
    right = max((box["x"] + box["width"] for box in boxes.values()), default=0)
    return {"width": right + MARGIN, "height": bottom, "boxes": list(boxes.values()), "edges": edges}


def order_layers(graph, layers):
    """Each node near the mean place of what it uses (Sugiyama, Tagawa and Toda 1981)."""
    where = {node: i for layer in layers for i, node in enumerate(layer)}
    for _ in range(ORDERING_PASSES):
        for layer in layers[1:]:
            above = {node: [where[n] for n in graph.predecessors(node)] for node in layer}
            layer.sort(key=lambda node: sum(above[node]) / len(above[node]))
            where.update((node, i) for i, node in enumerate(layer))


def curve(source, target):
    x1, y1 = source["x"] + source["width"] / 2, source["y"] + source["height"]
    x2, y2 = target["x"] + target["width"] / 2, target["y"]
    return "M{:.0f} {:.0f} C{:.0f} {:.0f} {:.0f} {:.0f} {:.0f} {:.0f}".format(x1, y1, x1, y1 + 20, x2, y2 - 20, x2, y2)

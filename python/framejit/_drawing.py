"""A captured graph as a picture: SVG with a layout of our own, and the text of Graphviz's dot."""

import os

import jinja2  # torch depends on both
import networkx

BOX_HEIGHT, ROW, GAP, CHARACTER, MARGIN = 24, 56, 18, 6.7, 12
ORDERING_PASSES = 4


def template(name):
    """One of the templates beside this file."""
    folder = os.path.dirname(os.path.abspath(__file__))
    return jinja2.Environment(loader=jinja2.FileSystemLoader(folder), autoescape=True).get_template(name)


def svg(capture):
    """The drawing as one SVG element that needs nothing else."""
    return template("_graph.svg.jinja").render(drawing=draw(capture), with_style=True)


def dot(capture):
    """The graph in the language of Graphviz: a box for each operator and input, an edge for each use of a value."""
    graph = network(capture)
    numbers = {node: "n{}".format(i) for i, node in enumerate(graph)}
    lines = ["digraph captured {", "  node [shape=box];"]
    for node, data in graph.nodes(data=True):
        shape = ", ".join('{}="{}"'.format(key, value) for key, value in DOT_STYLES[data["kind"]].items())
        label = quoted("{}\n{}".format(data["text"], data["types"]))
        text = "label={}, tooltip={}, {}".format(label, quoted(data["title"]), shape)
        lines.append("  {} [{}];".format(numbers[node], text))
    for source, target, data in graph.edges(data=True):
        names = ", ".join("%{}".format(value) for value in data["values"])
        lines.append("  {} -> {} [label={}];".format(numbers[source], numbers[target], quoted(names)))
    return "\n".join(lines + ["}", ""])


DOT_STYLES = {
    "input": {"style": "filled", "fillcolor": "#f0f0f0"},
    "op": {"style": "filled", "fillcolor": "#dbe9ff"},
    "op output": {"style": "filled", "fillcolor": "#dbe9ff", "penwidth": "2.5"},
}


def quoted(text):
    """A string of the dot language."""
    return '"{}"'.format(text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n"))


def draw(capture):
    """Boxes in layers, operands above what uses them.

    Returns:
        dict of width, height, boxes (dicts of x, y, width, height, text, title, kind) and edges (SVG paths).
    """
    return place(network(capture))


def network(capture):
    """Inputs and operators, with an edge from each to those that use its values, which the edge's text names."""
    graph, maker = networkx.DiGraph(), {}
    for value, type_text in capture.inputs:
        maker[value] = ("input", value)
        graph.add_node(("input", value), text="%" + str(value), types=type_text, title=type_text, kind="input")
    outputs = set(capture.outputs)
    for index, (op, operands, results, name, line) in enumerate(capture.nodes):
        node = ("op", index)
        kind = "op output" if any(value in outputs for value, _ in results) else "op"
        types = ", ".join(text for _, text in results)
        title = "{}\n{}\n{}:{}".format(op, types, name, line)
        graph.add_node(node, text=op.partition(".")[2] or op, types=types, title=title, kind=kind)
        for value in operands:
            if value in maker:
                known = graph.get_edge_data(maker[value], node, {"values": []})["values"]
                graph.add_edge(maker[value], node, values=known if value in known else known + [value])
        for value, _ in results:
            maker[value] = node
    for node in [node for node in graph if node[0] == "input" and not graph.degree(node)]:
        graph.remove_node(node)
    return graph


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

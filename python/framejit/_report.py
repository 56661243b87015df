"""An explanation as one HTML page that needs nothing else: the source annotated, each graph drawn."""

import collections
import dis
import linecache

from framejit import _drawing


def render(explanation, title):
    """The page as text.

    Args:
        explanation: framejit.Explanation
        title: heading of the page.
    """
    stats = explanation.stats
    return _drawing.template("_report.html.jinja").render(
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
        "drawing": _drawing.draw(capture) if capture.ops else None,
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

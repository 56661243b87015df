"""FRAMEJIT_LOG=breaks,guards,code,graphs: captures through Python's logging, to loggers named framejit.breaks and so on."""

import logging

from framejit import _C
from framejit._inspect import CapturedGraph

TOPICS = ("breaks", "guards", "code", "graphs")


def start(text):
    """Follow the topics that `text` names, with commas; "all" for all.

    Raises:
        ValueError: it names something else.
    """
    topics = TOPICS if text.strip() == "all" else tuple(topic.strip() for topic in text.split(",") if topic.strip())
    unknown = sorted(set(topics) - set(TOPICS))
    if unknown:
        raise ValueError(
            "FRAMEJIT_LOG must name some of {} or all, got {!r}".format(", ".join(TOPICS), ", ".join(unknown))
        )
    if not topics:
        return
    if not logging.getLogger("framejit").handlers and not logging.getLogger().handlers:
        logging.getLogger("framejit").addHandler(logging.StreamHandler())
    loggers = {topic: logging.getLogger("framejit." + topic) for topic in topics}
    for logger in loggers.values():
        logger.setLevel(logging.INFO)

    def captured(record, missed, listing):
        graph = CapturedGraph(record)
        for topic in topics:
            for message in MESSAGES[topic](graph, missed, listing):
                loggers[topic].info("%s: %s", graph.location, message)

    _C.set_on_capture(captured)


def _breaks(graph, missed, listing):
    if graph.reason:
        yield ("runs eagerly: " if graph.eager else "breaks at ") + graph.why()


def _guards(graph, missed, listing):
    if missed:
        yield "captured again, since this failed: " + missed
    if graph.guards:
        yield "guards\n  " + "\n  ".join(graph.guards)


def _code(graph, missed, listing):
    if listing:
        yield "code that runs what lies between the graphs\n" + listing


def _graphs(graph, missed, listing):
    if graph.ops:
        yield "{} operators in {:.2f} ms\n{}".format(graph.ops, 1e3 * graph.capture_s, graph)


MESSAGES = {"breaks": _breaks, "guards": _guards, "code": _code, "graphs": _graphs}

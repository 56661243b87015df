"""Settings for tests over random examples: a few that are the same each time, or as many others as a variable says."""

import os

from hypothesis import HealthCheck, Phase, settings


def random_examples(variable, ordinary):
    """A decorator for a test with `given`: `variable` of the environment is how many examples run, else `ordinary`.

    Hypothesis's explanations are left out: they trace, and under a trace function calls are not captured.
    """
    count = int(os.environ.get(variable, ordinary))
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=count == ordinary,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )

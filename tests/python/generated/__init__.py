"""Generated programs: a grammar of templates, drawn by Hypothesis, and the comparison of each program with eager."""

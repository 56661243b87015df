"""What the pytest suites share: running a function eagerly and compiled, and comparing everything it did."""

"""Exercises whose checks answer with a counterexample: one per file, each with `check`, `hint` and `solution`."""

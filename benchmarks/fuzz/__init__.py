"""Inputs that nobody would write on purpose, for everything of outlark that reads what others wrote.

`targets.TARGETS` lists what is fuzzed. Each target has seeds (small real inputs), a mutation that knows their
structure, and a `run` that names the outcome. Run: ``python benchmarks/fuzzing.py --help``; see docs/fuzzing.md.
"""

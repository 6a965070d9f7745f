"""The experiments of the papers, run again: each names the shapes that must hold and checks them.

A module named like `wid/w1` holds one experiment, as `EXPERIMENT`; `harness.registry` finds it by
its name.
"""

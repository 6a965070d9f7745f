"""Load shedding: the choice of windows to drop under overload (DROP)."""

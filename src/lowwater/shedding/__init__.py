"""Load shedding: which windows are dropped under overload (DROP)."""

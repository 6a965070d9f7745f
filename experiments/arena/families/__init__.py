"""All families of generated streams, by name."""

from experiments.arena.families import change, complaints, periodic, steady
from experiments.arena.families.family import FAMILIES, TUNING_SEEDS, Family

__all__ = ["FAMILIES", "TUNING_SEEDS", "Family", "change", "complaints", "periodic", "steady"]

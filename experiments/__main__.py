"""`python -m experiments`: the experiments of the papers, run again."""

from experiments.app import main

main()

"""The host in one process: the same kernels and the same controller, without Spark."""

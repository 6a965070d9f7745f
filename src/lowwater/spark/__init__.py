"""The Spark host: kernels in tasks of one job per epoch."""

"""The Spark host, which runs kernels in the tasks of one job per epoch."""

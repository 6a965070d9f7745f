"""The local host: kernels in this process."""

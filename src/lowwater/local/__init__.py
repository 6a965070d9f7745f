"""The local host, which runs kernels in this process."""

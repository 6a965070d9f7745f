"""The window aggregate: its plan, its kernel, and the strategies of the kernel."""

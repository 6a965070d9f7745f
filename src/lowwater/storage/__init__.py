"""Files that are written atomically, for the checkpoint, the control log and sinks."""

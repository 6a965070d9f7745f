"""Engine: epochs, the control log, the controller, outputs and status, under both hosts."""

"""The engine that both hosts share: epochs, control log, controller, outputs and status."""

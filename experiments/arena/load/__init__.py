"""The arena of load: shedders on simulated machines, beside a planner that knows all arrivals."""

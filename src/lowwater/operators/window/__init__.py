"""The window aggregate: plan, kernel, and the layouts its windows can have."""

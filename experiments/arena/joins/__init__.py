"""The arena of joins: slack rules for two streams, beside the best constant slack of both."""

"""The arena: every policy on streams that it was tuned on, and on streams that it was not."""

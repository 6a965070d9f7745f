"""Reference implementations that experiments compare with."""

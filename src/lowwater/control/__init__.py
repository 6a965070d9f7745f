"""Control records, which policies emit and operators obey."""

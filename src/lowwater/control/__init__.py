"""Control records: what policies emit and operators obey. Records only."""

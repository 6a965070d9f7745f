"""Control records: policies emit them, operators obey them. Records only."""

"""`hsp size`: from a run, or another program's list of keys, to what other sizes of caches would answer."""

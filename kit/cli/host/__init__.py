"""`hsp host`: machines of a testbed, their disks and old labels on these."""

"""The command line `hsp`: options and output only; the table of commands is in `main`."""

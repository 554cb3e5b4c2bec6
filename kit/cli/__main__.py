"""`python -m kit.cli` is `hsp`."""

from kit.cli.main import main

main()

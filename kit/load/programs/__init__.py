"""Programs of the kit that make a load in place of fio: forced writes, trees of files, I/Os at set times."""

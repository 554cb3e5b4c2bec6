"""A Parquet file is read in another process first: a damaged file can end the process that reads it."""

"""`hsp reproduce`: claims of the documents, measured again and judged."""

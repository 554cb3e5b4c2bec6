"""HTML pages: of a run, of a comparison; templates and scripts."""

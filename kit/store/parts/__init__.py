"""Values of manifest.json and summary.json, one subject a module."""

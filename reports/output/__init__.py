"""Results for other programs: exports, JUnit XML, Markdown."""

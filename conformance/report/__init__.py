"""Reports of a conformance run: console, JSON, JUnit, HTML, a badge, and the bytes of each failed case."""

"""What a run is turned into: console, JSON, JUnit, HTML, a badge, and evidence. None of them judges anything."""

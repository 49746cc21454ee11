"""The suite against itself: our coordinator with one rule wrong at a time, and whether a case notices."""

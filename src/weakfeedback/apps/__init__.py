"""Programs built on the library, away from the algorithms."""

"""Other libraries on the nearest work that they can do, each in an environment of its own."""

"""From plain objects to compiled code: what an object's code and fields are, and how they are compiled and kept."""

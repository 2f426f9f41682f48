"""The whole thesis run again: which experiments there are, how they are run together, what is kept, the page."""

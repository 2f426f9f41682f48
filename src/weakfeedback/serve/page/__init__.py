"""The page: what each learner does, what it costs and saves, and whether it can be trusted.

Templates render everything on the server; the script only draws charts and inserts updates from the server. Without
the script the same numbers are shown in tables. The page contacts no other host.
"""

"""The page: what each learner does, what it costs and saves, and whether it can be trusted.

Templates render everything on the server; the script only draws charts and puts in what the server sends anew. Without
script the same numbers stand in tables. Nothing is asked of any other host.
"""

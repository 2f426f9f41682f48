"""What the thesis says: experiments, claims, theorems and tables of its chapters, and what goes beyond it."""

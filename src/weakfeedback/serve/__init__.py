"""`weakfeedback serve`: many named learners behind HTTP, and a page that shows them."""

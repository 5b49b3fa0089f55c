"""What is made of the views of `bi` for people who have no dashboard: files to count with, and a page to hand on."""

"""One leaf on its way to the files and back."""

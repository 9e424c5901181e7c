"""Finished records to text, one file per format."""

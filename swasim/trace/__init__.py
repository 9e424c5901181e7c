"""Trace format version 1: events, reader, writer, rows."""

"""Tables: CSV and JSON lines."""

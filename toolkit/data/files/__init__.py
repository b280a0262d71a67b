"""What is known of files and kept in the cache: hashes, headers, entries that are built once."""

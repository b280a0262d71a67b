"""What is known of files and kept in the cache: hashes, decoded examples, limits of memory."""

"""The processes of a cluster on one machine: started together, with one log and one exit code."""

"""Files of arrays: IDX, .npz and the named data sets."""

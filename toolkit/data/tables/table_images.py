"""A column of a table whose fields are paths of image files.

Legend: N rows.
"""

from __future__ import annotations

import os
from typing import List, Tuple

import numpy as np

from ...errors import DataError
from ..files.file_index import FileIndex
from ..images.image_paths import ImagePaths, open_paths
from ..reading_options import ImageOptions
from .columns import Table, shorten


def read_image_column(
    table: Table,
    name: str,
    rows: np.ndarray,
    options: ImageOptions,
    index: FileIndex,
    component: str,
) -> Tuple[ImagePaths, List[str]]:
    """The image files that a column names, one for each of N rows, and the field of each row.

    Args:
        table: the table.
        name: of the column.
        rows: that have examples, int64 [n]; another row gets the image of the first of them.
        options: the form of the images.
        index: knows hashes and headers of files.
        component: the name of the component that the images become.

    Raises:
        DataError: a field is no path of a file, or a file is no image.
    """
    column = table.texts[name]
    codes = np.full(table.num_rows, column.codes[rows[0]], np.int32)
    codes[rows] = column.codes[rows]
    used, positions = np.unique(codes, return_inverse=True)
    fields = [column.values[code] for code in used]
    paths = [_find_file(table, name, field) for field in fields]
    images = open_paths(table.file.path, paths, index, options, component)
    rows_of = images._replace(
        paths=[paths[position] for position in positions],
        digests=[images.digests[position] for position in positions],
    )
    return rows_of, [fields[position] for position in positions]


def _find_file(table: Table, name: str, field: str) -> str:
    """The path of the file that a field names, from the folder of the table."""
    folder = os.path.dirname(table.file.path)
    if "\0" in field:  # which Python 3.7 refuses in a path
        raise DataError(
            f"{table.file.place(table.texts[name].row_of(field))}: expected the path of an image "
            f"in '{name}', found a null character.",
            hint="Write paths from the folder of the table.",
        )
    for text in (field, field.replace("\\", "/")):
        path = os.path.join(folder, os.path.expanduser(text))
        if os.path.isfile(path):
            return path
    place = table.file.place(table.texts[name].row_of(field))
    if "://" in field:
        raise DataError(
            f"{place}: expected the path of an image in '{name}', found the address "
            f"{shorten(field, 80)}.",
            hint="Download the images, and write their paths from the folder of the table.",
        )
    raise DataError(
        f"{place}: '{name}' names the image {shorten(field, 80)}, and there is no file "
        f"{shorten(path, 200)}.",
        hint="Write paths from the folder of the table.",
    )

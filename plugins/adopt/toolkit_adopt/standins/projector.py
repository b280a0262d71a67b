"""`tf.contrib.tensorboard.plugins.projector`: the file that shows embeddings in TensorBoard."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Tuple

from google.protobuf import descriptor_pb2, descriptor_pool, text_format
from google.protobuf.message_factory import GetMessageClass

from toolkit import tf

_FIELD = descriptor_pb2.FieldDescriptorProto
_ONE, _MANY = _FIELD.LABEL_OPTIONAL, _FIELD.LABEL_REPEATED
_TEXT, _NUMBER, _MESSAGE = _FIELD.TYPE_STRING, _FIELD.TYPE_UINT32, _FIELD.TYPE_MESSAGE
_Field = Tuple[str, Any, Any, Optional[str]]  # name, label, type, message
_MESSAGES: Dict[str, List[_Field]] = {
    "SpriteMetadata": [
        ("image_path", _ONE, _TEXT, None),
        ("single_image_dim", _MANY, _NUMBER, None),
    ],
    "EmbeddingInfo": [
        ("tensor_name", _ONE, _TEXT, None),
        ("metadata_path", _ONE, _TEXT, None),
        ("bookmarks_path", _ONE, _TEXT, None),
        ("tensor_shape", _MANY, _NUMBER, None),
        ("sprite", _ONE, _MESSAGE, "SpriteMetadata"),
        ("tensor_path", _ONE, _TEXT, None),
    ],
    "ProjectorConfig": [
        ("model_checkpoint_path", _ONE, _TEXT, None),
        ("embeddings", _MANY, _MESSAGE, "EmbeddingInfo"),
        ("model_checkpoint_dir", _ONE, _TEXT, None),
    ],
}


def _message_classes() -> List[Any]:
    file = descriptor_pb2.FileDescriptorProto(name="projector.proto", package="adopted")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (field, label, kind, of) in enumerate(fields, 1):
            made = message.field.add(name=field, number=number, label=label, type=kind)
            if of:
                made.type_name = f".{file.package}.{of}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    classes = [
        GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.{name}")) for name in _MESSAGES
    ]
    for each in classes:
        each.__module__ = __name__  # a public name of this stand-in
    return classes


SpriteMetadata, EmbeddingInfo, ProjectorConfig = _message_classes()


def visualize_embeddings(summary_writer, config):
    """Write a `ProjectorConfig` into the folder of a FileWriter, as projector_config.pbtxt."""
    path = os.path.join(summary_writer.get_logdir(), "projector_config.pbtxt")
    with tf.gfile.GFile(path, "w") as file:
        file.write(text_format.MessageToString(config))

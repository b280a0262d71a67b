"""`tf.contrib.tensorboard.plugins.projector`: the file that shows embeddings in TensorBoard."""

from __future__ import annotations

import os
from typing import Any, List

from google.protobuf import descriptor_pb2, descriptor_pool, text_format
from google.protobuf.message_factory import GetMessageClass

from toolkit import tf

_FIELD = descriptor_pb2.FieldDescriptorProto
_MESSAGES = {  # the fields of each in their order, as a file .proto has them
    "SpriteMetadata": "string image_path; repeated uint32 single_image_dim",
    "EmbeddingInfo": "string tensor_name; string metadata_path; string bookmarks_path; "
    "repeated uint32 tensor_shape; SpriteMetadata sprite; string tensor_path",
    "ProjectorConfig": "string model_checkpoint_path; repeated EmbeddingInfo embeddings; "
    "string model_checkpoint_dir",
}


def _message_classes() -> List[Any]:
    file = descriptor_pb2.FileDescriptorProto(name="projector.proto", package="adopted")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, field in enumerate(fields.split("; "), 1):
            *repeated, kind, field_name = field.split()
            label = _FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL
            made = message.field.add(name=field_name, number=number, label=label)
            if kind in _MESSAGES:
                made.type, made.type_name = _FIELD.TYPE_MESSAGE, f".{file.package}.{kind}"
            else:
                made.type = _FIELD.Type.Value(f"TYPE_{kind.upper()}")
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

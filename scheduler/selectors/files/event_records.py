"""Scalars of TensorBoard event files: checked records on top of protobuf, without TensorBoard.

An event file is records of length (8 bytes), its checksum, data, and their checksum (masked CRC-32C); the data is an
``Event`` message. Only the fields that scalars need are described here, by the numbers of TensorBoard's
``event.proto``, ``summary.proto`` and ``tensor.proto``: protobuf skips all others, such as pictures.
"""

import struct
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import google_crc32c
from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

from scheduler.selectors.files.series import Tags

HEAD_BYTES, FOOT_BYTES = 12, 4
# A record of scalars takes some hundred bytes; pictures and graphs are passed over without being read.
MOST_RECORD_BYTES = 256 * 1024
MOST_LENGTH = 2**31
_DOUBLE, _FLOAT = 2, 1  # DT_DOUBLE, DT_FLOAT of TensorFlow


class BrokenRecord(Exception):
    """The file is damaged here; what came before is good."""


def _masked(data: bytes) -> int:
    found = int(google_crc32c.value(data))
    return ((found >> 15 | found << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield the records that are whole in a piece of a file that begins with one, and how many bytes each takes.

    A record that is too large to be of scalars comes as empty data, also where its end is beyond the piece.

    Raises:
        BrokenRecord: A checksum is wrong.
    """
    at = 0
    while len(data) - at >= HEAD_BYTES:
        length, checksum = struct.unpack_from("<QI", data, at)
        if _masked(data[at : at + 8]) != checksum or length > MOST_LENGTH:
            raise BrokenRecord
        size = HEAD_BYTES + length + FOOT_BYTES
        if length > MOST_RECORD_BYTES:
            yield b"", size
        elif len(data) - at < size:
            return
        else:
            body = data[at + HEAD_BYTES : at + HEAD_BYTES + length]
            if _masked(body) != struct.unpack_from("<I", data, at + HEAD_BYTES + length)[0]:
                raise BrokenRecord
            yield body, size
        at += size


def take_event(data: bytes, tags: Tags) -> None:
    """Add the scalars of one record. Raises BrokenRecord."""
    event = _event()()
    try:
        event.ParseFromString(data)
    except message.DecodeError:
        raise BrokenRecord from None
    for value in event.summary.value:
        scalar = _scalar(value)
        if scalar is not None:
            tag = value.tag if isinstance(value.tag, str) else value.tag.decode("utf-8", "replace")  # bytes: no UTF-8
            tags.add(tag, float(event.step), scalar)


def _scalar(value: Any) -> float | None:  # a message of the pool below
    if value.HasField("simple_value"):
        return float(value.simple_value)
    if not value.HasField("tensor") or value.tensor.tensor_shape.dim:
        return None
    tensor = value.tensor
    if tensor.dtype == _FLOAT and len(tensor.tensor_content) == 4:
        return float(struct.unpack("<f", tensor.tensor_content)[0])
    if tensor.dtype == _DOUBLE and len(tensor.tensor_content) == 8:
        return float(struct.unpack("<d", tensor.tensor_content)[0])
    kept: Sequence[float] = tensor.float_val if tensor.dtype == _FLOAT else tensor.double_val
    return float(kept[0]) if len(kept) == 1 else None


# Message, field, number, type, whether repeated. Types: of descriptor.proto.
_D = descriptor_pb2.FieldDescriptorProto
_FIELDS: tuple[tuple[str, str, int, int | str, bool], ...] = (
    ("Event", "step", 2, _D.TYPE_INT64, False),
    ("Event", "summary", 5, "Summary", False),
    ("Summary", "value", 1, "Value", True),
    ("Value", "tag", 1, _D.TYPE_STRING, False),
    ("Value", "simple_value", 2, _D.TYPE_FLOAT, False),
    ("Value", "tensor", 8, "Tensor", False),
    ("Tensor", "dtype", 1, _D.TYPE_INT32, False),
    ("Tensor", "tensor_shape", 2, "Shape", False),
    ("Tensor", "tensor_content", 4, _D.TYPE_BYTES, False),
    ("Tensor", "float_val", 5, _D.TYPE_FLOAT, True),
    ("Tensor", "double_val", 6, _D.TYPE_DOUBLE, True),
    ("Shape", "dim", 2, "Dim", True),
    ("Dim", "size", 1, _D.TYPE_INT64, False),
)


@cache
def _event() -> Any:  # a class that protobuf makes
    file = descriptor_pb2.FileDescriptorProto(name="clusterweb/scalars.proto", package="clusterweb", syntax="proto2")
    made = {}
    for owner, name, number, kind, repeated in _FIELDS:
        if owner not in made:
            made[owner] = file.message_type.add(name=owner)
        field = made[owner].field.add(name=name, number=number)
        field.label = _D.LABEL_REPEATED if repeated else _D.LABEL_OPTIONAL
        if isinstance(kind, str):
            field.type, field.type_name = _D.TYPE_MESSAGE, f".clusterweb.{kind}"
        else:
            field.type = kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("clusterweb.Event"))

"""The wire codec: messages are declared once and compiled to one decoder and one encoder per version."""

from kafka_shim.apis.wire.declared import Struct as Struct
from kafka_shim.apis.wire.declared import field as field
from kafka_shim.apis.wire.errors import ErrorCode as ErrorCode
from kafka_shim.apis.wire.exceptions import DecodeError as DecodeError
from kafka_shim.apis.wire.exceptions import EncodeError as EncodeError
from kafka_shim.apis.wire.exceptions import WireError as WireError
from kafka_shim.apis.wire.message import Message as Message
from kafka_shim.apis.wire.types import array as array
from kafka_shim.apis.wire.types import boolean as boolean
from kafka_shim.apis.wire.types import bytes_ as bytes_
from kafka_shim.apis.wire.types import float64 as float64
from kafka_shim.apis.wire.types import int8 as int8
from kafka_shim.apis.wire.types import int16 as int16
from kafka_shim.apis.wire.types import int32 as int32
from kafka_shim.apis.wire.types import int64 as int64
from kafka_shim.apis.wire.types import records as records
from kafka_shim.apis.wire.types import string as string
from kafka_shim.apis.wire.types import uint16 as uint16
from kafka_shim.apis.wire.types import uint32 as uint32
from kafka_shim.apis.wire.types import uuid as uuid
from kafka_shim.apis.wire.types import uuid_from_text as uuid_from_text
from kafka_shim.apis.wire.types import uuid_text as uuid_text

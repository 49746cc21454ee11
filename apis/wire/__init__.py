"""What the bytes mean: messages declared once, compiled to a decoder and an encoder per version.

Knows nothing of any particular API, of sockets or of groups.
"""

from apis.wire.errors import ErrorCode as ErrorCode
from apis.wire.exceptions import DecodeError as DecodeError
from apis.wire.exceptions import EncodeError as EncodeError
from apis.wire.exceptions import WireError as WireError
from apis.wire.message import Message as Message
from apis.wire.message import Struct as Struct
from apis.wire.message import field as field
from apis.wire.types import array as array
from apis.wire.types import boolean as boolean
from apis.wire.types import bytes_ as bytes_
from apis.wire.types import float64 as float64
from apis.wire.types import int8 as int8
from apis.wire.types import int16 as int16
from apis.wire.types import int32 as int32
from apis.wire.types import int64 as int64
from apis.wire.types import records as records
from apis.wire.types import string as string
from apis.wire.types import uint16 as uint16
from apis.wire.types import uint32 as uint32
from apis.wire.types import uuid as uuid
from apis.wire.types import uuid_from_text as uuid_from_text
from apis.wire.types import uuid_text as uuid_text

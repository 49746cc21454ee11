"""Frames from a stream that arrives in pieces of any size."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_shim.apis.wire import DecodeError
from kafka_shim.apis.wire.frames import MAX_REQUEST_BYTES, FrameError, FrameSplitter, frame


@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(1, 30)))
def test_frames_are_cut_from_pieces(payloads: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(frame, payloads))
    splitter = FrameSplitter()
    frames = []
    for cut in [*cuts, len(stream)]:
        piece, stream = stream[:cut], stream[cut:]
        frames += splitter.feed(piece)
    frames += splitter.feed(stream)
    assert frames == payloads
    assert splitter.buffered == 0


def test_frames_arrive_byte_by_byte() -> None:
    splitter = FrameSplitter()
    frames = [splitter.feed(bytes([byte])) for byte in frame(b"ab") + frame(b"") + frame(b"c")]
    assert [each for each in frames if each] == [[b"ab"], [b""], [b"c"]]


def test_an_unfinished_frame_is_buffered() -> None:
    splitter = FrameSplitter()
    assert splitter.feed(frame(b"whole") + frame(b"half")[:6]) == [b"whole"]
    assert splitter.buffered == 6
    assert splitter.feed(b"lf") == [b"half"]


@pytest.mark.parametrize("size", [-1, -(2**31), 101, 2**31 - 1])
def test_sizes_that_are_refused(size: int) -> None:
    splitter = FrameSplitter(max_bytes=100)
    with pytest.raises(FrameError, match=f"a frame of {size} bytes") as caught:
        splitter.feed(frame(b"good") + size.to_bytes(4, "big", signed=True))
    assert isinstance(caught.value, DecodeError)
    assert (caught.value.frames, caught.value.size) == ([b"good"], size)


def test_the_largest_size() -> None:
    splitter = FrameSplitter(max_bytes=100)
    assert splitter.feed(frame(bytes(100))) == [bytes(100)]
    assert FrameSplitter().max_bytes == MAX_REQUEST_BYTES == 104857600


def test_a_long_frame_is_copied_once() -> None:
    splitter, size = FrameSplitter(), 2**22
    data = frame(bytes(size)) + b"\0"
    tracemalloc.start()
    splitter.feed(data[:-2])
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    (payload,) = splitter.feed(data[-2:])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (len(payload), splitter.buffered) == (size, 1)
    assert peak - before < 1.5 * size


def test_a_promise_costs_no_memory() -> None:
    splitter = FrameSplitter()
    assert splitter.feed((MAX_REQUEST_BYTES).to_bytes(4, "big")) == []
    assert splitter.buffered == 4

"""The tables that `make bench` prints for the documentation."""

from bench.markdown import markdown

WORK = {"cpu_us": 8.51, "p50_us": 61.2, "p99_us": 1211.0, "p999_us": 5178.4}
WORK |= {"saturated_mean_us": 13_040.0, "saturated_p99_us": 21_000.0, "saturated_p99_turns": 625}
SIZE = {"formed": True, "form_s": 0.2034, "per_member_kib": 2.3, "heartbeat": WORK, "commit": WORK | {"cpu_us": 40.8}}
RESULT = {
    "date": "2026-11-21",
    "python": "3.11.7",
    "machine": "Linux x86_64, 2 cores",
    "starts": {"serve_s": 0.356, "in_process_ms": 1.84},
    "servers": {
        "rdkafka-mock": {"members": {500: {"formed": False, "error": 27, "per_member_kib": 1.8}}},
        "kafka": {"missing": "there is no Java"},
        "shim": {"members": {500: SIZE}},
    },
    "trace": {"heartbeat": {"off_us": 8.0, "on_us": 9.6, "ratio": 1.2}},
    "codec": [
        {"name": "Heartbeat v4", "median_us": {"ours": 0.9, "kio": 12.4}},
        {"name": "Join", "median_us": {"ours": 1}},
    ],
}


def test_a_run_prints_the_tables_of_the_documentation() -> None:
    lines = markdown(RESULT).splitlines()
    assert lines[0] == "| CPU us per request | members | ours | librdkafka's mock | Kafka |"
    assert "| Heartbeat | 500 | 8.5 | - | - |" in lines
    assert "| OffsetCommit of 10 partitions | 500 | 40.8 | - | - |" in lines
    assert "| OffsetCommit of 10 partitions | 500 | 13.0 / 21.0 ms / 1.25 | - | - |" in lines
    assert "| OffsetCommit of some of 10 partitions, others each time | 500 | - | - | - |" in lines
    assert "| time to one stable generation, delay 0 | 0.203 s | - | - |" in lines
    assert "| memory per member beyond the base | 2.3 KiB | 1.8 KiB | - |" in lines
    assert "| Heartbeat p50 / p99 / p99.9 | 61 / 1,211 / 5,178 us | - | - |" in lines
    assert "| Heartbeat | 8.0 | 9.6 | +20% |" in lines
    assert "| Heartbeat v4 | 0.90 | 12 |" in lines
    assert "| Join | 1.00 | - |" in lines
    assert "ready after 0.36 s, a server inside a process after 1.8 ms" in lines[-1]

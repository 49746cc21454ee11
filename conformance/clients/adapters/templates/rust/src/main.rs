//! An adapter of a client of yours for `kafka-shim conformance --adapter target/release/adapter`.
//! Fill in the methods of `Client`; the rest is the line protocol, which docs/clients.md describes.

use serde_json::{json, Value};
use std::io::{BufRead, Write};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::time::Duration;

fn description() -> Value {
    json!({"name": "my-client-1.0", "protocols": ["classic"], "assignors": ["range"], "static": false, "abilities": []})
}

fn emit(message: Value) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{message}").and_then(|()| out.flush()).expect("standard output is open");
}

/// One member of the group.
struct Client {
    _config: Value,
}

impl Client {
    /// Make a consumer of `config["topics"]` at `config["bootstrap"]`, with auto commit off, earliest first. Its
    /// rebalance listener emits `assigned`, `revoked` and `lost` with `"partitions": [["topic", 0]]`.
    fn new(config: Value) -> Client {
        Client { _config: config }
    }

    /// Poll for at most 100 ms. Emit records, and what it owns when that or the generation has changed:
    /// `emit(json!({"event": "records", "topic": "t", "partition": 0, "records": [[17, null, "value", []]]}))`
    /// `emit(json!({"event": "owns", "partitions": [["t", 0]], "generation": 3, "member": "id"}))`
    fn poll(&mut self) -> Result<(), String> {
        std::thread::sleep(Duration::from_millis(100));
        Ok(())
    }

    /// Commit `[["topic", 0, 17], ...]` and wait for it.
    fn commit(&mut self, _offsets: &Value) -> Result<(), String> {
        Err("commit is not written yet".into())
    }

    /// Leave the group in good order.
    fn close(&mut self) -> Result<(), String> {
        Ok(())
    }
}

fn main() {
    let argument = std::env::args().nth(1).expect("one argument: the configuration, or describe");
    if argument == "describe" {
        return emit(description());
    }
    let (commands, waiting) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if commands.send(line).is_err() {
                return;
            }
        }
    });
    let mut client = Client::new(serde_json::from_str(&argument).expect("the configuration is JSON"));
    let mut held = false;
    emit(json!({"event": "started"}));
    loop {
        let patience = if held { Duration::from_secs(3600) } else { Duration::ZERO };
        let line = match waiting.recv_timeout(patience) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                if !held {
                    if let Err(text) = client.poll() {
                        emit(json!({"event": "error", "name": "poll", "text": text}));
                    }
                }
                continue;
            }
        };
        let command: Value = serde_json::from_str(&line).expect("a command is JSON");
        let name = command["do"].as_str().unwrap_or("");
        let done = match name {
            "hold" | "go" => {
                held = name == "hold";
                Ok(())
            }
            "commit" | "commit_async" => client.commit(&command["offsets"]),
            "close" => client.close(),
            _ => Err(format!("{name} is not written yet")),
        };
        emit(match done {
            Ok(()) => json!({"reply": command["id"], "value": null}),
            Err(text) => json!({"reply": command["id"], "error": "refused", "text": text}),
        });
        if name == "close" {
            return emit(json!({"event": "closed"}));
        }
    }
}

//! The rdkafka crate (librdkafka) behind the line protocol of lines.py.

use rdkafka::client::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::KafkaResult;
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{json, Value};
use std::collections::VecDeque;
use std::io::{BufRead, Write};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::sync::Mutex;
use std::time::Duration;

fn emit(message: Value) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{message}").and_then(|()| out.flush()).expect("standard output is open");
}

fn partitions(list: &TopicPartitionList) -> Value {
    list.elements().iter().map(|each| json!([each.topic(), each.partition()])).collect()
}

/// The partitions, or partitions and offsets, of a command.
fn places(list: &Value) -> TopicPartitionList {
    let mut places = TopicPartitionList::new();
    for each in list.as_array().into_iter().flatten() {
        let topic = each[0].as_str().expect("a topic");
        let partition = each[1].as_i64().expect("a partition") as i32;
        match each[2].as_i64() {
            Some(offset) => places.add_partition_offset(topic, partition, Offset::Offset(offset)).expect("an offset"),
            None => drop(places.add_partition(topic, partition)),
        }
    }
    places
}

struct Listener {
    revoke: Duration,
    commits_on_revoke: bool,
    unsubscribes: bool,
    /// The commands whose commits are on their way.
    commits: Mutex<VecDeque<Value>>,
}

impl ClientContext for Listener {
    fn error(&self, error: rdkafka::error::KafkaError, reason: &str) {
        emit(json!({"event": "error", "name": format!("{error}"), "text": reason}));
    }
}

impl ConsumerContext for Listener {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Revoke(list) = rebalance {
            emit(json!({"event": "revoked", "partitions": partitions(list)}));
            if self.commits_on_revoke {
                if let Err(error) = consumer.commit_consumer_state(CommitMode::Sync) {
                    emit(json!({"event": "error", "name": "commit", "text": error.to_string()}));
                }
            }
            std::thread::sleep(self.revoke);
        }
    }

    fn post_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Assign(list) = rebalance {
            emit(json!({"event": "assigned", "partitions": partitions(list)}));
            if self.unsubscribes {
                consumer.unsubscribe();
            }
        }
        let owned = consumer.assignment().map(|list| partitions(&list)).unwrap_or(json!([]));
        // It shows neither the generation nor the member id.
        emit(json!({"event": "owns", "partitions": owned, "generation": -1, "member": ""}));
    }

    fn commit_callback(&self, result: KafkaResult<()>, _offsets: &TopicPartitionList) {
        if let Some(id) = self.commits.lock().expect("nobody panicked").pop_front() {
            reply(&id, result.map_err(|error| error.to_string()));
        }
    }
}

fn reply(id: &Value, done: Result<(), String>) {
    emit(match done {
        Ok(()) => json!({"reply": id, "value": null}),
        Err(text) => json!({"reply": id, "error": "KafkaError", "text": text}),
    });
}

fn consumer_of(config: &Value) -> KafkaResult<BaseConsumer<Listener>> {
    let text = |name: &str| match &config[name] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut options = ClientConfig::new();
    options
        .set("bootstrap.servers", text("bootstrap"))
        .set("client.id", text("client_id"))
        .set("group.id", text("group"))
        .set("session.timeout.ms", text("session_ms"))
        .set("heartbeat.interval.ms", text("heartbeat_ms"))
        .set("topic.metadata.refresh.interval.ms", text("metadata_ms"))
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .set("fetch.wait.max.ms", "100");
    for (name, option) in [("instance", "group.instance.id"), ("max_poll_ms", "max.poll.interval.ms")] {
        if !config[name].is_null() {
            options.set(option, text(name));
        }
    }
    if let Some(assignors) = config["assignors"].as_array() {
        let names: Vec<_> = assignors.iter().filter_map(Value::as_str).collect();
        options.set("partition.assignment.strategy", names.join(","));
    }
    let consumer: BaseConsumer<Listener> = options.create_with_context(Listener {
        revoke: Duration::from_secs_f64(config["revoke_s"].as_f64().unwrap_or(0.0)),
        commits_on_revoke: config["revoke_commit"] == true,
        unsubscribes: config["assign_unsubscribe"] == true,
        commits: Mutex::default(),
    })?;
    let topics: Vec<_> = config["topics"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    consumer.subscribe(&topics)?;
    Ok(consumer)
}

fn poll(consumer: &BaseConsumer<Listener>) {
    match consumer.poll(Duration::from_millis(100)) {
        Some(Ok(message)) => {
            let shown = |bytes: Option<&[u8]>| bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            let record = json!([message.offset(), shown(message.key()), shown(message.payload()), []]);
            emit(json!({"event": "records", "topic": message.topic(), "partition": message.partition(),
                        "records": [record]}));
        }
        Some(Err(error)) => emit(json!({"event": "error", "name": "poll", "text": error.to_string()})),
        None => {}
    }
}

fn carry_out(consumer: &BaseConsumer<Listener>, name: &str, command: &Value) -> KafkaResult<()> {
    match name {
        "commit" => consumer.commit(&places(&command["offsets"]), CommitMode::Sync),
        "pause" => consumer.pause(&places(&command["partitions"])),
        "resume" => consumer.resume(&places(&command["partitions"])),
        "seek" => consumer.seek_partitions(places(&command["offsets"]), Duration::from_secs(5)).map(drop),
        _ => Ok(()),
    }
}

fn main() {
    let config: Value = serde_json::from_str(&std::env::args().nth(1).expect("one argument: the configuration"))
        .expect("the configuration is JSON");
    let (commands, waiting) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if commands.send(line).is_err() {
                return;
            }
        }
    });
    emit(json!({"event": "started"}));
    let consumer = consumer_of(&config).expect("the configuration is good");
    let mut held = false;
    loop {
        let patience = if held { Duration::from_secs(3600) } else { Duration::ZERO };
        let line = match waiting.recv_timeout(patience) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                poll(&consumer);
                continue;
            }
        };
        let command: Value = serde_json::from_str(&line).expect("a command is JSON");
        let id = &command["id"];
        match command["do"].as_str().unwrap_or("") {
            "commit_async" => {
                consumer.context().commits.lock().expect("nobody panicked").push_back(id.clone());
                if let Err(error) = consumer.commit(&places(&command["offsets"]), CommitMode::Async) {
                    consumer.context().commits.lock().expect("nobody panicked").pop_back();
                    reply(id, Err(error.to_string()));
                }
            }
            "close" => {
                // It leaves its group when it is dropped.
                drop(consumer);
                reply(id, Ok(()));
                return emit(json!({"event": "closed"}));
            }
            name => {
                held = name == "hold" || (held && name != "go");
                reply(id, carry_out(&consumer, name, &command).map_err(|error| error.to_string()));
            }
        }
    }
}

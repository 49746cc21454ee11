// An adapter of a client of yours for `kafka-shim conformance --adapter ./adapter`, built with `go build adapter.go`.
// Fill in the methods of Client; the rest is the line protocol, which docs/clients.md describes.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
)

type fields map[string]any

var description = fields{
	"name": "my-client-1.0", "protocols": []string{"classic"}, "assignors": []string{"range"},
	"static": false, "abilities": []string{},
}

// Config is what a member is started with; docs/clients.md has all its fields.
type Config struct {
	Bootstrap   string   `json:"bootstrap"`
	ClientID    string   `json:"client_id"`
	Group       string   `json:"group"`
	Topics      []string `json:"topics"`
	SessionMs   int      `json:"session_ms"`
	HeartbeatMs int      `json:"heartbeat_ms"`
}

// Client is one member of the group.
type Client struct{ config Config }

// NewClient makes a consumer of the topics, with auto commit off, earliest first, and lets it run. As things happen:
//
//	emit(fields{"event": "assigned", "partitions": [][]any{{"topic", 0}}})  (or "revoked", "lost")
//	emit(fields{"event": "owns", "partitions": [][]any{{"topic", 0}}, "generation": 3, "member": "id"})
//	emit(fields{"event": "records", "topic": "topic", "partition": 0, "records": [][]any{{17, nil, "value", []any{}}}})
func NewClient(config Config) (*Client, error) { return &Client{config}, nil }

// Hold polls no more until Go, as if busy with a record.
func (client *Client) Hold() {}

// Go polls again.
func (client *Client) Go() {}

// Commit commits {{"topic", 0, 17}, ...} and waits for it.
func (client *Client) Commit(offsets [][]any) error { return errors.New("commit is not written yet") }

// Close leaves the group in good order.
func (client *Client) Close() {}

var writing sync.Mutex

func emit(message fields) {
	writing.Lock()
	defer writing.Unlock()
	line, _ := json.Marshal(message)
	fmt.Println(string(line))
}

func main() {
	if os.Args[1] == "describe" {
		emit(description)
		return
	}
	var config Config
	if err := json.Unmarshal([]byte(os.Args[1]), &config); err != nil {
		panic(err)
	}
	client, err := NewClient(config)
	if err != nil {
		panic(err)
	}
	emit(fields{"event": "started"})
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var command struct {
			ID      int     `json:"id"`
			Do      string  `json:"do"`
			Offsets [][]any `json:"offsets"`
		}
		if err := json.Unmarshal(lines.Bytes(), &command); err != nil {
			panic(err)
		}
		var failed error
		switch command.Do {
		case "hold":
			client.Hold()
		case "go":
			client.Go()
		case "commit", "commit_async":
			failed = client.Commit(command.Offsets)
		case "close":
			client.Close()
		default:
			failed = fmt.Errorf("%s is not written yet", command.Do)
		}
		if failed != nil {
			emit(fields{"reply": command.ID, "error": "refused", "text": failed.Error()})
		} else {
			emit(fields{"reply": command.ID, "value": nil})
		}
		if command.Do == "close" {
			emit(fields{"event": "closed"})
			return
		}
	}
}

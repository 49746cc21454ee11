// segmentio's kafka-go behind the line protocol of docs/clients.md, by its ConsumerGroup.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

type config struct {
	Bootstrap   string   `json:"bootstrap"`
	ClientID    string   `json:"client_id"`
	Group       string   `json:"group"`
	Topics      []string `json:"topics"`
	SessionMs   int      `json:"session_ms"`
	HeartbeatMs int      `json:"heartbeat_ms"`
	MetadataMs  int      `json:"metadata_ms"`
	Assignors   []string `json:"assignors"`
	RevokeS     float64  `json:"revoke_s"`
	Verbose     bool     `json:"verbose"`
}

type command struct {
	ID      int     `json:"id"`
	Do      string  `json:"do"`
	Offsets [][]any `json:"offsets"`
}

type fields map[string]any

var writing sync.Mutex

func emit(message fields) {
	writing.Lock()
	defer writing.Unlock()
	line, _ := json.Marshal(message)
	fmt.Println(string(line))
}

func fail(err error) {
	emit(fields{"event": "error", "name": fmt.Sprintf("%T", err), "text": err.Error()})
}

type member struct {
	settings config
	dialer   *kafka.Dialer
	busy     sync.RWMutex

	state      sync.Mutex
	generation *kafka.Generation
}

// serve takes up a generation; what it starts ends with the generation.
func (m *member) serve(generation *kafka.Generation) {
	m.state.Lock()
	m.generation = generation
	m.state.Unlock()
	owned := [][]any{}
	for topic, partitions := range generation.Assignments {
		for _, each := range partitions {
			owned = append(owned, []any{topic, each.ID})
		}
	}
	emit(fields{"event": "assigned", "partitions": owned})
	emit(fields{"event": "owns", "partitions": owned, "generation": generation.ID, "member": generation.MemberID})
	for topic, partitions := range generation.Assignments {
		for _, each := range partitions {
			generation.Start(func(ctx context.Context) { m.read(ctx, topic, each.ID, each.Offset) })
		}
	}
	generation.Start(func(ctx context.Context) {
		<-ctx.Done()
		emit(fields{"event": "revoked", "partitions": owned})
		time.Sleep(time.Duration(m.settings.RevokeS * float64(time.Second)))
		emit(fields{"event": "owns", "partitions": [][]any{}, "generation": generation.ID, "member": generation.MemberID})
	})
}

func (m *member) read(ctx context.Context, topic string, partition int, offset int64) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{m.settings.Bootstrap}, Topic: topic, Partition: partition, Dialer: m.dialer,
		MaxWait: 100 * time.Millisecond, ReadBackoffMin: 10 * time.Millisecond, ReadBackoffMax: 100 * time.Millisecond,
	})
	defer reader.Close()
	if err := reader.SetOffset(offset); err != nil {
		fail(err)
		return
	}
	for {
		message, err := reader.ReadMessage(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			fail(err)
			return
		}
		m.busy.RLock()
		m.busy.RUnlock()
		record := []any{message.Offset, nil, string(message.Value), []any{}}
		emit(fields{"event": "records", "topic": topic, "partition": partition, "records": [][]any{record}})
	}
}

func (m *member) commit(offsets [][]any) error {
	m.state.Lock()
	generation := m.generation
	m.state.Unlock()
	if generation == nil {
		return errors.New("there is no generation")
	}
	found := map[string]map[int]int64{}
	for _, each := range offsets {
		topic := each[0].(string)
		if found[topic] == nil {
			found[topic] = map[int]int64{}
		}
		found[topic][int(each[1].(float64))] = int64(each[2].(float64))
	}
	return generation.CommitOffsets(found)
}

func answer(id int, failed error) {
	if failed != nil {
		emit(fields{"reply": id, "error": "refused", "text": failed.Error()})
	} else {
		emit(fields{"reply": id, "value": nil})
	}
}

func options(settings config, dialer *kafka.Dialer) kafka.ConsumerGroupConfig {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	balancers := map[string]kafka.GroupBalancer{
		"range": kafka.RangeGroupBalancer{}, "roundrobin": kafka.RoundRobinGroupBalancer{},
	}
	options := kafka.ConsumerGroupConfig{
		ID: settings.Group, Brokers: []string{settings.Bootstrap}, Topics: settings.Topics, Dialer: dialer,
		SessionTimeout: ms(settings.SessionMs), HeartbeatInterval: ms(settings.HeartbeatMs),
		RebalanceTimeout: ms(max(settings.SessionMs, 10_000)), JoinGroupBackoff: 100 * time.Millisecond,
		WatchPartitionChanges: true, PartitionWatchInterval: ms(settings.MetadataMs),
		StartOffset: kafka.FirstOffset,
	}
	for _, name := range settings.Assignors {
		options.GroupBalancers = append(options.GroupBalancers, balancers[name])
	}
	if settings.Verbose {
		options.Logger = log.New(os.Stderr, "", log.Ltime|log.Lmicroseconds)
		options.ErrorLogger = options.Logger
	}
	return options
}

func main() {
	var settings config
	if err := json.Unmarshal([]byte(os.Args[1]), &settings); err != nil {
		panic(err)
	}
	dialer := &kafka.Dialer{ClientID: settings.ClientID, Timeout: 10 * time.Second}
	handler := &member{settings: settings, dialer: dialer}
	emit(fields{"event": "started"})
	group, err := kafka.NewConsumerGroup(options(settings, dialer))
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			generation, err := group.Next(context.Background())
			if errors.Is(err, kafka.ErrGroupClosed) {
				return
			}
			if err != nil {
				fail(err)
				continue
			}
			handler.serve(generation)
		}
	}()

	held := false
	release := func() {
		if held {
			held = false
			handler.busy.Unlock()
		}
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var request command
		if err := json.Unmarshal(lines.Bytes(), &request); err != nil {
			panic(err)
		}
		switch request.Do {
		case "hold":
			if !held {
				held = true
				handler.busy.Lock()
			}
			answer(request.ID, nil)
		case "go":
			release()
			answer(request.ID, nil)
		case "commit", "commit_async":
			go func() { answer(request.ID, handler.commit(request.Offsets)) }()
		case "close":
			release()
			answer(request.ID, group.Close())
			emit(fields{"event": "closed"})
			return
		default:
			answer(request.ID, fmt.Errorf("%s is no command", request.Do))
		}
	}
}

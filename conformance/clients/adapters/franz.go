// franz-go behind the line protocol of lines.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type config struct {
	Bootstrap   string   `json:"bootstrap"`
	ClientID    string   `json:"client_id"`
	Group       string   `json:"group"`
	Instance    string   `json:"instance"`
	Topics      []string `json:"topics"`
	Assignors   []string `json:"assignors"`
	SessionMs   int      `json:"session_ms"`
	HeartbeatMs int      `json:"heartbeat_ms"`
	MetadataMs  int      `json:"metadata_ms"`
	RevokeS     float64  `json:"revoke_s"`
}

type command struct {
	ID      int     `json:"id"`
	Do      string  `json:"do"`
	Offsets [][]any `json:"offsets"`
}

type fields map[string]any

var (
	writing sync.Mutex
	state   sync.Mutex
	owned   = map[string]map[int32]bool{}
)

func emit(message fields) {
	writing.Lock()
	defer writing.Unlock()
	line, _ := json.Marshal(message)
	fmt.Println(string(line))
}

func listed(partitions map[string][]int32) [][]any {
	found := [][]any{}
	for topic, numbers := range partitions {
		for _, number := range numbers {
			found = append(found, []any{topic, number})
		}
	}
	return found
}

func change(name string, partitions map[string][]int32, has bool) {
	state.Lock()
	defer state.Unlock()
	for topic, numbers := range partitions {
		for _, number := range numbers {
			if owned[topic] == nil {
				owned[topic] = map[int32]bool{}
			}
			owned[topic][number] = has
		}
	}
	emit(fields{"event": name, "partitions": listed(partitions)})
}

func tell(client *kgo.Client) {
	state.Lock()
	defer state.Unlock()
	found := [][]any{}
	for topic, numbers := range owned {
		for number, has := range numbers {
			if has {
				found = append(found, []any{topic, number})
			}
		}
	}
	member, generation := client.GroupMetadata()
	emit(fields{"event": "owns", "partitions": found, "generation": generation, "member": member})
}

func main() {
	var settings config
	if err := json.Unmarshal([]byte(os.Args[1]), &settings); err != nil {
		panic(err)
	}
	balancers := map[string]kgo.GroupBalancer{
		"range":              kgo.RangeBalancer(),
		"roundrobin":         kgo.RoundRobinBalancer(),
		"sticky":             kgo.StickyBalancer(),
		"cooperative-sticky": kgo.CooperativeStickyBalancer(),
	}
	chosen := []kgo.GroupBalancer{balancers["range"]}
	if len(settings.Assignors) > 0 {
		chosen = nil
		for _, name := range settings.Assignors {
			chosen = append(chosen, balancers[name])
		}
	}
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	options := []kgo.Opt{
		kgo.SeedBrokers(settings.Bootstrap),
		kgo.ClientID(settings.ClientID),
		kgo.ConsumerGroup(settings.Group),
		kgo.ConsumeTopics(settings.Topics...),
		kgo.Balancers(chosen...),
		kgo.SessionTimeout(ms(settings.SessionMs)),
		kgo.HeartbeatInterval(ms(settings.HeartbeatMs)),
		kgo.MetadataMaxAge(ms(settings.MetadataMs)),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.FetchMaxWait(ms(100)),
		kgo.DisableClientMetrics(),
		kgo.OnPartitionsAssigned(func(_ context.Context, client *kgo.Client, partitions map[string][]int32) {
			change("assigned", partitions, true)
			tell(client)
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, client *kgo.Client, partitions map[string][]int32) {
			change("revoked", partitions, false)
			time.Sleep(time.Duration(settings.RevokeS * float64(time.Second)))
			tell(client)
		}),
		kgo.OnPartitionsLost(func(_ context.Context, client *kgo.Client, partitions map[string][]int32) {
			change("lost", partitions, false)
			tell(client)
		}),
	}
	if settings.Instance != "" {
		options = append(options, kgo.InstanceID(settings.Instance))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		panic(err)
	}
	emit(fields{"event": "started"})

	var polling sync.Mutex
	held := false
	go func() {
		for {
			polling.Lock()
			fetches := client.PollFetches(context.Background())
			polling.Unlock()
			if fetches.IsClientClosed() {
				return
			}
			fetches.EachPartition(func(each kgo.FetchTopicPartition) {
				records := [][]any{}
				for _, record := range each.Records {
					records = append(records, []any{record.Offset, nil, string(record.Value), []any{}})
				}
				if len(records) > 0 {
					emit(fields{"event": "records", "topic": each.Topic, "partition": each.Partition, "records": records})
				}
			})
		}
	}()

	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var told command
		if err := json.Unmarshal(lines.Bytes(), &told); err != nil {
			panic(err)
		}
		var failed error
		switch told.Do {
		case "hold":
			if !held {
				held = true
				go func() { polling.Lock() }()
			}
		case "go":
			if held {
				held = false
				go func() { polling.Unlock() }()
			}
		case "commit", "commit_async":
			offsets := map[string]map[int32]kgo.EpochOffset{}
			for _, each := range told.Offsets {
				topic := each[0].(string)
				if offsets[topic] == nil {
					offsets[topic] = map[int32]kgo.EpochOffset{}
				}
				offsets[topic][int32(each[1].(float64))] = kgo.EpochOffset{Epoch: -1, Offset: int64(each[2].(float64))}
			}
			client.CommitOffsets(context.Background(), offsets, nil)
		case "close":
			client.LeaveGroup()
			client.Close()
		default:
			failed = fmt.Errorf("%s is not known", told.Do)
		}
		if failed != nil {
			emit(fields{"reply": told.ID, "error": "unknown", "text": failed.Error()})
		} else {
			emit(fields{"reply": told.ID, "value": nil})
		}
		if told.Do == "close" {
			emit(fields{"event": "closed"})
			return
		}
	}
}

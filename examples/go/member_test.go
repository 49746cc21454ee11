package billing

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// member is the consumer under test. It joins at once.
type member struct {
	client  *kgo.Client
	offsets chan int64
}

func join(t *testing.T, group, name string) *member {
	t.Helper()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(coordinator.Bootstrap...), kgo.ConsumerGroup(group), kgo.ClientID(name), kgo.ConsumeTopics("orders"),
		kgo.Balancers(kgo.RangeBalancer()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.HeartbeatInterval(100*time.Millisecond), kgo.SessionTimeout(45*time.Second),
		kgo.AutoCommitInterval(100*time.Millisecond), kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	if err != nil {
		t.Fatal(err)
	}
	found := &member{client, make(chan int64, 100)}
	go found.run()
	t.Cleanup(client.Close)
	return found
}

func (m *member) run() {
	for {
		fetches := m.client.PollFetches(context.Background())
		if fetches.IsClientClosed() {
			return
		}
		fetches.EachRecord(func(record *kgo.Record) { m.offsets <- record.Offset })
	}
}

// consumed waits for this many more records and returns their offsets.
func (m *member) consumed(t *testing.T, records int) []int64 {
	t.Helper()
	var found []int64
	for len(found) < records {
		select {
		case offset := <-m.offsets:
			found = append(found, offset)
		case <-time.After(20 * time.Second):
			t.Fatalf("only %v were consumed", found)
		}
	}
	return found
}

// produce writes records to the first partition.
func (m *member) produce(t *testing.T, records int) {
	t.Helper()
	for number := range records {
		record := &kgo.Record{Topic: "orders", Value: fmt.Appendf(nil, "order %d", number)}
		if err := m.client.ProduceSync(context.Background(), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

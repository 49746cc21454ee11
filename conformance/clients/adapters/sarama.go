// Sarama behind the line protocol of docs/clients.md.
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

	"github.com/IBM/sarama"
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
	Instance    string   `json:"instance"`
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

// member is the handler of a group: a partition is owned for as long as its claim is consumed.
type member struct {
	settings config
	busy     sync.RWMutex

	state   sync.Mutex
	session sarama.ConsumerGroupSession
	owned   map[string]map[int32]bool
}

func (m *member) change(session sarama.ConsumerGroupSession, name, topic string, partition int32, has bool) {
	m.state.Lock()
	defer m.state.Unlock()
	if m.owned[topic] == nil {
		m.owned[topic] = map[int32]bool{}
	}
	m.owned[topic][partition] = has
	emit(fields{"event": name, "partitions": [][]any{{topic, partition}}})
	if has {
		m.tell(session)
	}
}

func (m *member) tell(session sarama.ConsumerGroupSession) {
	found := [][]any{}
	for topic, numbers := range m.owned {
		for number, has := range numbers {
			if has {
				found = append(found, []any{topic, number})
			}
		}
	}
	emit(fields{"event": "owns", "partitions": found, "generation": session.GenerationID(), "member": session.MemberID()})
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.state.Lock()
	defer m.state.Unlock()
	m.session = session
	m.tell(session)
	return nil
}

func (m *member) Cleanup(session sarama.ConsumerGroupSession) error {
	return nil
}

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	m.change(session, "assigned", claim.Topic(), claim.Partition(), true)
	defer func() {
		m.change(session, "revoked", claim.Topic(), claim.Partition(), false)
		time.Sleep(time.Duration(m.settings.RevokeS * float64(time.Second)))
		m.state.Lock()
		defer m.state.Unlock()
		m.tell(session)
	}()
	for {
		select {
		case message, more := <-claim.Messages():
			if !more {
				return nil
			}
			m.busy.RLock()
			m.busy.RUnlock()
			record := []any{message.Offset, nil, string(message.Value), []any{}}
			emit(fields{"event": "records", "topic": message.Topic, "partition": message.Partition, "records": [][]any{record}})
		case <-session.Context().Done():
			return nil
		}
	}
}

func (m *member) commit(offsets [][]any) error {
	m.state.Lock()
	session := m.session
	m.state.Unlock()
	if session == nil {
		return errors.New("there is no session")
	}
	for _, each := range offsets {
		session.ResetOffset(each[0].(string), int32(each[1].(float64)), int64(each[2].(float64)), "")
		session.MarkOffset(each[0].(string), int32(each[1].(float64)), int64(each[2].(float64)), "")
	}
	session.Commit()
	return nil
}

func answer(id int, failed error) {
	if failed != nil {
		emit(fields{"reply": id, "error": "refused", "text": failed.Error()})
	} else {
		emit(fields{"reply": id, "value": nil})
	}
}

func options(settings config) *sarama.Config {
	strategies := map[string]func() sarama.BalanceStrategy{
		"range":              sarama.NewBalanceStrategyRange,
		"roundrobin":         sarama.NewBalanceStrategyRoundRobin,
		"sticky":             sarama.NewBalanceStrategySticky,
		"cooperative-sticky": sarama.NewBalanceStrategyCooperativeSticky,
	}
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	options := sarama.NewConfig()
	options.ClientID = settings.ClientID
	options.Metadata.RefreshFrequency = ms(settings.MetadataMs)
	options.Consumer.Group.Session.Timeout = ms(settings.SessionMs)
	options.Consumer.Group.Heartbeat.Interval = ms(settings.HeartbeatMs)
	options.Consumer.Group.InstanceId = settings.Instance
	options.Consumer.Offsets.Initial = sarama.OffsetOldest
	options.Consumer.Offsets.AutoCommit.Enable = false
	options.Consumer.MaxWaitTime = ms(100)
	options.Consumer.Return.Errors = true
	if len(settings.Assignors) > 0 {
		options.Consumer.Group.Rebalance.GroupStrategies = nil
		for _, name := range settings.Assignors {
			options.Consumer.Group.Rebalance.GroupStrategies = append(
				options.Consumer.Group.Rebalance.GroupStrategies, strategies[name]())
		}
	}
	return options
}

func main() {
	var settings config
	if err := json.Unmarshal([]byte(os.Args[1]), &settings); err != nil {
		panic(err)
	}
	if settings.Verbose {
		sarama.Logger = log.New(os.Stderr, "", log.Ltime|log.Lmicroseconds)
	}
	emit(fields{"event": "started"})
	group, err := sarama.NewConsumerGroup([]string{settings.Bootstrap}, settings.Group, options(settings))
	if err != nil {
		panic(err)
	}
	handler := &member{settings: settings, owned: map[string]map[int32]bool{}}
	go func() {
		for err := range group.Errors() {
			emit(fields{"event": "error", "name": fmt.Sprintf("%T", err), "text": err.Error()})
		}
	}()
	go func() {
		for {
			err := group.Consume(context.Background(), settings.Topics, handler)
			if errors.Is(err, sarama.ErrClosedConsumerGroup) {
				return
			}
			if err != nil {
				emit(fields{"event": "error", "name": fmt.Sprintf("%T", err), "text": err.Error()})
				time.Sleep(100 * time.Millisecond)
			}
		}
	}()

	held := false
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
			if held {
				held = false
				handler.busy.Unlock()
			}
			answer(request.ID, nil)
		case "commit", "commit_async":
			go func() { answer(request.ID, handler.commit(request.Offsets)) }()
		case "close":
			if held {
				handler.busy.Unlock()
			}
			answer(request.ID, group.Close())
			emit(fields{"event": "closed"})
			return
		default:
			answer(request.ID, fmt.Errorf("%s is no command", request.Do))
		}
	}
}

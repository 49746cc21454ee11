// franz-go behind the line protocol of lines.py.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// security is that of a listener with SASL_SSL. With IsToken, user and password are those of a delegation token.
type security struct {
	CA        string `json:"ca"`
	Mechanism string `json:"mechanism"`
	User      string `json:"user"`
	Password  string `json:"password"`
	IsToken   bool   `json:"is_token"`
	Token     string `json:"token"`
}

type config struct {
	Bootstrap    string    `json:"bootstrap"`
	ClientID     string    `json:"client_id"`
	Group        string    `json:"group"`
	Instance     string    `json:"instance"`
	Topics       []string  `json:"topics"`
	Pattern      string    `json:"pattern"`
	Protocol     string    `json:"protocol"`
	Assignors    []string  `json:"assignors"`
	SessionMs    int       `json:"session_ms"`
	HeartbeatMs  int       `json:"heartbeat_ms"`
	MetadataMs   int       `json:"metadata_ms"`
	RevokeS      float64   `json:"revoke_s"`
	MaxPollMs    int       `json:"max_poll_ms"`
	Verbose      bool      `json:"verbose"`
	RevokeCommit bool      `json:"revoke_commit"`
	AssignSeek   *int64    `json:"assign_seek"`
	Security     *security `json:"security"`
}

type command struct {
	ID      int      `json:"id"`
	Do      string   `json:"do"`
	Offsets [][]any  `json:"offsets"`
	Topics  []string `json:"topics"`

	Partitions [][]any `json:"partitions"`
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

func answer(id int, failed error) {
	if failed != nil {
		emit(fields{"reply": id, "error": "refused", "text": failed.Error()})
	} else {
		emit(fields{"reply": id, "value": nil})
	}
}

// refused is the first error of a commit.
func refused(answer *kmsg.OffsetCommitResponse, failed error) error {
	if failed != nil || answer == nil {
		return failed
	}
	for _, topic := range answer.Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}

func numbered(partitions [][]any) map[string][]int32 {
	found := map[string][]int32{}
	for _, each := range partitions {
		topic := each[0].(string)
		found[topic] = append(found[topic], int32(each[1].(float64)))
	}
	return found
}

func placed(from [][]any) map[string]map[int32]kgo.EpochOffset {
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for _, each := range from {
		topic := each[0].(string)
		if offsets[topic] == nil {
			offsets[topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[topic][int32(each[1].(float64))] = kgo.EpochOffset{Epoch: -1, Offset: int64(each[2].(float64))}
	}
	return offsets
}

func secured(by *security) []kgo.Opt {
	trusted := x509.NewCertPool()
	pem, err := os.ReadFile(by.CA)
	if err != nil || !trusted.AppendCertsFromPEM(pem) {
		panic(by.CA)
	}
	salted := scram.Auth{User: by.User, Pass: by.Password, IsToken: by.IsToken}
	mechanisms := map[string]sasl.Mechanism{
		"PLAIN":         plain.Auth{User: by.User, Pass: by.Password}.AsMechanism(),
		"SCRAM-SHA-256": salted.AsSha256Mechanism(),
		"SCRAM-SHA-512": salted.AsSha512Mechanism(),
		"OAUTHBEARER":   oauth.Auth{Token: by.Token}.AsMechanism(),
	}
	return []kgo.Opt{kgo.DialTLSConfig(&tls.Config{RootCAs: trusted}), kgo.SASL(mechanisms[by.Mechanism])}
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
		"uniform":            kgo.CooperativeStickyBalancer(),
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
		kgo.Balancers(chosen...),
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
			if settings.RevokeCommit && len(partitions) > 0 {
				if err := client.CommitUncommittedOffsets(context.Background()); err != nil {
					emit(fields{"event": "error", "name": "commit", "text": err.Error()})
				}
			}
			// It is called at the end of every session, also when nothing is taken.
			if len(partitions) > 0 {
				time.Sleep(time.Duration(settings.RevokeS * float64(time.Second)))
			}
			tell(client)
		}),
		kgo.OnPartitionsLost(func(_ context.Context, client *kgo.Client, partitions map[string][]int32) {
			change("lost", partitions, false)
			tell(client)
		}),
	}
	if settings.AssignSeek != nil {
		options = append(options, kgo.AdjustFetchOffsetsFn(
			func(_ context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
				for _, partitions := range offsets {
					for number := range partitions {
						partitions[number] = kgo.NewOffset().At(*settings.AssignSeek)
					}
				}
				return offsets, nil
			}))
	}
	if settings.Pattern != "" {
		options = append(options, kgo.ConsumeRegex(), kgo.ConsumeTopics(settings.Pattern))
	} else {
		options = append(options, kgo.ConsumeTopics(settings.Topics...))
	}
	if settings.Protocol == "consumer" {
		// The coordinator tells how often to heartbeat and how long a session lasts.
		options = append(options, kgo.ServerSideBalancer())
	} else {
		options = append(options, kgo.SessionTimeout(ms(settings.SessionMs)), kgo.HeartbeatInterval(ms(settings.HeartbeatMs)))
	}
	if settings.MetadataMs < 5000 {
		options = append(options, kgo.MetadataMinAge(ms(settings.MetadataMs)))
	}
	if settings.MaxPollMs != 0 {
		options = append(options, kgo.RebalanceTimeout(ms(settings.MaxPollMs)))
	}
	if settings.Instance != "" {
		options = append(options, kgo.InstanceID(settings.Instance))
	}
	if settings.Security != nil {
		options = append(options, secured(settings.Security)...)
	}
	if settings.Verbose {
		options = append(options, kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, nil)))
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
			fetches.EachError(func(_ string, _ int32, err error) {
				emit(fields{"event": "error", "name": "fetch", "text": err.Error()})
			})
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
		var request command
		if err := json.Unmarshal(lines.Bytes(), &request); err != nil {
			panic(err)
		}
		var failed error
		id := request.ID
		switch request.Do {
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
			offsets := placed(request.Offsets)
			done := func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
				answer(id, refused(response, err))
			}
			if request.Do == "commit" {
				client.CommitOffsetsSync(context.Background(), offsets, done)
			} else {
				client.CommitOffsets(context.Background(), offsets, done)
			}
			continue
		case "pause":
			client.PauseFetchPartitions(numbered(request.Partitions))
		case "resume":
			client.ResumeFetchPartitions(numbered(request.Partitions))
		case "seek":
			client.SetOffsets(placed(request.Offsets))
		case "subscribe":
			client.AddConsumeTopics(request.Topics...)
		case "close":
			client.LeaveGroup()
			client.Close()
		default:
			failed = fmt.Errorf("%s is no command", request.Do)
		}
		answer(id, failed)
		if request.Do == "close" {
			emit(fields{"event": "closed"})
			return
		}
	}
}

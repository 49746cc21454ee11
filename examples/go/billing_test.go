// Package billing has tests that cause bad moments of a consumer group, with franz-go. No test sleeps.
package billing

import (
	"fmt"
	"log"
	"os"
	"reflect"
	"strings"
	"testing"

	kafkashim "github.com/kafka-group-shim/kafka-group-shim/clients/go"
)

type fields = kafkashim.Fields

var (
	coordinator *kafkashim.Coordinator
	orders      = []string{"orders"}
	everything  = map[string][]int{"orders": {0, 1, 2, 3}}
)

func TestMain(m *testing.M) {
	var err error
	if coordinator, err = kafkashim.Open("--topic", "orders:4", "--brokers", "2"); err != nil {
		log.Fatal(err)
	}
	code := m.Run()
	coordinator.Close()
	os.Exit(code)
}

func TestASessionExpiresWhenTheClockIsPutForward(t *testing.T) {
	shim := coordinator.In(t)
	join(t, t.Name(), "real")
	puppet := shim.Puppet(t.Name(), orders, fields{"client_id": "silent", "session_timeout": 6})
	shim.Await(t.Name(), "stable", fields{"members": []string{"real", "silent"}})
	shim.Post(fmt.Sprintf("/v1/puppets/%v", puppet["puppet"]), fields{"do": "silence"})
	shim.Advance(7)
	shim.Await(t.Name(), "stable", fields{"members": 1, "owners": map[string]any{"real": everything}})
	rebalance := shim.Get("/v1/groups/"+t.Name())["rebalance"].(map[string]any)
	if rebalance["cause"] != "SESSION_EXPIRED" {
		t.Error(rebalance)
	}
}

func TestARewoundGroupConsumesAgainAndNothingFromBefore(t *testing.T) {
	shim := coordinator.In(t)
	real := join(t, t.Name(), "real")
	real.produce(t, 3)
	offsets := real.consumed(t, 3)
	shim.Await(t.Name(), "committed", fields{"topic": "orders", "partition": 0, "at_least": 3})
	where := []fields{{"topic": "orders", "partition": 0, "offset": 1}}
	shim.Post("/v1/groups/"+t.Name()+"/rewind", fields{"offsets": where, "timeout": 20})
	if offsets = append(offsets, real.consumed(t, 2)...); !reflect.DeepEqual(offsets, []int64{0, 1, 2, 1, 2}) {
		t.Error(offsets)
	}
}

func TestR04WhoIsCalledToRejoinKeepsItsMemberID(t *testing.T) {
	shim := coordinator.In(t)
	join(t, t.Name(), "real")
	before := shim.Await(t.Name(), "stable", fields{"members": 1})
	shim.Fault("error", "Heartbeat", fields{"group": t.Name(), "error": "REBALANCE_IN_PROGRESS"})
	after := shim.Await(t.Name(), "stable", fields{"generation": 2})
	if before["leader"] != after["leader"] {
		t.Error(before, after)
	}
}

func TestR07ACoordinatorThatMovesLeavesNoGhost(t *testing.T) {
	shim := coordinator.In(t)
	join(t, t.Name(), "real")
	shim.Await(t.Name(), "stable", fields{"members": 1})
	shim.Fault("error", "JoinGroup", fields{"client_id": "real", "error": "NOT_COORDINATOR"})
	broker := shim.Get("/v1/groups/"+t.Name())["coordinator"].(float64)
	shim.Post("/v1/groups/"+t.Name()+"/move", fields{"broker": 3 - broker})
	shim.Puppet(t.Name(), orders, fields{"client_id": "second"})
	shim.Await(t.Name(), "stable", fields{"members": []string{"real", "second"}})
	shim.Await(t.Name(), "no-rebalance", fields{"heartbeats": 3})
}

func TestR08FollowersKeepAliveWhileTheLeaderTakesItsTime(t *testing.T) {
	shim := coordinator.In(t)
	shim.Puppet(t.Name(), orders, fields{"client_id": "leader", "think": 1.5})
	shim.Await(t.Name(), "stable", fields{"members": 1})
	join(t, t.Name(), "real")
	shim.Await(t.Name(), "stable", fields{"members": []string{"leader", "real"}})
	shim.Await(t.Name(), "no-rebalance", fields{"heartbeats": 3})
	if story := fmt.Sprint(shim.Get("/v1/groups/"+t.Name()+"/story")); strings.Contains(story, "not heard of") {
		t.Error(story)
	}
}

func TestR17AMemberThatClosesSaysSo(t *testing.T) {
	shim := coordinator.In(t)
	shim.Puppet(t.Name(), orders, fields{"client_id": "other"})
	real := join(t, t.Name(), "real")
	shim.Await(t.Name(), "stable", fields{"members": []string{"other", "real"}})
	real.client.Close()
	shim.Await(t.Name(), "event", fields{"event": "exchange", "fields": fields{"api": "LeaveGroup"}})
	shim.Await(t.Name(), "stable", fields{"members": 1, "owners": map[string]any{"other": everything}})
}

func TestR18TwoMembersJoinWithOneIDEach(t *testing.T) {
	shim := coordinator.In(t)
	join(t, t.Name(), "a")
	join(t, t.Name(), "b")
	shim.Await(t.Name(), "stable", fields{"members": []string{"a", "b"}})
	found := shim.Await(t.Name(), "no-rebalance", fields{"heartbeats": 3})
	if found["generation"].(float64) > 2 {
		t.Error(found)
	}
}

func TestR19ACoordinatorThatIsLoadingIsAskedAgain(t *testing.T) {
	shim := coordinator.In(t)
	loading := "COORDINATOR_LOAD_IN_PROGRESS"
	path := shim.Fault("error", "JoinGroup", fields{"group": t.Name(), "error": loading, "times": 3})
	join(t, t.Name(), "real")
	shim.Await(t.Name(), "stable", fields{"members": 1})
	if fired := shim.Get(path)["fired"]; fired != 3.0 {
		t.Error(fired)
	}
}

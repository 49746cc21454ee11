// Package billing has tests of a consumer group: its bad moments, made to happen, with franz-go. No test sleeps.
package billing

import (
	"fmt"
	"log"
	"os"
	"reflect"
	"strings"
	"testing"
)

var shim *coordinator

var everything = map[string][]int{"orders": {0, 1, 2, 3}}

func TestMain(m *testing.M) {
	var err error
	if shim, err = startCoordinator("--topic", "orders:4", "--brokers", "2"); err != nil {
		log.Fatal(err)
	}
	code := m.Run()
	shim.stop()
	os.Exit(code)
}

// fault puts a fault in force that must have happened when the test ends.
func fault(t *testing.T, body fields) string {
	t.Helper()
	path := fmt.Sprintf("/v1/faults/%v", shim.post(t, "/v1/faults", body)["fault"])
	t.Cleanup(func() {
		if fired := shim.ask(t, "DELETE", path, nil)["fired"]; fired == 0.0 {
			t.Errorf("never happened: %v", body)
		}
	})
	return path
}

func TestASessionExpiresWhenTheClockIsPutForward(t *testing.T) {
	join(t, shim, t.Name(), "real")
	puppet := shim.puppet(t, t.Name(), fields{"client_id": "silent", "session_timeout": 6})
	shim.await(t, t.Name(), "stable", fields{"members": []string{"real", "silent"}})
	shim.post(t, "/v1/clock", fields{"frozen": true})
	defer shim.post(t, "/v1/clock", fields{"frozen": false})
	shim.post(t, fmt.Sprintf("/v1/puppets/%v", puppet["puppet"]), fields{"do": "silence"})
	shim.post(t, "/v1/clock", fields{"advance": 7})
	shim.await(t, t.Name(), "stable", fields{"members": 1, "owners": map[string]any{"real": everything}})
	rebalance := shim.get(t, "/v1/groups/"+t.Name())["rebalance"].(map[string]any)
	if rebalance["cause"] != "SESSION_EXPIRED" {
		t.Error(rebalance)
	}
}

func TestARewoundGroupConsumesAgainAndNothingFromBefore(t *testing.T) {
	real := join(t, shim, t.Name(), "real")
	real.produce(t, 3)
	offsets := real.consumed(t, 3)
	shim.await(t, t.Name(), "committed", fields{"topic": "orders", "partition": 0, "at_least": 3})
	where := []fields{{"topic": "orders", "partition": 0, "offset": 1}}
	shim.post(t, "/v1/groups/"+t.Name()+"/rewind", fields{"offsets": where, "timeout": 20})
	if offsets = append(offsets, real.consumed(t, 2)...); !reflect.DeepEqual(offsets, []int64{0, 1, 2, 1, 2}) {
		t.Error(offsets)
	}
}

func TestR04WhoIsCalledToRejoinKeepsItsMemberID(t *testing.T) {
	join(t, shim, t.Name(), "real")
	before := shim.await(t, t.Name(), "stable", fields{"members": 1})
	fault(t, fields{"action": "error", "api": "Heartbeat", "group": t.Name(), "error": "REBALANCE_IN_PROGRESS"})
	after := shim.await(t, t.Name(), "stable", fields{"generation": 2})
	if before["leader"] != after["leader"] {
		t.Error(before, after)
	}
}

func TestR07ACoordinatorThatMovesLeavesNoGhost(t *testing.T) {
	join(t, shim, t.Name(), "real")
	shim.await(t, t.Name(), "stable", fields{"members": 1})
	fault(t, fields{"action": "error", "api": "JoinGroup", "client_id": "real", "error": "NOT_COORDINATOR"})
	broker := shim.get(t, "/v1/groups/"+t.Name())["coordinator"].(float64)
	shim.post(t, "/v1/groups/"+t.Name()+"/move", fields{"broker": 3 - broker})
	shim.puppet(t, t.Name(), fields{"client_id": "second"})
	shim.await(t, t.Name(), "stable", fields{"members": []string{"real", "second"}})
	shim.await(t, t.Name(), "no-rebalance", fields{"heartbeats": 3})
}

func TestR08FollowersKeepAliveWhileTheLeaderTakesItsTime(t *testing.T) {
	shim.puppet(t, t.Name(), fields{"client_id": "leader", "think": 1.5})
	shim.await(t, t.Name(), "stable", fields{"members": 1})
	join(t, shim, t.Name(), "real")
	shim.await(t, t.Name(), "stable", fields{"members": []string{"leader", "real"}})
	shim.await(t, t.Name(), "no-rebalance", fields{"heartbeats": 3})
	if story := fmt.Sprint(shim.get(t, "/v1/groups/"+t.Name()+"/story")); strings.Contains(story, "not heard of") {
		t.Error(story)
	}
}

func TestR17AMemberThatClosesSaysSo(t *testing.T) {
	shim.puppet(t, t.Name(), fields{"client_id": "other"})
	real := join(t, shim, t.Name(), "real")
	shim.await(t, t.Name(), "stable", fields{"members": []string{"other", "real"}})
	real.client.Close()
	shim.await(t, t.Name(), "event", fields{"event": "exchange", "fields": fields{"api": "LeaveGroup"}})
	shim.await(t, t.Name(), "stable", fields{"members": 1, "owners": map[string]any{"other": everything}})
}

func TestR18TwoMembersJoinWithOneIDEach(t *testing.T) {
	join(t, shim, t.Name(), "a")
	join(t, shim, t.Name(), "b")
	shim.await(t, t.Name(), "stable", fields{"members": []string{"a", "b"}})
	found := shim.await(t, t.Name(), "no-rebalance", fields{"heartbeats": 3})
	if found["generation"].(float64) > 2 {
		t.Error(found)
	}
}

func TestR19ACoordinatorThatIsLoadingIsAskedAgain(t *testing.T) {
	loading := "COORDINATOR_LOAD_IN_PROGRESS"
	path := fault(t, fields{"action": "error", "api": "JoinGroup", "group": t.Name(), "error": loading, "times": 3})
	join(t, shim, t.Name(), "real")
	shim.await(t, t.Name(), "stable", fields{"members": 1})
	if fired := shim.get(t, path)["fired"]; fired != 3.0 {
		t.Error(fired)
	}
}

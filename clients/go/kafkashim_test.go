package kafkashim

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
)

func TestAMemberThatIsSilentIsExpelledWhenTheClockMoves(t *testing.T) {
	shim := Start(t, "--topic", "orders:4").In(t)
	shim.Puppet("team/billing", []string{"orders"}, Fields{"client_id": "a"})
	silent := shim.Puppet("team/billing", []string{"orders"}, Fields{"client_id": "b", "session_timeout": 6})
	shim.Await("team/billing", "stable", Fields{"members": []string{"a", "b"}})
	shim.Post(fmt.Sprintf("/v1/puppets/%v", silent["puppet"]), Fields{"do": "silence"})
	shim.Advance(7)
	shim.Await("team/billing", "stable", Fields{"members": []string{"a"}})
	group := shim.Get("/v1/groups/team%2Fbilling")
	if cause := group["rebalance"].(map[string]any)["cause"]; cause != "SESSION_EXPIRED" {
		t.Error(cause)
	}
}

func TestAMemberOfEachNewerKindOfGroupTakesOverSoon(t *testing.T) {
	shim := Start(t, "--topic", "orders:4").In(t)
	for _, kind := range []string{"consumer", "share", "streams"} {
		first := shim.Puppet(kind, []string{"orders"}, Fields{"kind": kind, "client_id": "a"})
		shim.Puppet(kind, []string{"orders"}, Fields{"kind": kind, "client_id": "b"})
		shim.Await(kind, "stable", Fields{"members": []string{"a", "b"}, "timeout": 4})
		shim.Post(fmt.Sprintf("/v1/puppets/%v", first["puppet"]), Fields{"do": "leave"})
		shim.Await(kind, "stable", Fields{"members": []string{"b"}, "timeout": 4})
	}
}

func TestAFaultThatNeverHappenedIsNamed(t *testing.T) {
	shim := Start(t)
	if _, err := shim.Fault("error", "Heartbeat", Fields{"error": "REBALANCE_IN_PROGRESS"}); err != nil {
		t.Fatal(err)
	}
	if unfired := shim.In(t).Delete("/v1/faults")["unfired"].([]any); len(unfired) != 1 {
		t.Error(unfired)
	}
}

func TestAnErrorIsTheSentenceOfTheServer(t *testing.T) {
	shim := Start(t)
	if _, err := shim.Get("/v1/groups/nobody"); err == nil || !strings.Contains(err.Error(), "no such group") {
		t.Error(err)
	}
	if _, err := Open("--no-such-option"); err == nil || !strings.Contains(err.Error(), "--no-such-option") {
		t.Error(err)
	}
}

func TestItIsGoneWhenItIsClosed(t *testing.T) {
	shim, err := Open("--brokers", "2")
	if err != nil {
		t.Fatal(err)
	}
	shim.Close()
	if len(shim.Bootstrap) != 2 {
		t.Error(shim.Bootstrap)
	}
	if _, err := net.Dial("tcp", shim.Bootstrap[0]); err == nil {
		t.Error("it listens on")
	}
}

// failing is a test that fails.
type failing struct {
	testing.TB
	cleanup func()
	log     string
}

func (f *failing) Helper()                         {}
func (f *failing) Failed() bool                    { return true }
func (f *failing) Cleanup(do func())               { f.cleanup = do }
func (f *failing) Logf(format string, args ...any) { f.log = fmt.Sprintf(format, args...) }

func TestAFailureHasTheStoryAndTheTrace(t *testing.T) {
	shim := Start(t, "--topic", "orders:4")
	failed := &failing{TB: t}
	in := shim.In(failed)
	in.Puppet("billing", []string{"orders"}, Fields{"client_id": "teller"})
	in.Await("billing", "stable", Fields{"members": 1})
	failed.cleanup()
	if !strings.Contains(failed.log, "teller joins") {
		t.Fatal(failed.log)
	}
	_, path, _ := strings.Cut(failed.log, "The trace: ")
	trace, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(trace), `"client_id":"teller"`) {
		t.Error(err, len(trace))
	}
	_ = os.Remove(path)
}

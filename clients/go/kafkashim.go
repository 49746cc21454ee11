// Package kafkashim starts a Kafka-compatible group coordinator for tests and makes it misbehave on request.
//
// It runs the command kafka-shim (pip install 'kafka-group-shim[cli]') and speaks its control API, docs/http.md.
package kafkashim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Fields are the fields of a JSON object.
type Fields map[string]any

// Coordinator is a process of kafka-shim.
type Coordinator struct {
	// Bootstrap are the addresses of its brokers, HOST:PORT.
	Bootstrap []string
	// Control is the URL of its control server.
	Control string

	process *exec.Cmd
}

// Open starts a coordinator with these options of `kafka-shim serve`; $KAFKA_SHIM is the command if it is not on the
// path. Short session timeouts are allowed, there is no initial rebalance delay and no interval between two assignments,
// and members of the newer kinds of groups send heartbeats every 50 ms. Options of yours come later and win.
func Open(options ...string) (*Coordinator, error) {
	command := os.Getenv("KAFKA_SHIM")
	if command == "" {
		command = "kafka-shim"
	}
	arguments := append([]string{
		"serve", "--lab", "--store", "memory:", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0",
		"--log-level", "error",
		"--config", "group.initial.rebalance.delay.ms=0", "--config", "group.min.session.timeout.ms=1",
		"--config", "group.consumer.assignment.interval.ms=0", "--config", "group.share.assignment.interval.ms=0",
		"--config", "group.streams.assignment.interval.ms=0", "--config", "group.streams.initial.rebalance.delay.ms=0",
		"--config", "group.consumer.heartbeat.interval.ms=50", "--config", "group.share.heartbeat.interval.ms=50",
		"--config", "group.streams.heartbeat.interval.ms=50",
	}, options...)
	process := exec.Command(command, arguments...)
	var errorOutput bytes.Buffer
	process.Stderr = &errorOutput
	output, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("%w (pip install 'kafka-group-shim[cli]', or set KAFKA_SHIM to the command)", err)
	}
	var kafka, control string
	line, _ := bufio.NewReader(output).ReadString('\n')
	if _, err := fmt.Sscanf(line, "ready kafka=%s control=%s", &kafka, &control); err != nil {
		_ = process.Process.Kill()
		_ = process.Wait()
		return nil, errors.New("kafka-shim did not start: " + strings.TrimSpace(errorOutput.String()))
	}
	return &Coordinator{strings.Split(kafka, ","), control, process}, nil
}

// Start opens a coordinator that ends with the test.
func Start(t testing.TB, options ...string) *Coordinator {
	t.Helper()
	coordinator, err := Open(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(coordinator.Close)
	return coordinator
}

// Close ends the process.
func (c *Coordinator) Close() {
	_ = c.process.Process.Signal(os.Interrupt)
	_ = c.process.Wait()
}

// Get gets a path of the control API.
func (c *Coordinator) Get(path string) (Fields, error) {
	return c.ask(http.MethodGet, path, nil)
}

// Post sends an object to a path of the control API.
func (c *Coordinator) Post(path string, body Fields) (Fields, error) {
	return c.ask(http.MethodPost, path, body)
}

// Delete deletes a path of the control API.
func (c *Coordinator) Delete(path string) (Fields, error) {
	return c.ask(http.MethodDelete, path, nil)
}

// Await waits for a condition of a group: stable, owns, empty, committed, event, no-rebalance or no-commit. Its error has the
// history of the group.
func (c *Coordinator) Await(group, what string, fields Fields) (Fields, error) {
	return c.Post("/v1/groups/"+url.PathEscape(group)+"/await", with(fields, Fields{"for": what}))
}

// Puppet adds a scripted member to a group.
func (c *Coordinator) Puppet(group string, topics []string, fields Fields) (Fields, error) {
	return c.Post("/v1/puppets", with(fields, Fields{"group": group, "topics": topics}))
}

// Fault makes the coordinator misbehave; docs/testing.md has the actions.
func (c *Coordinator) Fault(action, api string, fields Fields) (Fields, error) {
	return c.Post("/v1/faults", with(fields, Fields{"action": action, "api": api}))
}

// Advance advances the coordinator's clock, which stands still from then on.
func (c *Coordinator) Advance(seconds float64) error {
	if _, err := c.Post("/v1/clock", Fields{"frozen": true}); err != nil {
		return err
	}
	_, err := c.Post("/v1/clock", Fields{"advance": seconds})
	return err
}

// Story tells what happened after the event of this number, in lines a person reads; 0 tells all.
func (c *Coordinator) Story(since int) ([]string, error) {
	answer, err := c.Get(fmt.Sprintf("/v1/story?since=%d", since))
	if err != nil {
		return nil, err
	}
	lines := []string{}
	for _, line := range answer["story"].([]any) {
		lines = append(lines, line.(string))
	}
	return lines, nil
}

// WriteTrace writes the events so far as a trace file, for `kafka-shim why` and its page.
func (c *Coordinator) WriteTrace(path string) error {
	response, err := http.Get(c.Control + "/v1/trace")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	trace, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	return os.WriteFile(path, trace, 0o600)
}

// storyLines is the number of lines of a story that a failed test shows.
const storyLines = 200

func (c *Coordinator) explain(t testing.TB, since int) {
	story, err := c.Story(since)
	trace, fileErr := os.CreateTemp("", "kafka-shim-*.jsonl")
	if err = errors.Join(err, fileErr); err == nil {
		err = errors.Join(trace.Close(), c.WriteTrace(trace.Name()))
	}
	if err != nil {
		t.Logf("kafka-shim does not tell the story: %v", err)
		return
	}
	if leftOut := len(story) - storyLines; leftOut > 0 {
		story = append([]string{fmt.Sprintf("(%d lines before these)", leftOut)}, story[leftOut:]...)
	}
	t.Logf("the story of the test:\n%s\nThe trace: %s", strings.Join(story, "\n"), trace.Name())
}

// InTest is a coordinator in one test: an error ends the test, and an unused fault fails it. A failed test logs the
// story of its groups and the path of its trace.
type InTest struct {
	*Coordinator
	t testing.TB
}

// In is the coordinator in this test; one coordinator may serve many tests.
func (c *Coordinator) In(t testing.TB) InTest {
	t.Helper()
	server, err := c.Get("/v1/server")
	if err != nil {
		t.Fatal(err)
	}
	newest, _ := server["newest"].(float64)
	t.Cleanup(func() {
		if t.Failed() {
			c.explain(t, int(newest))
		}
	})
	return InTest{c, t}
}

// Get is Coordinator.Get without an error.
func (c InTest) Get(path string) Fields {
	c.t.Helper()
	return c.must(c.Coordinator.Get(path))
}

// Post is Coordinator.Post without an error.
func (c InTest) Post(path string, body Fields) Fields {
	c.t.Helper()
	return c.must(c.Coordinator.Post(path, body))
}

// Delete is Coordinator.Delete without an error.
func (c InTest) Delete(path string) Fields {
	c.t.Helper()
	return c.must(c.Coordinator.Delete(path))
}

// Await is Coordinator.Await without an error.
func (c InTest) Await(group, what string, fields Fields) Fields {
	c.t.Helper()
	return c.must(c.Coordinator.Await(group, what, fields))
}

// Puppet is Coordinator.Puppet without an error.
func (c InTest) Puppet(group string, topics []string, fields Fields) Fields {
	c.t.Helper()
	return c.must(c.Coordinator.Puppet(group, topics, fields))
}

// Fault is Coordinator.Fault without an error; the test fails if the fault is not used. It returns its path.
func (c InTest) Fault(action, api string, fields Fields) string {
	c.t.Helper()
	path := fmt.Sprintf("/v1/faults/%v", c.must(c.Coordinator.Fault(action, api, fields))["fault"])
	c.t.Cleanup(func() {
		if fired := c.Delete(path)["fired"]; fired == 0.0 {
			c.t.Errorf("never happened: %s %s %v", action, api, fields)
		}
	})
	return path
}

// Advance is Coordinator.Advance without an error; the clock goes on when the test ends.
func (c InTest) Advance(seconds float64) {
	c.t.Helper()
	if err := c.Coordinator.Advance(seconds); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { c.Post("/v1/clock", Fields{"frozen": false}) })
}

func (c InTest) must(answer Fields, err error) Fields {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
	return answer
}

func with(fields, more Fields) Fields {
	all := Fields{}
	for _, each := range []Fields{fields, more} {
		for name, value := range each {
			all[name] = value
		}
	}
	return all
}

func (c *Coordinator) ask(method, path string, body Fields) (Fields, error) {
	var content bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&content).Encode(body); err != nil {
			return nil, err
		}
	}
	request, err := http.NewRequest(method, c.Control+path, &content)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer Fields
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if response.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s %s: %v", method, path, answer["message"])
	}
	return answer, nil
}

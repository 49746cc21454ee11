// Package kafkashim starts a Kafka-compatible group coordinator for tests and has it misbehave on request.
//
// It runs the command kafka-shim (pip install kafka-group-shim) and speaks its control API, docs/http.md.
package kafkashim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Fields are those of a JSON object.
type Fields map[string]any

// Coordinator is a process of kafka-shim.
type Coordinator struct {
	// Bootstrap are the addresses of its brokers, HOST:PORT.
	Bootstrap []string
	// Control is the URL of its control server.
	Control string

	process *exec.Cmd
}

// Open starts a coordinator with more options of `kafka-shim serve`; $KAFKA_SHIM is the command if it is not on the
// path. Sessions may be short, and the first round of a group does not wait.
func Open(options ...string) (*Coordinator, error) {
	command := os.Getenv("KAFKA_SHIM")
	if command == "" {
		command = "kafka-shim"
	}
	arguments := append([]string{
		"serve", "--lab", "--store", "memory:", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0",
		"--log-level", "error",
		"--config", "group.initial.rebalance.delay.ms=0", "--config", "group.min.session.timeout.ms=1",
	}, options...)
	process := exec.Command(command, arguments...)
	var errorOutput bytes.Buffer
	process.Stderr = &errorOutput
	output, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("%w (pip install kafka-group-shim, or set KAFKA_SHIM to the command)", err)
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

// Get asks for a path of the control API.
func (c *Coordinator) Get(path string) (Fields, error) {
	return c.ask(http.MethodGet, path, nil)
}

// Post sends an object to a path of the control API.
func (c *Coordinator) Post(path string, body Fields) (Fields, error) {
	return c.ask(http.MethodPost, path, body)
}

// Delete removes what a path of the control API names.
func (c *Coordinator) Delete(path string) (Fields, error) {
	return c.ask(http.MethodDelete, path, nil)
}

// Await waits for what becomes of a group: stable, owns, empty, committed, event or no-rebalance. Its error has the
// story of the group.
func (c *Coordinator) Await(group, what string, fields Fields) (Fields, error) {
	return c.Post("/v1/groups/"+url.PathEscape(group)+"/await", with(fields, Fields{"for": what}))
}

// Puppet adds a scripted member to a group.
func (c *Coordinator) Puppet(group string, topics []string, fields Fields) (Fields, error) {
	return c.Post("/v1/puppets", with(fields, Fields{"group": group, "topics": topics}))
}

// Fault makes the coordinator misbehave: error, delay, drop, swallow, close, duplicate, half-open or slow.
func (c *Coordinator) Fault(action, api string, fields Fields) (Fields, error) {
	return c.Post("/v1/faults", with(fields, Fields{"action": action, "api": api}))
}

// Advance moves the coordinator's clock, which stands still from then on.
func (c *Coordinator) Advance(seconds float64) error {
	if _, err := c.Post("/v1/clock", Fields{"frozen": true}); err != nil {
		return err
	}
	_, err := c.Post("/v1/clock", Fields{"advance": seconds})
	return err
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

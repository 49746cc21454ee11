package billing

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// fields are those of a JSON object.
type fields map[string]any

// coordinator is one for tests: a process of kafka-shim, and its control API over HTTP.
type coordinator struct {
	bootstrap []string
	control   string
	process   *exec.Cmd
}

// startCoordinator starts it, with more options of `kafka-shim serve`; $KAFKA_SHIM is the command if it is not on the
// path.
func startCoordinator(options ...string) (*coordinator, error) {
	command := os.Getenv("KAFKA_SHIM")
	if command == "" {
		command = "kafka-shim"
	}
	arguments := append([]string{
		"serve", "--lab", "--store", "memory:", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0",
		"--config", "group.initial.rebalance.delay.ms=0", "--config", "group.min.session.timeout.ms=1",
	}, options...)
	process := exec.Command(command, arguments...)
	output, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	var kafka, control string
	line, _ := bufio.NewReader(output).ReadString('\n')
	if _, err := fmt.Sscanf(line, "ready kafka=%s control=%s", &kafka, &control); err != nil {
		return nil, fmt.Errorf("kafka-shim does not start: %q", line)
	}
	return &coordinator{strings.Split(kafka, ","), control, process}, nil
}

func (c *coordinator) stop() {
	_ = c.process.Process.Signal(os.Interrupt)
	_ = c.process.Wait()
}

func (c *coordinator) ask(t *testing.T, method, path string, body any) map[string]any {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequest(method, c.control+path, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer map[string]any
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		// The message of an await in vain tells the story of the group.
		t.Fatal(answer["message"])
	}
	return answer
}

func (c *coordinator) get(t *testing.T, path string) map[string]any {
	t.Helper()
	return c.ask(t, "GET", path, nil)
}

func (c *coordinator) post(t *testing.T, path string, body fields) map[string]any {
	t.Helper()
	return c.ask(t, "POST", path, body)
}

// await waits for what becomes of a group: stable, owns, empty, committed, event or no-rebalance.
func (c *coordinator) await(t *testing.T, group, what string, body fields) map[string]any {
	t.Helper()
	body["for"] = what
	return c.ask(t, "POST", "/v1/groups/"+url.PathEscape(group)+"/await", body)
}

// puppet is a scripted member of a group of topic orders.
func (c *coordinator) puppet(t *testing.T, group string, body fields) map[string]any {
	t.Helper()
	body["group"] = group
	body["topics"] = []string{"orders"}
	return c.ask(t, "POST", "/v1/puppets", body)
}

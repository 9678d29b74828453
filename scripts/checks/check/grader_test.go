// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package check_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/faults"
	"lva.io/operators/scripts/grading/operatorlog"
	"lva.io/operators/scripts/grading/protocol"
)

// run is a run of a suite.
type run struct {
	t      *testing.T
	events []protocol.Event
	output string
	err    error
	took   time.Duration
}

// grader plays the grader for a suite. It has an audit log, and a socket with requests to stop and start the operator,
// to inject faults, and to read a submission.
type grader struct {
	t     *testing.T
	audit string

	mutex sync.Mutex
	asked []string
	// stop is called when the suite stops the operator.
	stop func() error
	// last is when the operator last sent a request. Nil: never.
	last func() time.Time
	// onArm returns the requests that the operator sends at once under a schedule. Nil: none.
	onArm func(faults.Schedule) []faults.Entry
	log   []faults.Entry
	armed []string
	// files are the files of the submission, and scripts are the results of its scripts by their arguments.
	files   map[string]string
	scripts map[string]func(args string) protocol.Output
	// noOperator means that the lab runs no operator, so no socket listens.
	noOperator bool
	// aggregated means that the operator is an aggregated API server.
	aggregated bool
	// usage returns the CPU usage of the operator's process, and errors returns the errors of Reconcile.
	usage  func() protocol.Usage
	errors []operatorlog.Error
	// seed and torturedWith are Seed and Torture of protocol.Run.
	seed         uint32
	torturedWith *int
	// first is First of protocol.Run.
	first      string
	notStarted []int
	// scenes is Scenes of protocol.Run.
	scenes bool
}

func newGrader(t *testing.T) *grader {
	t.Helper()
	g := &grader{t: t, audit: filepath.Join(t.TempDir(), "audit.log")}
	g.write(t, g.audit, "")
	return g
}

func (g *grader) write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// audited appends requests of a user to the audit log.
func (g *grader) audited(user, verb string, count int) error {
	return g.auditedAt(time.Now(), user, verb, count)
}

func (g *grader) auditedAt(when time.Time, user, verb string, count int) error {
	return g.answeredAt(when, user, verb, http.StatusOK, count)
}

func (g *grader) answeredAt(when time.Time, user, verb string, code, count int) error {
	var lines strings.Builder
	for n := range count {
		fmt.Fprintf(&lines, `{"verb":%q,"user":{"username":%q},"objectRef":{"resource":"icecreams","name":"sundae-%d"},`+
			`"responseStatus":{"code":%d},"requestReceivedTimestamp":%q}`+"\n",
			verb, user, n+1, code, when.UTC().Format("2006-01-02T15:04:05.000000Z"))
	}
	return g.appendAudit(lines.String())
}

func (g *grader) appendAudit(lines string) error {
	file, err := os.OpenFile(g.audit, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(lines)
	return errors.Join(err, file.Close())
}

// auditAlways logs a request as the last one, of a moment ago, for an hour. It represents an endless sequence of
// requests, in which not even a busy machine can cause a pause.
func (g *grader) auditAlways(user, verb string) {
	if err := g.auditedAt(time.Now().Add(time.Hour), user, verb, 1); err != nil {
		g.t.Fatal(err)
	}
}

// auditEvery logs a request of a user again and again, until the test ends.
func (g *grader) auditEvery(interval time.Duration, user, verb string) {
	ticker := time.NewTicker(interval)
	var group sync.WaitGroup
	end := make(chan struct{})
	group.Go(func() {
		for {
			select {
			case <-ticker.C:
				if err := g.audited(user, verb, 1); err != nil {
					g.t.Error(err)
				}
			case <-end:
				return
			}
		}
	})
	g.t.Cleanup(func() { ticker.Stop(); close(end); group.Wait() })
}

func (g *grader) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	answer, err := g.answer(r)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		http.Error(w, err.Error(), http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		_, _ = w.Write(answer)
	}
}

func (g *grader) answer(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	switch r.URL.Path {
	case protocol.LastAction:
		last := time.Time{}
		if g.last != nil {
			last = g.last()
		}
		return json.Marshal(last)
	case protocol.OperatorUsage:
		usage := protocol.Usage{}
		if g.usage != nil {
			usage = g.usage()
		}
		return json.Marshal(usage)
	case protocol.OperatorLog:
		return json.Marshal(protocol.Logged{Size: 100, Errors: g.errors})
	case protocol.FaultLog:
		after, err := strconv.Atoi(r.URL.Query().Get(protocol.Since))
		if err != nil {
			return nil, err
		}
		return json.Marshal(slices.Clip(g.log[min(after, len(g.log)):]))
	}
	g.asked = append(g.asked, r.Method+" "+r.URL.Path)
	switch name := strings.TrimPrefix(r.URL.Path, protocol.Submission); {
	case r.URL.Path == protocol.StopOperator && g.stop != nil:
		return nil, g.stop()
	case r.URL.Path == protocol.Arm:
		var schedule faults.Schedule
		if err := json.Unmarshal(body, &schedule); err != nil {
			return nil, err
		}
		g.armed = append(g.armed, schedule.String())
		if g.onArm != nil {
			for _, entry := range g.onArm(schedule) {
				entry.ID = len(g.log) + 1
				g.log = append(g.log, entry)
			}
		}
	case name == r.URL.Path: // it is none of the submission
	case r.Method == http.MethodPost:
		script, ok := g.scripts[name]
		if !ok {
			return nil, fmt.Errorf("opening %s: %w", name, fs.ErrNotExist)
		}
		return json.Marshal(script(string(body)))
	case name == "secret":
		return nil, errors.New("reading secret: permission denied")
	default:
		content, ok := g.files[name]
		if !ok {
			return nil, fmt.Errorf("opening %s: %w", name, fs.ErrNotExist)
		}
		return []byte(content), nil
	}
	return nil, nil
}

// run runs a suite with these checks listed in labs.yaml: "id", "id<need" or "id>cause,cause".
func (g *grader) run(suite string, listed ...string) run {
	g.t.Helper()
	dir := g.t.TempDir()
	lab := manifest.Lab{Name: "01-shop", Aggregated: g.aggregated}
	for _, name := range listed {
		id, need, _ := strings.Cut(name, "<")
		lab.Checks = append(lab.Checks, manifest.Check{ID: id, Title: "the title of " + id, Points: 10})
		listed := &lab.Checks[len(lab.Checks)-1]
		listed.Step = len(lab.Checks)
		if need != "" {
			listed.Needs = []string{need}
		}
		if id, causes, found := strings.Cut(id, ">"); found {
			listed.ID, listed.Title, listed.Causes = id, "the title of "+id, strings.Split(causes, ",")
		}
	}
	socket := filepath.Join(dir, "control")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		g.t.Fatal(err)
	}
	server := &http.Server{Handler: g}
	go func() { _ = server.Serve(listener) }() // Close ends it
	g.t.Cleanup(func() { server.Close() })
	kubeconfig := filepath.Join(dir, "kubeconfig")
	g.write(g.t, kubeconfig, `{"clusters":[{"name":"x","cluster":{"server":"https://127.0.0.1:1"}}],`+
		`"contexts":[{"name":"x","context":{"cluster":"x"}}],"current-context":"x"}`)
	if g.noOperator {
		socket = ""
	}
	content, err := json.Marshal(protocol.Run{
		Lab: lab, Kubeconfig: kubeconfig, AuditLog: g.audit, OperatorUser: operator,
		Webhooks: []string{"shop"}, Control: socket, Seed: g.seed, Torture: g.torturedWith, Scenes: g.scenes,
		First: g.first, NotStarted: g.notStarted,
	})
	if err != nil {
		g.t.Fatal(err)
	}
	file := filepath.Join(dir, "run.json")
	g.write(g.t, file, string(content))
	return start(g.t, ".", suiteVariable+"="+suite, protocol.RunVariable+"="+file)
}

// start runs TestSuite in its own process, in a folder, and reads its events.
func start(t *testing.T, dir string, variables ...string) run {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	var output strings.Builder
	command := exec.CommandContext(t.Context(), program, "-test.run=^TestSuite$", "-test.v")
	command.Dir, command.Env, command.ExtraFiles = dir, append(os.Environ(), variables...), []*os.File{write}
	command.Stdout, command.Stderr = &output, &output
	r := run{t: t}
	began := time.Now()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	for decoder := json.NewDecoder(read); ; {
		var event protocol.Event
		if err := decoder.Decode(&event); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("reading the events: %v", err)
		}
		r.events = append(r.events, event)
	}
	r.err, r.took, r.output = command.Wait(), time.Since(began), output.String()
	return r
}

// ended returns the event that reports the end of a check.
func (r run) ended(id string) protocol.Event {
	r.t.Helper()
	for _, event := range r.events {
		if event.Check == id && event.Status != "" {
			return event
		}
	}
	r.t.Fatalf("the check %s did not end: the checks reported %+v and printed\n%s", id, r.events, r.output)
	return protocol.Event{}
}

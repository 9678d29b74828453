// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/filelock"
	"lva.io/operators/clusters/longtest"
	"lva.io/operators/clusters/node"
	"lva.io/operators/clusters/openfiles"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/stage/own"
)

func TestSubmissions(t *testing.T) {
	t.Parallel()
	type row struct {
		name    string
		outcome report.Outcome
		// reason, log and notice are regular expressions that match the reason, the operator's last lines and one of the
		// notices.
		reason, log, notice string
		// diagnostics are the prefixes of the diagnostics, with their positions.
		diagnostics []string
		// failed is the first check that failed, and evidence a regular expression that matches its evidence.
		failed, evidence string
		// observed is what that check observed. Default: anything.
		observed string
		// forbidden is the marker for everything that the operator was forbidden.
		forbidden string
		change    func(*Options)
	}
	for _, test := range longtest.First([]row{
		{
			name: "does-not-compile", outcome: report.NotBuilt, reason: "^it does not compile$",
			diagnostics: []string{
				"cmd/behaviour.go:3:18 undefined: watch", "cmd/behaviour.go:5:36 declared and not used: count",
				"cmd/behaviour.go:5:48 cannot use name",
			},
		},
		{name: "no-module", outcome: report.NotBuilt, reason: "has no go.mod: name the folder of a Go module"},
		{
			name: "no-program", outcome: report.NotBuilt,
			reason: "there is no program: package main must be in cmd/ or in the module's root",
		},
		{
			name: "missing-module", outcome: report.NotBuilt, reason: "are not on this machine: grade it with --fetch",
			diagnostics: []string{"cmd/behaviour.go:3:8 "},
		},
		{
			name: "untidy", outcome: report.NotBuilt, reason: "run `go mod tidy` in its folder",
			diagnostics: []string{"cmd/behaviour.go:3:8 cannot find module"},
		},
		{
			name: "no-sums", outcome: report.NotBuilt, reason: "^its go.sum lacks modules that it needs: run `go mod tidy`",
			diagnostics: []string{
				"cmd/behaviour.go:4:2 missing go.sum entry", "cmd/behaviour.go:5:2 missing go.sum entry",
				"cmd/behaviour.go:6:2 missing go.sum entry",
			},
		},
		{
			name: "old-go", outcome: report.Graded, failed: "toppings-count", log: "watching",
			notice: "^its go.mod says go 1.20: before 1.22 all rounds of a loop share one variable",
		},
		{
			name: "bad-marker-and-code", outcome: report.NotBuilt, reason: "^it does not compile$",
			diagnostics: []string{"cmd/behaviour.go:5:18 undefined: watch"},
		},
		{
			name: "bad-marker-and-code", outcome: report.NotGenerated,
			reason: "^no manifests can be generated from its markers$",
			diagnostics: []string{
				`cmd/behaviour.go:3:1 unknown argument "verb"`, "cmd/behaviour.go:3:1 extra arguments",
				`cmd/behaviour.go:3:1 missing argument "verbs"`,
			},
			change: func(o *Options) { o.BuildGrace, o.BuildCache = time.Second, endless(t) },
		},
		{
			name: "newer-go", outcome: report.NotBuilt, reason: "asks for a newer Go",
			diagnostics: []string{" go: go.mod requires go >= 1.99"},
		},
		{
			name: "bad-marker", outcome: report.NotGenerated, reason: "^no manifests can be generated from its markers$",
			diagnostics: []string{
				`cmd/behaviour.go:3:1 unknown argument "verb"`, "cmd/behaviour.go:3:1 extra arguments",
				`cmd/behaviour.go:3:1 missing argument "verbs"`,
			},
		},
		{
			name: "bad-marker-committed", outcome: report.Graded, failed: "toppings-count", log: "watching: 200 OK",
			notice: `^controller-gen fails on the markers, so what is committed in config/ was used: ` +
				`cmd/behaviour.go:3:1: unknown argument "verb"`,
		},
		{
			name: "refused-definition", outcome: report.NotGenerated,
			reason: `^the API server refuses the CustomResourceDefinition icecreams\.demo\.lva\.io: .*"delicious"`,
		},
		{
			name: "no-such-field", outcome: report.NotGenerated,
			reason: `^the API server refuses the CustomResourceDefinition icecreams\.demo\.lva\.io: .*flavour`,
		},
		{
			name: "refused-role", outcome: report.NotGenerated,
			reason: `^the API server refuses the ClusterRole manager-role: .*verbs`,
		},
		{
			name: "crashes-at-start", outcome: report.NotStarted,
			reason: `^it ended before it listed or watched anything at the API server: exit status 2; ` +
				`it panicked: the freezer is empty, at cmd/behaviour\.go:3$`,
			log: `(?s)^panic: the freezer is empty\n.*behaviour\.go:3`,
		},
		{
			name: "ends-at-start", outcome: report.NotStarted,
			reason: "^it ended before it listed or watched anything at the API server: exit status 0$",
			log:    "^all icecreams are right$",
		},
		{
			name: "hangs", outcome: report.NotStarted,
			reason: "^it ran for 1.5s without listing or watching anything at the API server: does main start the manager",
			log:    "^waiting for icecreams$",
			change: func(o *Options) { o.StartTimeout = 1500 * time.Millisecond },
		},
		{name: "namespaced", outcome: report.Graded, failed: "served", observed: "^icecreams are namespaced$"},
		{
			name: "another-group", outcome: report.Graded, failed: "served",
			observed: `^there is no CustomResourceDefinition icecreams\.demo\.lva\.io$`,
		},
		{
			name: "another-version", outcome: report.Graded, failed: "served",
			observed: "^it does not serve the version demo.lva.io/v1: ",
		},
		{
			name: "another-kind", outcome: report.Graded, failed: "served",
			observed: "^the kind is IceCream; icecreams are namespaced$",
		},
		{
			name: "other-fields", outcome: report.Graded, failed: "sample",
			observed: `^spec is map\[flavour:`,
		},
		{
			name: "ends-silently", outcome: report.NotStarted,
			reason: "exit status 1, and its log is empty: let main print why it ends",
		},
		{
			name: "wants-a-command", outcome: report.NotStarted,
			reason: "exit status 0. It printed its commands, and was started without one: name it in the Deployment",
			log:    "start +Start the operator",
		},
		{
			name: "in-cluster-only", outcome: report.Error,
			reason: "^the operator runs only as a Pod in a cluster .*: grade it on a kind cluster, with --cluster kind, " +
				"or make it load its configuration from KUBECONFIG",
			log: "in-cluster",
		},
		{
			name: "elects-in-its-namespace", outcome: report.Error,
			reason: "with --cluster kind, or set LeaderElectionNamespace in main", log: "leader election namespace",
		},
		{
			name: "takes-a-port", outcome: report.Error,
			reason: "^port 18081, on which the operator listens, is in use by another program on this machine: end that program",
			log:    "address already in use",
			change: func(*Options) { occupy(t, ":18081") },
		},
		{
			name: "takes-a-port-late", outcome: report.Error,
			reason: "^port 18082, on which the operator listens, is in use by another program on this machine: end that program",
			log:    "address already in use",
			change: func(*Options) { occupy(t, ":18082") },
		},
		{
			name: "awaits-a-lease", outcome: report.NotStarted,
			reason: "^it waits for leader election, but its role does not allow it to use the Lease", log: "error retrieving",
			change:    func(o *Options) { o.StartTimeout = 1500 * time.Millisecond },
			forbidden: "// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=shop,resources=leases,verbs=get;create;update",
		},
		{
			name: "floods-at-start", outcome: report.Flooded, reason: "^it wrote more than 8 MB into its log",
			log: "again, and again\n",
		},
		{
			name: "floods-at-an-icecream", outcome: report.Flooded, log: "reconciling sundae", failed: "toppings-count",
			reason: "^it wrote more than 8 MB into its log: it does the same thing over and over; " +
				"most often: Reconcile returned the same error [0-9]+ times: reconciling sundae",
			evidence: "^Reconcile returned the same error [0-9]+ times: reconciling sundae",
		},
		{
			name: "crashes-at-an-icecream", outcome: report.Crashed,
			reason: `^it ended by itself: exit status 2; ` +
				`it panicked: index out of range \[0\] with length 0, at cmd/behaviour\.go:9$`,
			log: "(?s)panic: runtime error: index out of range.*behaviour.go:9", failed: "toppings-count",
			evidence: `^the operator panicked: index out of range \[0\] with length 0, at cmd/behaviour\.go:9$`,
		},
		{
			name: "panics-and-goes-on", outcome: report.Graded, log: "Observed a panic", failed: "toppings-count",
			evidence: `^the operator panicked [0-9]+ times: index out of range \[6\] with length 0, at cmd/behaviour\.go:27\n` +
				`Reconcile returned (an error|the same error [0-9] times): write the status of sundae: it is locked\n` +
				`the operator has sent no request`,
		},
		{
			name: "base", outcome: report.TimedOut, reason: "^the checks did not finish within 1s$",
			log: "watching: 200 OK", failed: "toppings-count",
			change: func(o *Options) {
				lab := *o.Lab
				lab.TimeLimit = metav1.Duration{Duration: time.Second}
				o.Lab = &lab
			},
		},
		{
			name: "flags-of-2019", outcome: report.Graded,
			log: `(?s)^arguments \[--metrics-addr=0\] metrics at 0\nwatching`, failed: "toppings-count",
		},
		{name: "no-flags", outcome: report.Graded, log: `(?s)^arguments \[\]\nwatching`, failed: "toppings-count"},
		{name: "ignores-the-end", outcome: report.Graded, log: "watching", failed: "toppings-count"},
	}) {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			options := options(t, "2", unpack(t, test.name))
			if len(test.diagnostics) > 0 {
				options.Start = noCluster // the run ends before it needs one
			}
			if test.change != nil {
				test.change(&options)
			}
			got := grade(t.Context(), t, options)
			if got.Outcome != test.outcome {
				t.Errorf("outcome is %s, want %s", got.Outcome, test.outcome)
			}
			match(t, "the reason", got.Reason, test.reason)
			match(t, "the operator's log", strings.Join(got.OperatorLog, "\n"), test.log)
			match(t, "the notices", strings.Join(got.Notices, "\n"), test.notice)
			var markers []string
			for _, f := range got.Forbidden {
				markers = append(markers, f.Marker)
			}
			if forbidden := strings.Join(markers, "\n"); forbidden != test.forbidden {
				t.Errorf("forbidden is %q, want %q", forbidden, test.forbidden)
			}
			var diagnostics []string
			for _, d := range got.Diagnostics {
				diagnostics = append(diagnostics, d.Position()+" "+d.Message)
			}
			if !slices.EqualFunc(diagnostics, test.diagnostics, strings.HasPrefix) {
				t.Errorf("diagnostics are %q, want ones that begin with %q", diagnostics, test.diagnostics)
			}
			failed := ""
			if first := got.Explained(); first != nil {
				failed = first.ID
				if test.observed != "" {
					match(t, "the observation", first.Observed, test.observed)
				}
				if test.evidence != "" {
					match(t, "the evidence", strings.Join(first.Evidence, "\n"), test.evidence)
				}
			}
			if failed != test.failed || got.Score != 0 {
				t.Errorf("first failed check is %q, want %q; score is %d", failed, test.failed, got.Score)
			}
		})
	}
}

// occupy listens at an address, unless another program already does.
func occupy(t *testing.T, address string) {
	t.Helper()
	if listener, err := net.Listen("tcp", address); err == nil {
		t.Cleanup(func() { listener.Close() })
	}
}

// endless returns a folder for built programs in which no build ends, because another build holds the lock.
func endless(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	unlock, err := filelock.Wait(t.Context(), filepath.Join(dir, "operator.lock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(unlock)
	return dir
}

func TestInterruptedRuns(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	for _, test := range []struct{ name, when string }{
		{"hangs", "build"},
		{"hangs", "start a cluster"},
		{"hangs", "install the API"},
		{"hangs", "start the operator"},
		{"base", "toppings-count"},
	} {
		t.Run(test.when, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			options := alone(t, options(t, "2", unpack(t, test.name)))
			options.View = witness{begins: func(what string) {
				if what == test.when {
					cancel(errors.New("Ctrl-C"))
				}
			}}
			got := grade(ctx, t, options)
			if got.Outcome != report.Interrupted || got.Reason != "it ended before all checks had run" {
				t.Errorf("outcome is %s: %s", got.Outcome, got.Reason)
			}
			// The operator's last lines, such as a stack, do not explain the end of the run.
			if len(got.OperatorLog) > 0 {
				t.Errorf("the report shows the operator's log: %q", got.OperatorLog)
			}
			// A Ctrl-C is no verdict on the check that was running.
			if got.Count(report.Skipped) != len(got.Checks) {
				t.Errorf("checks are %+v, want all of them skipped", got.Checks)
			}
		})
	}
}

// An error of the grader is not the submission's fault, and no verdict on it.
func TestGraderErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(*Options)
		reason string
	}{
		{"no cluster", func(o *Options) {
			o.Start = own.Start(func(context.Context) (*embedded.Cluster, error) { return nil, errors.New("no port is free") })
		}, "^the grader itself failed: no port is free$"},
		{"too few open files", func(o *Options) {
			o.Start = own.Start(func(context.Context) (*embedded.Cluster, error) {
				return nil, fmt.Errorf("starting a cluster: %w", &openfiles.Error{Limit: 64})
			})
		}, "^the system allows a program 64 open files, and a cluster needs [0-9]+: raise the hard limit .`ulimit -n "},
		{"no controller-gen", func(o *Options) {
			o.ControllerGen, o.Start = "/nowhere/controller-gen", noCluster
		}, "^the grader itself failed: /nowhere/controller-gen is needed"},
		{"no node", func(o *Options) {
			o.Start = own.Start(func(context.Context) (*embedded.Cluster, error) {
				return nil, fmt.Errorf("starting a node: %w", &node.Unavailable{
					Reason: "AppArmor forbids it", Remedy: "let root allow it",
				})
			})
		}, "^lab 2 needs Pods, and none can run on this machine: AppArmor forbids it: let root allow it$"},
		{"no node, and a part of the checks need none", func(o *Options) {
			lab := *o.Lab
			lab.Node, lab.Checks = true, slices.Clone(lab.Checks)
			lab.Checks[0].Node = true
			o.Lab = &lab
			o.Start = own.Start(func(context.Context) (*embedded.Cluster, error) {
				return nil, &node.Unavailable{Reason: "no namespaces"}
			})
		}, "^lab 2 needs Pods, and none can run on this machine: no namespaces; " +
			"with --without-node, only the checks that need no Pod are graded$"},
		{
			"no folder for the log", func(o *Options) { o.OperatorLog = "/nowhere/operator.log" },
			"^the grader itself failed: creating the operator's log",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			options := options(t, "2", unpack(t, "base"))
			test.change(&options)
			got := grade(t.Context(), t, options)
			if got.Outcome != report.Error || got.Score != 0 {
				t.Errorf("outcome is %s with %d points", got.Outcome, got.Score)
			}
			match(t, "the reason", got.Reason, test.reason)
		})
	}
}

// A script stands in for faulty checks: it prints the checks' events and ends.
func TestErrorsOfChecks(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, script string
		reason       string
		score        int
	}{
		{
			"they panic", `echo '{"check":"open"}' >&3; echo 'panic: a mistake of ours' >&2; exit 2`,
			`(?s)^the grader itself failed: the checks ended before open: panic: a mistake of ours$`, 0,
		},
		{"they stop too early", `echo '{"check":"open","status":"passed"}' >&3`, "the checks ended before clean", 60},
		{
			"they report an unlisted check", `echo '{"check":"cosy","status":"passed"}' >&3`,
			`the checks reported "cosy", which labs.yaml does not list`, 0,
		},
		{
			"they leave a folder", `mktemp -d >&2; kill -9 $$`,
			"^the grader itself failed: the checks ended before open: .*/tmp", 0,
		},
		{
			"they cannot run here", `echo '{"check":"open","prevented":"the cluster has no node"}' >&3`,
			"^the cluster has no node$", 0,
		},
		{"they write no JSON", "echo hm >&3", "reading the events of the checks", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := judged(t, Options{Lab: shop()}, test.script)
			if got.Outcome != report.Error || got.Score != test.score {
				t.Errorf("outcome is %s with %d points", got.Outcome, got.Score)
			}
			match(t, "the reason", got.Reason, test.reason)
		})
	}
}

func TestUntilFailedEndsAtFirstFailure(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	const script = "echo '{\"check\":\"%s\",\"status\":\"%s\"}' >&3\nsleep 1\n" +
		"echo '{\"check\":\"%s\",\"status\":\"passed\"}' >&3\n"
	for status, want := range map[string]report.Status{"failed": report.Skipped, "passed": report.Passed} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			got := judged(t, Options{Lab: shop(), UntilFailed: true}, fmt.Sprintf(script, "open", status, "clean"))
			if got.Outcome != report.Graded || string(got.Checks[0].Status) != status || got.Checks[1].Status != want {
				t.Errorf("outcome is %s (%s) with %+v", got.Outcome, got.Reason, got.Checks)
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/submission"
)

// verdicts are the expected results: for each check that must fail, a regular expression for what it observed, and
// the checks that are skipped. All others pass.
type verdicts struct {
	fails   map[string]string
	skipped []string
	// either are checks whose result for this operator depends on timing, because it decides by its stale cache.
	either []string
}

func (want verdicts) compare(t *testing.T, got *report.Report) {
	t.Helper()
	if got.Outcome != report.Graded {
		t.Fatalf("outcome is %s: %s %v\n%s", got.Outcome, got.Reason, got.Diagnostics, strings.Join(got.OperatorLog, "\n"))
	}
	found := 0
	for _, check := range got.Checks {
		expression, must := want.fails[check.ID]
		switch {
		case slices.Contains(want.either, check.ID):
		case must != (check.Status == report.Failed):
			t.Errorf("%s %s: %s %s", check.ID, check.Status, check.Observed, check.Reason)
		case must:
			found++
			match(t, "the observation of "+check.ID, check.Observed, expression)
			if len(check.Evidence) == 0 {
				t.Errorf("%s has no evidence", check.ID)
			}
		case (check.Status == report.Skipped) != slices.Contains(want.skipped, check.ID):
			t.Errorf("%s %s: %s", check.ID, check.Status, check.Reason)
		}
	}
	if found != len(want.fails) {
		t.Errorf("found %d of %d checks that must fail in the report", found, len(want.fails))
	}
}

// copyOperator copies a third-party operator to a folder outside this repository, where it would be on a user's disk.
func copyOperator(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "operators", name))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// spareCreate matches what is observed for a role as scaffolds create it.
const spareCreate = `^it allows icecreams\.demo\.lva\.io \(create\b.*\), which no request`

// Each of these is compiled with modules of its year, which takes minutes if Go's build cache is empty.
func TestThirdPartyOperators(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	type row struct {
		name string
		test func(*testing.T)
	}
	for _, test := range []row{
		{"icecream operator of 2023", testIcecreamOperator014},
		{"Lolcow operator of 2022", testLolcowOperator},
		{"icecream operator of 2024", testIcecreamOperator019},
		{"operator of the lecture", testLectureOperator},
		{"operator without markers", testSuggestedMarkers},
		{"server of the library", testLibraryServer},
	} {
		t.Run(test.name, test.test)
	}
}

// An operator of early 2023: see testdata/operators/icecream-v0.14/README.md.
func testIcecreamOperator014(t *testing.T) {
	t.Helper()
	t.Parallel()
	options := options(t, "2", copyOperator(t, "icecream-v0.14"))
	options.Fetch = true
	got := grade(t.Context(), t, options)
	verdicts{
		fails: map[string]string{
			"per-flavour": "^there are ", "settles": "writes that change nothing", "least-privilege": spareCreate,
		},
		skipped: []string{
			"newest-goes", "ties-by-name", "two-flavours", "sold-out",
			"place-frees", "burst", "restart", "old-news", "story", "bad-day",
		},
	}.compare(t, got)
	if s := got.Submission; s.ControllerRuntime != "v0.14.1" ||
		s.Module != "example.com/icecream-operator" || s.Go != "1.19" {
		t.Errorf("submission is %+v", s)
	}
}

// The Lolcow operator of the lecture, as of 2022: see testdata/operators/lolcow-v0.12/README.md.
func testLolcowOperator(t *testing.T) {
	t.Helper()
	t.Parallel()
	configure := besideNode(t)
	options := options(t, "8", copyOperator(t, "lolcow-v0.12"))
	options.Fetch = true
	configure(&options)
	got := grade(t.Context(), t, options)
	const noDegraded = `^\S+ has no condition Degraded `
	verdicts{
		fails: map[string]string{
			"deleted-child": `^\S+ has no Service `, "drift-template": `^the (image|template) of the Deployment `,
			"drift-service": "^the (Service|selector of the Service) ",
			"others-fields": "^spec.replicas, which an autoscaler set to [0-9], is 1; ",
			"any-greeting":  `^it says: \$5 `, "fortune": `^it says: Moo\. `,
			"available": `^\S+ has no condition Available `,
			"quota":     noDegraded, "port-range": noDegraded, "port-taken": noDegraded,
			"leader": "^there is no such file$", "namespaced": "^there is no config/namespaced/kustomization.yaml$",
			"least-privilege": "^it allows ",
		},
		skipped: []string{"degraded-image", "degraded-crash", "events", "restart", "story", "metrics", "bad-day"},
	}.compare(t, got)
	if s := got.Submission; s.ControllerRuntime != "v0.12.3" ||
		s.Module != "example.com/lolcow-operator" || s.Go != "1.18" {
		t.Errorf("submission is %+v", s)
	}
}

// An operator of the autumn of 2024, with a finalizer and webhooks: see testdata/operators/icecream-v0.19/README.md.
func testIcecreamOperator019(t *testing.T) {
	t.Helper()
	t.Parallel()
	dir := copyOperator(t, "icecream-v0.19")
	cache := t.TempDir() // it is built once
	for _, test := range []struct {
		lab  string
		want verdicts
	}{
		{"2", verdicts{
			fails: map[string]string{
				"sold-out": `^status\.soldOut of kiwi-1 \(kiwi\) is false`, "least-privilege": spareCreate,
				"old-news": `^acai-\d-4 was deleted `,
			},
			skipped: []string{"place-frees", "story", "bad-day"},
		}},
		{"3", verdicts{
			fails: map[string]string{
				"taken": "^the freezer has booked nothing for blackberry .*: " +
					"the operator has not sent the freezer any request",
				"least-privilege": spareCreate,
				"dying-untouched": "^the operator tried to: .* update icecreams nougat → 422 Unprocessable Entity",
				"foreign-finalizer": "^the freezer has booked nothing for physalis .*: " +
					"the operator has not sent the freezer any request",
				"zombie-explained": "^there is no such file in the submission",
				"zombie-freed":     "^there is no such file in the submission",
			},
			skipped: []string{
				"finalizer-first", "returned", "toppings-first", "freezer-down", "backs-off",
				"condition", "no-answer", "movement-id",
				"killed-between", "two-at-once", "settles", "old-news", "story", "bad-day",
			},
		}},
		{"4", verdicts{
			fails: map[string]string{
				"names": `^it does not name vanilla, chocolate and strawberry: ` +
					`admission webhook "vicecream.kb.io" denied the request: invalid flavour: matcha$`,
				"on-update":    "^a change from vanilla to matcha: it was accepted$",
				"defaults":     `^an icecream without flavour and topping: it has the toppings \[\]$`,
				"warns":        "^an icecream of vanilla, chocolate and strawberry: it was accepted without a warning$",
				"fails-closed": "^deleting an icecream: it was not answered by a webhook: .*vicecream.kb.io",
				"policy":       "^there is no such file",

				"least-privilege": spareCreate,
			},
			skipped: []string{"all-at-once", "keeps", "idempotent", "old-objects", "bad-day"},
		}},
	} {
		// These run one after the other, because the operator's webhooks need a fixed port.
		t.Run("lab "+test.lab, func(t *testing.T) {
			options := options(t, test.lab, dir)
			options.Fetch, options.BuildCache = true, cache
			got := grade(t.Context(), t, options)
			test.want.compare(t, got)
			if s := got.Submission; s.ControllerRuntime != "v0.19.0" ||
				s.Module != "example.com/icecream-operator" || s.Go != "1.22.0" {
				t.Errorf("submission is %+v", s)
			}
		})
	}
}

// busyFactor is how many times as long a report may take on a machine whose cores are all busy.
const busyFactor = 4

// gradeWithin grades a third-party operator that has been built before, and requires a report within a limit. The
// limit is for a machine that runs only the other tests at the same time.
func gradeWithin(t *testing.T, limit time.Duration, options Options) *report.Report {
	t.Helper()
	options.Fetch, options.BuildCache = true, t.TempDir()
	prebuild(t, options)
	got := grade(t.Context(), t, options)
	t.Logf("the report took %.1f s: %+v", got.Seconds, got.Steps)
	if got.Seconds > busyFactor*limit.Seconds() {
		t.Errorf("the report took %.1f s, want at most %s, or %d times that: %+v", got.Seconds, limit, busyFactor, got.Steps)
	}
	return got
}

// prebuild downloads and compiles a submission. It does nothing if the submission can't be opened, because the report
// then contains the reason.
func prebuild(t *testing.T, options Options) {
	t.Helper()
	opened, err := submission.Open(options.Dir, options.Main)
	if err != nil {
		return
	}
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := &submission.Builder{Submission: opened, Scope: scope, Cache: options.BuildCache}
	if err := errors.Join(b.Fetch(t.Context(), func(int, int) {}), b.Build(t.Context()), scope.Close()); err != nil {
		t.Fatal(err)
	}
}

// The operator of the lecture that is on the web: see testdata/operators/lecture-v0.16/README.md. Its actions differ
// from run to run, but the verdict does not: it deletes at random, and can't delete correctly among three flavours at
// once.
func testLectureOperator(t *testing.T) {
	t.Helper()
	t.Parallel()
	got := gradeWithin(t, time.Minute, options(t, "2", copyOperator(t, "lecture-v0.16")))
	verdicts{
		fails: map[string]string{
			"newest-goes": "^(there are|gone are|status.toppingsCount of) ", "settles": "writes that change nothing",
			"least-privilege": spareCreate,
		},
		skipped: []string{
			"ties-by-name", "two-flavours", "sold-out", "place-frees", "burst", "restart", "old-news", "story", "bad-day",
		},
	}.compare(t, got)
	if explained := got.Explained(); explained == nil || explained.ID != "newest-goes" || got.Score != 27 ||
		got.Reason != "" || len(got.Forbidden) > 0 {
		t.Errorf("explained check is %+v; reason is %q, forbidden is %+v", explained, got.Reason, got.Forbidden)
	}
	if len(got.Notices) != 1 ||
		!strings.HasPrefix(got.Notices[0], "its go.mod says go 1.20: before 1.22 all rounds of a loop share one variable") {
		t.Errorf("notices are %q", got.Notices)
	}
	if s := got.Submission; s.ControllerRuntime != "v0.16.1" || s.Module != "example.com/lecture" || s.Go != "1.20" {
		t.Errorf("submission is %+v", s)
	}
}

// These are third-party operators of other kinds, ages and layouts. The README.md of each in testdata/operators
// describes it, and which of its habits is tested here.
func TestPublishedOperators(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	const (
		noIcecreams = `^there is no CustomResourceDefinition icecreams\.demo\.lva\.io$`
		leases      = "// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=gelateria-system," +
			"resources=leases,verbs=get;create;update"
		noRights = "^it may do nothing: there are neither .kubebuilder:rbac markers nor a config/rbac/role.yaml; "
	)
	anything := []string{"3"} // the lab in which it only has to start
	type row struct {
		name, main string
		labs       []string
		outcome    report.Outcome
		reason     string
		// within is the time limit for a report, if the operator has been built before.
		within time.Duration
		// failed is the failed check that the report explains, and observed what it observed.
		failed, observed string
		// notices are regular expressions, one for each notice.
		notices []string
		// forbidden are the markers for everything that it was forbidden, and arguments the arguments with which it was
		// started.
		forbidden, arguments []string
	}
	for _, test := range []row{
		{
			name: "website-v0.14", labs: []string{"1", "4"}, within: 30 * time.Second,
			outcome: report.Graded, failed: "served", observed: noIcecreams,
			notices: []string{"^its go.mod says go 1.19: before 1.22"},
		},
		{
			name: "website-v0.14", labs: anything, within: 30 * time.Second, outcome: report.Graded,
			notices: []string{"^its go.mod says go 1.19: before 1.22"}, arguments: []string{"--metrics-addr=0"},
		},
		{
			name: "memcached-v0.14", labs: []string{"2"}, within: 30 * time.Second, outcome: report.Graded,
			failed: "served", observed: noIcecreams,
			notices: []string{"^its go.mod says go 1.13: before 1.22", noRights + "deploy/role.yaml has a role"},
		},
		{
			name: "memcached-v0.14", labs: anything, within: time.Minute,
			outcome: report.Graded, failed: "watches", observed: `^refused were: memcacheds \(403\), pods \(403\)`,
			notices: []string{"^its go.mod says go 1.13: before 1.22", noRights + "deploy/role.yaml has a role"},
			forbidden: []string{
				"// +kubebuilder:rbac:groups=\"\",resources=pods,verbs=list;watch",
				"// +kubebuilder:rbac:groups=cache.example.com,resources=memcacheds,verbs=list;watch",
			},
		},
		{
			name: "crontab-client-go", labs: []string{"3"}, within: 30 * time.Second,
			outcome: report.Graded, failed: "served", observed: noIcecreams,
			notices: []string{
				"^it defines no kind: .*; artifacts/crd.yaml has a CustomResourceDefinition",
				noRights + "artifacts/rbac.yaml has a role",
			},
		},
		{
			name: "crontab-client-go", labs: anything, within: time.Minute,
			outcome: report.Graded, failed: "watches", observed: `^refused were: crontabs \(403\)`,
			notices: []string{
				"^it defines no kind: .*; artifacts/crd.yaml has a CustomResourceDefinition",
				noRights + "artifacts/rbac.yaml has a role",
			},
			forbidden: []string{"// +kubebuilder:rbac:groups=stable.example.com,resources=crontabs,verbs=list;watch"},
		},
		{
			name: "nested-v0.19", labs: []string{"1"}, within: 30 * time.Second, outcome: report.Graded,
			failed:   "status-subresource",
			observed: `^of the written status, this was kept: map\[soldOut:true toppingsCount:1\]$`,
			notices:  []string{"^its own `make manifests` leaves out all descriptions"},
		},
		{
			name: "nested-v0.19", labs: []string{"2"}, within: 30 * time.Second,
			outcome: report.Graded, failed: "newest-goes", observed: "^there are .*mango-a, mango-b, mango-c, mango-d",
			arguments: []string{"--metrics-bind-address=0"},
		},
		{
			name: "elected-v0.24", labs: []string{"1", "2"}, within: 10 * time.Second, outcome: report.NotBuilt,
			reason: "^there are several programs \\(./cmd/flavours, ./cmd/operator\\): " +
				"say which one is the operator, as in `--main ./cmd/operator`$",
		},
		{
			name: "elected-v0.24", main: "./cmd/operator", labs: []string{"1"}, within: 30 * time.Second,
			outcome: report.Graded, failed: "explained", observed: "^17 have none$",
			notices: []string{"^its own `make manifests` leaves out all descriptions"},
		},
		{
			// The grader waits for it as long as an operator may take to begin.
			name: "elected-v0.24", main: "./cmd/operator", labs: []string{"2"}, within: time.Minute, outcome: report.NotStarted,
			reason:    "^it waits for leader election, but its role does not allow it to use the Lease: add the marker below",
			forbidden: []string{leases}, arguments: []string{"--metrics-bind-address=0", "--health-probe-bind-address=0"},
		},
	} {
		for _, lab := range test.labs {
			t.Run(strings.Join([]string{test.name, test.main, lab}, " "), func(t *testing.T) {
				t.Parallel()
				dir := copyOperator(t, test.name)
				options := options(t, lab, dir)
				if &test.labs[0] == &anything[0] {
					options = played(t, "03-anything", dir)
				}
				options.Main = test.main
				got := gradeWithin(t, test.within, options)
				if got.Outcome != test.outcome {
					t.Errorf("outcome is %s, want %s\n%s", got.Outcome, test.outcome, strings.Join(got.OperatorLog, "\n"))
				}
				match(t, "the reason", got.Reason, test.reason)
				failed, observed := "", ""
				if explained := got.Explained(); explained != nil {
					failed, observed = explained.ID, explained.Observed
				}
				if failed != test.failed {
					t.Errorf("explained check is %q, want %q", failed, test.failed)
				}
				match(t, "the observation", observed, test.observed)
				if len(got.Notices) != len(test.notices) {
					t.Errorf("notices are %q, want %d", got.Notices, len(test.notices))
				}
				for i, notice := range test.notices[:min(len(test.notices), len(got.Notices))] {
					match(t, "a notice", got.Notices[i], notice)
				}
				var forbidden []string
				for _, f := range got.Forbidden {
					forbidden = append(forbidden, f.Marker)
				}
				if !slices.Equal(forbidden, test.forbidden) {
					t.Errorf("forbidden is %q, want %q", forbidden, test.forbidden)
				}
				if !slices.Equal(got.Submission.Arguments, test.arguments) {
					t.Errorf("arguments are %q, want %q", got.Submission.Arguments, test.arguments)
				}
			})
		}
	}
}

// With the markers that the report suggests, an operator gets further in each round: to the Lease, to the Event about
// the election, to its work.
func testSuggestedMarkers(t *testing.T) {
	t.Helper()
	t.Parallel()
	dir := copyOperator(t, "elected-v0.24")
	controller := filepath.Join(dir, "internal", "controller", "icecream_controller.go")
	var added []string
	for round := range 3 {
		options := played(t, "03-anything", dir)
		options.Main = "./cmd/operator"
		got := gradeWithin(t, time.Minute, options)
		if len(got.Forbidden) == 0 {
			if got.Outcome != report.Graded || got.Score != got.MaxScore || round == 0 {
				t.Errorf("in round %d, nothing was forbidden, but the outcome is %s: %s %+v",
					round, got.Outcome, got.Reason, got.Checks)
			}
			break
		}
		content, err := os.ReadFile(controller)
		if err != nil {
			t.Fatal(err)
		}
		for _, forbidden := range got.Forbidden {
			added = append(added, forbidden.Marker)
			content = append(content, "\n"+forbidden.Marker+"\n"...)
		}
		if err := os.WriteFile(controller, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{
		"// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=gelateria-system,resources=leases,verbs=get;create;update",
		"// +kubebuilder:rbac:groups=\"\",resources=events,verbs=create;patch",
	}; !slices.Equal(added, want) {
		t.Errorf("markers are %q, want %q", added, want)
	}
}

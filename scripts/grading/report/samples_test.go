// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package report_test

import (
	"fmt"
	"slices"
	"time"

	"lva.io/operators/scripts/grading/report"
)

// samples returns runs of every outcome. The tests of report/terminal use their golden files in testdata, too.
func samples() map[string]report.Report {
	all := map[string]report.Report{}

	full := graded(nil)
	all["graded-full"] = full
	all["faults-full"], all["faults-failed"] = finalizerFull(), finalizerFailed()

	failed := graded(func(r *report.Report) {
		fail(r, "newest-goes",
			"of four icecreams with vanilla the newest, banana-4, is deleted; banana-1, banana-2 and banana-3 stay",
			"banana-1 (the oldest) was deleted; banana-4 is still there",
			" 3.112s  LIST    icecreams                    200",
			" 3.120s  DELETE  icecreams/banana-1           200",
			" 3.131s  LIST    icecreams                    200",
			" 3.140s  UPDATE  icecreams/banana-2/status    200  {\"soldOut\":true,\"toppingsCount\":2}")
		for _, id := range []string{"ties-by-name", "two-flavours", "sold-out", "restart"} {
			skip(r, id, "skipped: it needs newest-goes, which failed")
		}
		skip(r, "place-frees", "skipped: it needs sold-out, which was skipped")
		skip(r, "burst", "skipped: it needs ties-by-name, which was skipped")
		fail(r, "settles", "no write for 1 s once the status is right", "12 writes of the same status in 1 s",
			" 9.001s  UPDATE  icecreams/apple/status       200  {\"toppingsCount\":1}")
	})
	failed.Notices = []string{"config/crd is not what the markers generate: run `make manifests` and commit it."}
	all["graded-failed"] = failed

	forbidden := graded(func(r *report.Report) {
		fail(r, "toppings-count", "status.toppingsCount of banana is 2", "status is empty after 5 s",
			" 1.010s  PATCH   icecreams/banana/status      403  forbidden")
		for _, check := range r.Checks[1:] {
			skip(r, check.ID, "skipped: it needs toppings-count, which failed")
		}
		find(r, "toppings-count").Causes = []string{"status-subresource", "least-privilege"}
		fail(r, "least-privilege",
			"the role allows all that the operator asks for", "the API server refused 21 of its requests (403 Forbidden)",
			"17 times: patch icecreams/status", "3 times: create events")
	})
	forbidden.Forbidden = []report.Forbidden{
		{
			Verb: "patch", Group: "demo.lva.io", Resource: "icecreams", Subresource: "status", Count: 17,
			Marker: "//+kubebuilder:rbac:groups=demo.lva.io,resources=icecreams/status,verbs=get;update;patch",
		},
		{
			Verb: "get", Group: "demo.lva.io", Resource: "icecreams", Subresource: "status", Count: 1,
			Marker: "//+kubebuilder:rbac:groups=demo.lva.io,resources=icecreams/status,verbs=get;update;patch",
		},
		{
			Verb: "create", Group: "", Resource: "events", Count: 3,
			Marker: "//+kubebuilder:rbac:groups=\"\",resources=events,verbs=create;patch",
		},
	}
	all["graded-forbidden"] = forbidden

	notBuilt := ended(report.NotBuilt, "it does not compile: 7 errors")
	notBuilt.Steps = []report.Step{{Name: "build", Seconds: 1.92}}
	notBuilt.Diagnostics = []report.Diagnostic{
		{File: "internal/controller/icecream_controller.go", Line: 61, Column: 12, Message: "undefined: toppings"},
		{
			File: "internal/controller/icecream_controller.go", Line: 74, Column: 31,
			Message: "not enough arguments in call to r.Get\n\thave (context.Context, types.NamespacedName)\n" +
				"\twant (context.Context, types.NamespacedName, client.Object, ...client.GetOption)",
		},
		{File: "internal/controller/icecream_controller.go", Line: 80, Column: 2, Message: "declared and not used: newest"},
		{File: "internal/controller/flavours.go", Line: 9, Column: 2, Message: `"slices" imported and not used`},
		{
			File: "internal/controller/flavours.go", Line: 12, Column: 6,
			Message: "missing return",
		},
		{
			File: "internal/controller/flavours.go", Line: 30, Column: 1,
			Message: "syntax error: non-declaration statement outside function body",
		},
		{File: "internal/controller/flavours.go", Message: "too many errors"},
	}
	all["not-built"] = notBuilt

	notGenerated := ended(report.NotGenerated, "controller-gen refuses a marker in api/v1/icecream_types.go")
	notGenerated.Diagnostics = []report.Diagnostic{
		{
			File: "api/v1/icecream_types.go", Line: 31, Column: 2,
			Message: "got 1, want integer in +kubebuilder:validation:MaxItems",
		},
		{Message: "not all generators ran successfully"},
	}
	all["not-generated"] = notGenerated

	notStarted := ended(report.NotStarted, "the operator exited with code 1 before it watched anything")
	notStarted.OperatorLog = []string{
		`2026-03-02T10:15:04Z  ERROR  setup  unable to create controller  ` +
			`{"controller": "Icecream", "error": "no kind is registered"}`,
	}
	all["not-started"] = notStarted

	crashed := graded(func(r *report.Report) {
		fail(r, "toppings-count", "status.toppingsCount of banana is 2", "the operator ended before it wrote a status")
		for _, check := range r.Checks[1:] {
			skip(r, check.ID, "skipped: the operator crashed")
		}
	})
	crashed.Outcome, crashed.Reason = report.Crashed, "the operator ended with exit code 2 while toppings-count ran"
	crashed.OperatorLog = []string{
		`2026-03-02T10:15:04Z  INFO  Starting workers  {"controller": "icecream", "worker count": 1}`,
		`2026-03-02T10:15:05Z  INFO  reconciling  {"icecream": "banana"}`,
		"panic: runtime error: index out of range [0] with length 0 [recovered]",
		"",
		"goroutine 118 [running]:",
		"lva.io/operators/labs/02-reconciler/internal/controller.(*IcecreamReconciler).Reconcile(" +
			"0xc0003b1c20, {0x1f3e2a8, 0xc0006a1d10}, {{{0x0, 0x0}, {0xc00059a2d0, 0x6}}})",
	}
	for i := range 20 {
		crashed.OperatorLog = append(crashed.OperatorLog,
			fmt.Sprintf("\tsigs.k8s.io/controller-runtime/pkg/internal/controller.go:%d +0x1e", 100+i))
	}
	all["crashed"] = crashed

	flooded := ended(report.Flooded, "the operator wrote more than 10 MiB of log in 3 s")
	flooded.OperatorLog = slices.Repeat([]string{
		"2026-03-02T10:15:05Z  INFO  reconciling  {\"icecream\": \"banana\"}",
	}, 60)
	all["flooded"] = flooded

	timedOut := graded(func(r *report.Report) {
		for _, check := range r.Checks[3:] {
			skip(r, check.ID, "skipped: the time limit of 2m0s was over")
		}
	})
	timedOut.Outcome, timedOut.Reason =
		report.TimedOut, "the checks took longer than 2m0s; ties-by-name was the last one that ran"
	timedOut.Seconds = 124.2
	all["timed-out"] = timedOut

	all["unfinished"] = ended(report.Unfinished, "the run has not ended: it is still running, or it was killed")
	all["interrupted"] = ended(report.Interrupted, "Ctrl-C ended the run")
	all["error"] = ended(report.Error,
		"the API server was not ready within 30s: address already in use (this is not your operator's fault)")
	return all
}

func base() report.Report {
	return report.Report{
		Lab: "02-reconciler", Title: "The reconciler",
		Submission: report.Submission{
			Dir: "labs/02-reconciler", Module: "lva.io/operators/labs/02-reconciler", Go: "1.26.0", ControllerRuntime: "v0.24.1",
		},
		Outcome: report.Graded,
		Started: time.Date(2026, 3, 2, 10, 15, 0, 123456789, time.UTC),
		Seconds: 7.4214, MaxScore: 100,
		Environment: report.Environment{Cluster: "embedded", Kubernetes: "v1.36.3", OS: "linux", Arch: "amd64", CPUs: 2},
		Steps: []report.Step{
			{Name: "build", Seconds: 1.204},
			{Name: "manifests", Seconds: 0.31},
			{Name: "cluster", Seconds: 2.8123},
			{Name: "CRDs", Seconds: 0.052},
			{Name: "operator", Seconds: 0.4},
		},
		Checks: []report.Check{
			check("toppings-count", 10, "status.toppingsCount is the number of toppings"),
			check("three-stay", 5, "Three icecreams of a flavour stay"),
			check("newest-goes", 10, "Of four icecreams of a flavour the newest goes"),
			check("ties-by-name", 5, "Of equally old icecreams the one whose name sorts last goes"),
			check("per-flavour", 10, "Each flavour is counted on its own"),
			check("two-flavours", 10, "An icecream with two flavours counts for both"),
			check("sold-out", 10, "soldOut is true on all icecreams of a flavour of which there are three"),
			check("place-frees", 10, "soldOut is false again when one of the three is deleted"),
			check("burst", 10, "Thirty icecreams created at the same time end right"),
			check("restart", 5, "It is right again after the operator was stopped and started"),
			check("settles", 5, "Nothing is written once everything is right"),
			check("status-subresource", 5, "The status is written only through the status subresource"),
			check("least-privilege", 5, "No request was forbidden"),
		},
	}
}

func check(id string, points int, title string) report.Check {
	return report.Check{
		ID: id, Title: title, Status: report.Passed, Points: points, MaxPoints: points, Seconds: 0.1 * float64(len(id)),
		Lecture: "docs/lectures/02-reconcile.md#" + id,
	}
}

// graded returns a run of lab 02 in which all checks pass, except for what edit changes.
func graded(edit func(*report.Report)) report.Report {
	r := base()
	if edit != nil {
		edit(&r)
	}
	for _, check := range r.Checks {
		r.Score += check.Points
	}
	return r
}

// ended returns a run that ended before its first check.
func ended(outcome report.Outcome, reason string) report.Report {
	r := base()
	r.Outcome, r.Reason, r.Seconds = outcome, reason, 2.1
	for _, check := range r.Checks {
		skip(&r, check.ID, "skipped: "+reason)
	}
	return r
}

func find(r *report.Report, id string) *report.Check {
	return &r.Checks[slices.IndexFunc(r.Checks, func(c report.Check) bool { return c.ID == id })]
}

func fail(r *report.Report, id, expected, observed string, evidence ...string) {
	c := find(r, id)
	c.Status, c.Points, c.Expected, c.Observed, c.Evidence = report.Failed, 0, expected, observed, evidence
}

func skip(r *report.Report, id, reason string) {
	c := find(r, id)
	c.Status, c.Points, c.Seconds, c.Reason = report.Skipped, 0, 0, reason
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/submission"
)

// logging returns an operator that has logged lines.
func logging(t *testing.T, lines ...string) *operator {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "operator.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	o := &operator{
		subject: &subject{builder: &submission.Builder{Submission: &submission.Submission{Module: "example.com/icecream"}}},
		log:     &operatorLog{file: file, flooded: func() {}},
	}
	for _, line := range lines {
		fmt.Fprintln(o.log, line)
	}
	return o
}

func TestProblemsSinceMark(t *testing.T) {
	t.Parallel()
	const no, none = `{"msg":"Reconciler error","error":"no cone"}`, `{"msg":"Reconciler error","error":"no cup"}`
	o := logging(t, no)
	mark := o.logged()
	if got := o.problems(mark); len(got) > 0 {
		t.Errorf("problems(mark) = %q", got)
	}
	fmt.Fprintln(o.log, none)
	if got := o.problems(mark); !slices.Equal(got, []string{"Reconcile returned an error: no cup"}) {
		t.Errorf("problems(mark) = %q", got)
	}
	if got := o.problems(0); len(got) != 2 {
		t.Errorf("problems(0) = %q, want two", got)
	}
	if got := (*operator)(nil).problems(0); got != nil || (*operator)(nil).logged() != 0 {
		t.Errorf("without an operator, problems(0) = %q", got)
	}
}

func TestEndOfRunIsExplained(t *testing.T) {
	t.Parallel()
	o := logging(t, "panic: before the restart", "",
		"goroutine 1 [running]:", "main.main()", "\texample.com/icecream/cmd/old.go:1 +0x1", "")
	o.logBegan = o.logged()
	for _, line := range []string{
		`{"msg":"Reconciler error","error":"no cone"}`, "panic: no cup", "",
		"goroutine 1 [running]:", "main.main()", "\texample.com/icecream/cmd/main.go:7 +0x1",
	} {
		fmt.Fprintln(o.log, line)
	}
	for outcome, want := range map[report.Outcome]string{
		report.Crashed:     "it ended; it panicked: no cup, at cmd/main.go:7",
		report.NotStarted:  "it ended; it panicked: no cup, at cmd/main.go:7",
		report.Flooded:     "it ended; most often: the operator panicked: before the restart, at cmd/old.go:1",
		report.TimedOut:    "it ended",
		report.Interrupted: "it ended",
	} {
		if got := o.explain(errors.Join(&verdict{outcome: outcome, reason: "it ended"}, nil)); got.Error() != want {
			t.Errorf("%s: reason is %q, want %q", outcome, got, want)
		}
	}
	last := logging(t, `{"level":"error","msg":"unable to start manager","error":"no cache"}`, "bye")
	ended := &verdict{outcome: report.NotStarted, reason: "it ended"}
	if got := last.explain(ended); got.Error() != "it ended; its last error: unable to start manager: no cache" {
		t.Errorf("reason is %q", got)
	}
	if got := o.explain(nil); got != nil {
		t.Errorf("explain(nil) = %v", got)
	}
	if got := logging(t, "bye").explain(&verdict{outcome: report.Crashed, reason: "it ended"}); got.Error() != "it ended" {
		t.Errorf("with no error in the log, the reason is %q", got)
	}
}

// The lines that fill the log explain a flood, not the other errors in the log.
func TestFloodIsExplained(t *testing.T) {
	t.Parallel()
	const conflict = `{"level":"error","msg":"Reconciler error","error":"the object has been modified"}`
	many := func(line string) []string {
		lines := []string{conflict}
		for i := range 1000 {
			lines = append(lines, strings.ReplaceAll(line, "N", strconv.Itoa(i)))
		}
		return lines
	}
	var different, glued, longer []string
	for letter := 'a'; letter <= 'z'; letter++ {
		different = append(different, string(letter)+strings.Repeat("vanilla ", 1000))
	}
	for range 1000 {
		const console = "2026-01-01T00:00:00Z\tERROR\tReconciler error\t{\"error\": \"the object has been modified\"}"
		glued, longer = append(glued, strings.Repeat("vanilla ", 400)+console),
			append(longer, strings.Repeat("vanilla ", 1000)+console)
	}
	const reason, same = "it wrote more than 8 MB into its log",
		"it wrote more than 8 MB into its log: it does the same thing over and over"
	for _, test := range []struct {
		name  string
		lines []string
		want  string
	}{
		{
			"a line that does not end",
			[]string{conflict, strings.Repeat("vanilla ", 1<<18)},
			reason + `, most of it as one line of 2.1 MB, which begins "` + strings.Repeat("vanilla ", 13)[:100] + `"`,
		},
		{
			"long lines",
			[]string{conflict, strings.Repeat("x", 1<<17), strings.Repeat("x", 1<<18)},
			reason + `, most of it as 2 lines of up to 262 kB, which begin "` + strings.Repeat("x", 100) + `"`,
		},
		{
			"long lines of which each begins otherwise", append(different, conflict),
			reason + `, most of it as 26 lines of up to 8.0 kB, which begin "a` + strings.Repeat("vanilla ", 13)[:99] + `"`,
		},
		{"long lines without an end of their own", glued, same + "; 1000 times: " + strings.Repeat("vanilla ", 13)[:100]},
		{
			"longer lines without an end of their own", longer,
			reason + `, most of it as 1000 lines of up to 8.1 kB, which begin "` + strings.Repeat("vanilla ", 13)[:100] + `"`,
		},
		{"a message", many(`{"level":"info","msg":"sold icecream N"}`), same + "; 1000 times: sold icecream 0"},
		{"a line of no logger", many("again, and again"), same + "; 1000 times: again, and again"},
		{
			"an error of Reconcile", append(many(conflict), "vanilla"),
			same + "; most often: Reconcile returned the same error 1001 times: the object has been modified",
		},
	} {
		o := logging(t, test.lines...)
		if got := o.explain(&verdict{outcome: report.Flooded, reason: same}); got.Error() != test.want {
			t.Errorf("%s: reason is\n%s\nwant\n%s", test.name, got, test.want)
		}
	}
}

func TestEvidenceListsServedWebhookPaths(t *testing.T) {
	t.Parallel()
	o := logging(t, `{"msg":"Registering webhook","path":"/validate"}`)
	o.webhooks = []string{"shop"}
	unanswered := []protocol.Event{
		{Observed: `it was not answered: failed calling webhook "shop": no`},
		{Observed: "it stays", Evidence: []string{`the deletion failed: failed calling webhook "shop": no`}},
		{Observed: "it was accepted", FailedOpen: true},
	}
	for _, event := range unanswered {
		if got := strings.Join(o.webhookPaths(event), "\n"); got !=
			"according to its log, the operator serves webhooks at /validate" {
			t.Errorf("for %+v, the evidence is %q", event, got)
		}
	}
	for _, observed := range []string{"it was accepted", `failed calling webhook "another": no`} {
		if got := o.webhookPaths(protocol.Event{Observed: observed}); got != nil {
			t.Errorf("with answers from all of its webhooks (%s), the evidence is %q", observed, got)
		}
	}
	silent := logging(t)
	silent.webhooks = o.webhooks
	if got := silent.webhookPaths(unanswered[0]); got != nil {
		t.Errorf("with no webhook in the log, the evidence is %q", got)
	}
}

// Only the server's log shows which requests it gets, and how it handles them.
func TestEvidenceEndsWithServerLog(t *testing.T) {
	t.Parallel()
	o := logging(t, "before the check")
	mark := o.logged()
	if got := strings.Join(o.serverLog(mark), "\n"); got != "the server has logged nothing since this check began" {
		t.Errorf("evidence is %q", got)
	}
	for n := range 20 {
		fmt.Fprintf(o.log, "line %d\n", n)
	}
	fmt.Fprintln(o.log, strings.Repeat("é", 1000))
	got := o.serverLog(mark)
	if len(got) != 1+serverLogLines ||
		got[0] != "the last lines of the server's log since this check began:" ||
		got[1] != "line 13" ||
		got[serverLogLines] != strings.Repeat("é", serverLogWidth/2)+"…" {
		t.Errorf("evidence is %q", got)
	}
	if got := (*operator)(nil).serverLog(0); got != nil {
		t.Errorf("without an operator, the evidence is %q", got)
	}
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/faults"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/services"
	"lva.io/operators/scripts/services/freezer"
)

// badDay runs only the check bad-day.
func badDay(t *testing.T, seed uint32, submission ...string) (*report.Report, report.Check) {
	t.Helper()
	options := played(t, "02-labels", unpack(t, submission...))
	options.Lab.Checks = slices.DeleteFunc(options.Lab.Checks, func(c manifest.Check) bool { return c.ID != "bad-day" })
	options.Seed = seed
	got := grade(t.Context(), t, options)
	if got.Outcome != report.Graded || len(got.Checks) != 1 {
		t.Fatalf("outcome is %s: %s", got.Outcome, got.Reason)
	}
	if seed != 0 && got.Seed != seed || got.Seed == 0 {
		t.Errorf("with seed %d, the report's seed is %d", seed, got.Seed)
	}
	return got, got.Checks[0]
}

// The seed determines the faults of a bad day. The report contains the seed, all requests and the faults that hit
// them.
func TestSeedAndTimelineAreInTheReport(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	got, check := badDay(t, 1, "labels") // conflict write 2, no-answer write 8 for 200ms, lost-answer read 5
	if check.Status != report.Passed {
		t.Errorf("the submission does not survive: %s %q", check.Observed, check.Evidence)
	}
	var timeline []string
	for i, moment := range got.Timeline {
		if i > 0 && moment.At < got.Timeline[i-1].At {
			t.Errorf("timeline is not sorted: %+v", got.Timeline[i-1:i+1])
		}
		if moment.At < 0 || moment.Seconds < 0 || moment.At+moment.Seconds > got.Seconds {
			t.Errorf("the run took %g s, but this moment is outside of it: %+v", got.Seconds, moment)
		}
		if during := moment.At >= check.At && moment.At <= check.At+check.Seconds; !during && moment.Fault != "" {
			t.Errorf("the check ran from %g for %g s, but a fault was injected outside of it: %+v",
				check.At, check.Seconds, moment)
		}
		timeline = append(timeline,
			strings.TrimSpace(fmt.Sprintf("%s: %s %d %s", moment.Service, moment.What, moment.Code, moment.Fault)))
	}
	want := []string{
		"operator: the operator was started 0", "api: list icecreams 200", "api: watch icecreams 200",
		"api: patch icecreams sundae 200", "api: patch icecreams sundae 409 conflict",
		"api: list icecreams 200", "api: patch icecreams sundae 200",
	}
	// A cluster that does not serve a new kind yet may have refused the first request, and the new watch may start late.
	first := slices.Index(timeline, want[3])
	if first < 0 || timeline[0] != want[0] || !slices.Contains(timeline[:first], want[1]) ||
		!slices.Contains(timeline[:first], want[2]) || !slices.Equal(timeline[first:min(first+4, len(timeline))], want[3:]) {
		t.Errorf("timeline is %q, want one like %q", timeline, want)
	}
}

// The same submission survives one day and not another.
func TestSeedDeterminesFaults(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	for seed, want := range map[uint32]struct {
		status   report.Status
		evidence string
	}{
		3:  {report.Passed, ""}, // cut write 7, conflict write 11: later than all writes
		24: {report.Failed, "what went wrong: lost-answer write 1, conflict write 11"},
	} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			_, check := badDay(t, seed, "labels", "labels-thoughtless")
			if check.Status != want.status || len(check.Evidence) > 0 != (want.evidence != "") ||
				want.evidence != "" && check.Evidence[0] != want.evidence {
				t.Errorf("the check %s: %s %q", check.Status, check.Observed, check.Evidence)
			}
		})
	}
	t.Run("without a chosen seed", func(t *testing.T) {
		t.Parallel()
		one, _ := badDay(t, 0, "labels")
		other, _ := badDay(t, 0, "labels")
		if one.Seed == other.Seed {
			t.Errorf("two runs have the same seed %d", one.Seed)
		}
	})
	t.Run("without a run", func(t *testing.T) {
		t.Parallel()
		if got := grade(t.Context(), t, options(t, "2", unpack(t, "no-module"))); got.Seed != 0 {
			t.Errorf("got seed %d, want none for a run without checks", got.Seed)
		}
	})
}

// An operator that bypasses the proxy to the API server has no bad days, and does not pass.
func TestBypassingFaultsFails(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	got, check := badDay(t, 1, "labels", "labels-bypasses-proxy")
	if check.Status != report.Failed || !strings.Contains(check.Observed, "reached the API server by another way") ||
		!slices.ContainsFunc(check.Evidence, func(line string) bool {
			return strings.Contains(line, "patch icecreams sundae")
		}) {
		t.Errorf("the check %s: %s %q\n%s", check.Status, check.Observed, check.Evidence, strings.Join(got.OperatorLog, "\n"))
	}
}

// Only the checks can reach a service without faults. Any other client of the port gets no response from the service.
func TestChecksReachServicesWithoutFaults(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	c := &connection{injector: faults.New(nil)}
	t.Cleanup(c.close)
	address, err := c.startService(services.Named([]string{freezer.Service})[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := freezer.NewClient(address).Stock(t.Context()); err != nil {
		t.Error(err)
	}
	root, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	root.Path = ""
	if _, err := freezer.NewClient(root.String()).Stock(t.Context()); err == nil {
		t.Error("a client without the secret path can read the freezer's stock")
	}
	if slices.ContainsFunc(c.gateway.Environment, func(variable string) bool {
		return strings.Contains(variable, root.Host)
	}) {
		t.Errorf("the operator's environment contains the port: %q", c.gateway.Environment)
	}
}

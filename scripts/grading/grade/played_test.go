// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/icecream"
	"lva.io/operators/scripts/grading/faults"
	"lva.io/operators/scripts/grading/protocol"
)

// playedChecks are labs for operators that label icecreams (see testdata/submissions/labels.txtar). They are short,
// and use the same kit as the real ones. The tests below run this binary as their checks.
var playedChecks = map[string]check.Features{
	"01-socket": {
		"files":     play("files", readsFiles),
		"manifests": play("manifests", readsManifests),
		"scripts":   play("scripts", runsScripts),
		"faults":    play("faults", armsFaults),
	},
	"02-labels": {"labels": play("labels", labels), "bad-day": check.BadDay(labels)},
	// This lab accepts an operator of any kind.
	"03-anything": {"watches": play("watches", watches)},
}

// played returns options for grading a submission by the played checks of this name.
func played(t *testing.T, name, dir string) Options {
	t.Helper()
	options := options(t, "2", dir)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	options.Checks = program
	lab := &manifest.Lab{
		Name: name, Title: "A played lab", Operator: true, Groups: options.Lab.Groups,
		TimeLimit: metav1.Duration{Duration: time.Minute},
	}
	for id := range playedChecks[name] {
		lab.Checks = append(lab.Checks, manifest.Check{ID: id, Title: "The title of " + id, Points: 10})
	}
	slices.SortFunc(lab.Checks, func(a, b manifest.Check) int { return strings.Compare(a.ID, b.ID) })
	options.Lab = lab
	return options
}

// TestPlayedChecks is not a test: it runs the checks of a lab for the tests below, which act as the grader.
func TestPlayedChecks(t *testing.T) {
	file := os.Getenv(protocol.RunVariable)
	if file == "" {
		t.Skip("the other tests run it")
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var run protocol.Run
	if err := json.Unmarshal(content, &run); err != nil {
		t.Fatal(err)
	}
	if run.Lab.Name == "03-anything" {
		check.Run(t, playedChecks[run.Lab.Name], check.Options{})
		return
	}
	check.Run(t, playedChecks[run.Lab.Name], check.Options{
		Scenario: labels, Writes: 2,
		Prepare: func(ctx context.Context, suite *check.Suite) (context.Context, error) {
			shop, err := icecream.Open(ctx, suite.Config)
			return context.WithValue(ctx, shopKey{}, shop), err
		},
		CleanUp: func(ctx context.Context) error { return shopOf(ctx).Empty(ctx) },
	})
}

type shopKey struct{}

func shopOf(ctx context.Context) *icecream.Shop { return ctx.Value(shopKey{}).(*icecream.Shop) }

func play(name string, step check.Scenario) types.Feature {
	return features.New(name).Assess(name, check.Assess(step)).
		Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error { return c.Faults.Disarm(ctx) })).Feature()
}

// labels is the scenario: an icecream gets both labels.
func labels(ctx context.Context, t *testing.T, c *check.Check) {
	t.Helper()
	shop := shopOf(ctx)
	_, err := shop.Create(ctx, "sundae", []string{"vanilla"})
	c.OK(t, "creating an icecream", err)
	c.EventuallyWithin(ctx, t, "sundae has a cup and a spoon", 10*time.Second, shop.Changed, func() (string, bool) {
		object, err := shop.Client.Get(ctx, "sundae", metav1.GetOptions{})
		c.OK(t, "reading an icecream", err)
		names := []string{}
		for name := range object.GetLabels() {
			names = append(names, name)
		}
		slices.Sort(names)
		return fmt.Sprintf("its labels are %q", names), slices.Equal(names, []string{"cup", "spoon"})
	})
}

// watches checks that the operator gets what it requests first, of whatever kind. Its last request counts, because a
// client that is refused a streamed list requests a plain one.
func watches(ctx context.Context, t *testing.T, c *check.Check) {
	t.Helper()
	c.EventuallyWithin(ctx, t, "its first lists and watches are answered", 5*time.Second, c.Audit.Changed,
		func() (string, bool) {
			answers := map[string]int{}
			for _, event := range c.Audit.Since(0, c.ByOperator().And(startsWork)) {
				answers[event.Resource] = event.Code
			}
			var refused []string
			for _, resource := range slices.Sorted(maps.Keys(answers)) {
				if code := answers[resource]; code != http.StatusOK {
					refused = append(refused, fmt.Sprintf("%s (%d)", resource, code))
				}
			}
			return fmt.Sprintf("refused were: %s", strings.Join(refused, ", ")), len(answers) > 0 && len(refused) == 0
		})
}

// readsFiles reads files of testdata/submissions/scripts.txtar.
func readsFiles(ctx context.Context, t *testing.T, c *check.Check) {
	t.Helper()
	content, err := c.Submission.File(ctx, "zombie/answers.yaml")
	if err != nil || string(content) != "zombie: sundae\n" {
		c.Fail(t, "the file is read", fmt.Sprintf("%q, %v", content, err))
	}
	if _, err := c.Submission.File(ctx, "zombie/questions.yaml"); !errors.Is(err, fs.ErrNotExist) {
		c.Fail(t, "a file that is missing does not exist", fmt.Sprint(err))
	}
	for _, path := range []string{
		"..", "../operator.log", "zombie/../../operator.log", "/etc/passwd", "%2e%2e/x", "outside", "zombie", "",
	} {
		if content, err := c.Submission.File(ctx, path); err == nil {
			c.Fail(t, path+" is no file of the submission", fmt.Sprintf("it can be read: %.40q", content))
		}
	}
}

// readsManifests lets kustomize build config/default of testdata/submissions/scripts.txtar.
func readsManifests(ctx context.Context, t *testing.T, c *check.Check) {
	t.Helper()
	objects, err := c.Submission.Manifests(ctx)
	c.OK(t, "building config/default", err)
	want := []map[string]any{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "shop-menu"}}}
	if !reflect.DeepEqual(objects, want) {
		c.Fail(t, fmt.Sprintf("config/default comes to %v", want), fmt.Sprint(objects))
	}
}

func runsScripts(ctx context.Context, t *testing.T, c *check.Check) {
	t.Helper()
	output, exit, err := c.Submission.Run(ctx, "zombie/echo.sh", "a b", "$HOME", "*")
	if err != nil || exit != 7 || output != "[a b][$HOME][*]\nto stderr\n" {
		c.Fail(t, "it prints its arguments and ends with 7", fmt.Sprintf("%q, %d, %v", output, exit, err))
	}
	if output, exit, err = c.Submission.Run(ctx, "zombie/echo.sh"); err != nil || exit != 7 || output != "\nto stderr\n" {
		c.Fail(t, "it runs without arguments", fmt.Sprintf("%q, %d, %v", output, exit, err))
	}
	if _, _, err := c.Submission.Run(ctx, "zombie/none.sh"); !errors.Is(err, fs.ErrNotExist) {
		c.Fail(t, "a script that is missing does not exist", fmt.Sprint(err))
	}
}

// armsFaults lets a fault kill the operator once, and checks how the faults are reported.
func armsFaults(ctx context.Context, t *testing.T, c *check.Check) {
	t.Helper()
	err := c.Faults.Arm(ctx, faults.Schedule{Faults: []faults.Fault{{Kind: "earthquake", Class: faults.Write, At: 1}}})
	if err == nil || !strings.Contains(err.Error(), `there is no fault of kind "earthquake"`) {
		c.Fail(t, "an unknown kind of fault is refused", fmt.Sprint(err))
	}
	c.OK(t, "arming", c.Faults.Arm(ctx, faults.Schedule{Faults: []faults.Fault{
		{Kind: faults.Conflict, Class: faults.Write, At: 1}, {Kind: faults.KillAfter, Class: faults.Write, At: 2},
	}}))
	labels(ctx, t, c)
	c.OK(t, "disarming", c.Faults.Disarm(ctx))
	// The last label may exist before its writer has the answer.
	c.OK(t, "waiting for the last answer", wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, 10*time.Second, true,
		func(ctx context.Context) (bool, error) {
			log, err := c.Faults.Log(ctx)
			return !slices.ContainsFunc(log, func(entry faults.Entry) bool {
				return entry.Write && entry.Code == 0 && entry.Fault == ""
			}), err
		}))
	c.OK(t, "stopping", c.Operator.Stop(ctx))
	c.OK(t, "starting", c.Operator.Start(ctx))
	log, err := c.Faults.Log(ctx)
	c.OK(t, "reading the log", err)
	var got []string
	for _, entry := range log {
		if entry.Write || entry.Service == faults.Operator {
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s %d %s", entry.Summary(), entry.Code, entry.Fault)))
		}
	}
	if want := []string{
		"the operator was started 0", "patch icecreams sundae 409 conflict", "patch icecreams sundae 200 kill-after",
		"the operator was killed 0", "the operator was started 0", "patch icecreams sundae 200",
		"the operator was stopped 0", "the operator was started 0",
	}; !slices.Equal(got, want) {
		c.Fail(t, fmt.Sprintf("the log says %q", want), fmt.Sprintf("%q", got))
	}
}

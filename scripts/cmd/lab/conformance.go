// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/images"
	"lva.io/operators/clusters/progress"
	"lva.io/operators/scripts/authoring/conformance"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/grading/placement"
	"lva.io/operators/scripts/grading/playground"
	"lva.io/operators/scripts/grading/stage/kind"
)

// conformanceDir, below out, holds the results of each kind of cluster.
const conformanceDir = "conformance"

func conformanceCommand() *cobra.Command {
	c := conformanceRun{parallel: 4}
	command := &cobra.Command{
		Use: "conformance", GroupID: groupMaintainers,
		Short: "Run Kubernetes' own conformance tests against a cluster", Args: cli.NoArguments,
		Long: "conformance runs the tests that Kubernetes calls [Conformance], unchanged, " +
			"against a fresh embedded cluster with its node,\n" +
			"or against another cluster. " +
			"The result of each test is kept in out/" + conformanceDir + ", so that --again can resume.",
		Example: "  lab conformance --sample\n  lab conformance --focus 'sig-network.*Services'\n" +
			"  lab conformance --again\n  lab conformance --cluster kind",
		RunE: func(command *cobra.Command, _ []string) error {
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			c.Checkout = repo
			return c.run(command.Context())
		},
	}
	flags := command.Flags()
	flags.StringVar(&c.focus, "focus", "", "run only the tests whose names match this regular expression")
	flags.BoolVar(&c.sample, "sample", false, "run only the sample that CI runs")
	flags.BoolVar(&c.again, "again", false, "run only those that have not passed in earlier runs")
	flags.BoolVar(&c.list, "list", false, "list the tests without running them")
	flags.BoolVar(&c.record, "record", false,
		"write the results of earlier runs to "+conformance.ResultsFile+", without running tests")
	flags.Var((*cli.Count)(&c.parallel), "parallel", "how many tests to run in parallel")
	c.register(command, "a fresh embedded cluster")
	cli.Exclusive(command, "sample", "focus")
	return command
}

// etcdImage is the prefix of references to etcd's image.
const etcdImage = "registry.k8s.io/etcd:"

// conformanceRun is one call of the command.
type conformanceRun struct {
	*checkout.Checkout
	clusterFlags
	focus                       string
	sample, again, list, record bool
	parallel                    int
}

func (c *conformanceRun) run(ctx context.Context) error {
	on, _, err := c.Parse()
	if err != nil {
		return err
	}
	out, err := c.Out(conformanceDir)
	if err != nil {
		return err
	}
	ledger, err := conformance.OpenLedger(filepath.Join(out, on+".json"))
	if err != nil {
		return err
	}
	program, err := c.Conformance(ctx)
	if err != nil {
		return err
	}
	suite := conformance.Suite{Program: program}
	all, err := suite.Tests(ctx)
	if err != nil {
		return err
	}
	known, err := conformance.LoadKnown(all)
	if err != nil {
		return err
	}
	if c.record {
		return record(c.Root, all, known, ledger)
	}
	chosen, err := c.choose(all, known, ledger)
	if err != nil {
		return err
	}
	if c.list {
		for _, test := range chosen {
			fmt.Println(test.Name)
		}
		return nil
	}
	if on == placement.Embedded {
		chosen, _ = known.Possible(chosen)
	}
	kubeconfig, end, err := c.access(ctx)
	if err != nil {
		return err
	}
	failed, err := c.runTests(ctx, conformance.Run{
		Suite: suite, Kubeconfig: kubeconfig, Kubectl: filepath.Join(playground.BinDir(c.Checkout), "kubectl"),
		Tests: chosen, Parallel: c.parallel,
	}, known, ledger)
	if err := errors.Join(err, end()); err != nil {
		if ctx.Err() != nil {
			return errors.New("interrupted: `lab conformance --again` continues")
		}
		return err
	}
	if failed > 0 {
		fmt.Printf("%d tests failed, and scripts/authoring/conformance/known.yaml does not say why.\n", failed)
		return cli.ErrReported
	}
	return nil
}

// record writes the results of earlier runs into the documentation, with the currently known reasons.
func record(root string, all []conformance.Test, known *conformance.Known, ledger *conformance.Ledger) error {
	_, impossible := known.Possible(all)
	for _, result := range append(ledger.Results(), impossible...) {
		result, _ := known.Explain(result)
		if err := ledger.Record(result); err != nil {
			return err
		}
	}
	fmt.Println(conformance.Summary(ledger.Results()))
	return ledger.Publish(root)
}

// choose returns the tests that the flags select.
func (c *conformanceRun) choose(
	all []conformance.Test, known *conformance.Known, ledger *conformance.Ledger,
) (chosen []conformance.Test, err error) {
	chosen = all
	switch {
	case c.sample:
		chosen = known.Sampled()
	case c.focus != "":
		if chosen, err = conformance.Focus(all, c.focus); err != nil {
			return nil, err
		}
	}
	if c.again {
		chosen = ledger.Remaining(chosen)
	}
	return chosen, nil
}

// access returns an administrator's kubeconfig for the cluster. The caller must call end.
func (c *conformanceRun) access(ctx context.Context) (kubeconfig string, end func() error, err error) {
	if err := c.EnsureControlPlane(ctx); err != nil {
		return "", nil, err
	}
	if err := playground.WriteKubectl(c.Checkout); err != nil {
		return "", nil, err
	}
	if !c.Embedded() {
		target, on, err := c.ExistingCluster(ctx, c.Checkout)
		if err != nil {
			return "", nil, err
		}
		if on == placement.Kind {
			if err := c.loadTestImages(ctx, placement.NodesOf(c.Checkout, target)); err != nil {
				return "", nil, err
			}
		}
		return target.File, func() error { return nil }, nil
	}
	wanted, err := testImages()
	if err != nil {
		return "", nil, err
	}
	// Otherwise the first Pod that needs an image would wait until it is built, within the time limit of its test.
	parts, err := c.EnsureNode(ctx, wanted...)
	if err != nil {
		return "", nil, err
	}
	cluster, err := embedded.StartWithNode(ctx, c.ControlPlane, parts)
	if err != nil {
		return "", nil, err
	}
	return cluster.Kubeconfig, cluster.Stop, nil
}

// testImages returns the images that the tests run.
func testImages() ([]images.Image, error) {
	catalogue, err := images.Load()
	if err != nil {
		return nil, err
	}
	wanted := catalogue.Set("conformance")
	for _, image := range catalogue.Images {
		if strings.HasPrefix(image.Reference, etcdImage) { // for the API server that a test aggregates
			wanted = append(wanted, image)
		}
	}
	return wanted, nil
}

// loadTestImages loads the images of the tests into the nodes of a kind cluster, which may have no access to a
// registry.
func (c *conformanceRun) loadTestImages(ctx context.Context, nodes kind.Nodes) error {
	wanted, err := testImages()
	if err != nil {
		return err
	}
	built, err := c.EnsureImages(ctx, wanted)
	if err != nil {
		return err
	}
	spinner := progress.Start(os.Stderr, "load the images of the tests into the nodes")
	if err := nodes.LoadImages(ctx, built...); err != nil {
		spinner.Fail()
		return err
	}
	spinner.Done()
	return nil
}

// runTests runs the tests, and prints and records their results. It returns how many failed for an unknown reason.
func (c *conformanceRun) runTests(
	ctx context.Context, run conformance.Run, known *conformance.Known, ledger *conformance.Ledger,
) (failed int, err error) {
	var results []conformance.Result
	fmt.Printf("%d tests, %d at a time. Each test prints a line when it ends.\n", len(run.Tests), run.Parallel)
	started := time.Now()
	run.Ended = func(result conformance.Result) error {
		result, expected := known.Explain(result)
		if !expected {
			failed++
		}
		results = append(results, result)
		left := time.Since(started) / time.Duration(len(results)) * time.Duration(len(run.Tests)-len(results))
		line := fmt.Sprintf("%d of %d, %s left: %-7s %s (%.0f s)",
			len(results), len(run.Tests), left.Round(time.Second), result.Verdict, result.Test, result.Seconds)
		fmt.Fprintln(os.Stdout, strings.TrimSuffix(line+": "+result.Why, ": "))
		return ledger.Record(result)
	}
	err = run.Do(ctx)
	fmt.Println(conformance.Summary(results))
	return failed, err
}

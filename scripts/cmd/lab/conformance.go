// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"lva.io/operators/clusters/embedded"
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
	flags.StringVar(&c.Focus, "focus", "", "run only the tests whose names match this regular expression")
	flags.BoolVar(&c.Sample, "sample", false, "run only the sample that CI runs")
	flags.BoolVar(&c.Again, "again", false, "run only those that have not passed in earlier runs")
	flags.BoolVar(&c.list, "list", false, "list the tests without running them")
	flags.BoolVar(&c.record, "record", false,
		"write the results of earlier runs to "+conformance.ResultsFile+", without running tests")
	flags.Var((*cli.Count)(&c.parallel), "parallel", "how many tests to run in parallel")
	c.register(command, "a fresh embedded cluster")
	cli.Exclusive(command, "sample", "focus")
	return command
}

// conformanceRun is one call of the command.
type conformanceRun struct {
	*checkout.Checkout
	clusterFlags
	conformance.Selection
	list, record bool
	parallel     int
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
		if err := ledger.Explain(all, known); err != nil {
			return err
		}
		fmt.Println(conformance.Summary(ledger.Results()))
		return ledger.Publish(c.Root)
	}
	chosen, err := c.Choose(all, known, ledger)
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
	failed, err := conformance.Run{
		Suite: suite, Kubeconfig: kubeconfig, Kubectl: filepath.Join(playground.BinDir(c.Checkout), "kubectl"),
		Tests: chosen, Parallel: c.parallel,
	}.Record(ctx, known, ledger, os.Stdout)
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
	wanted, err := conformance.Images()
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

// loadTestImages loads the images of the tests into the nodes of a kind cluster, which may have no access to a
// registry.
func (c *conformanceRun) loadTestImages(ctx context.Context, nodes kind.Nodes) error {
	wanted, err := conformance.Images()
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

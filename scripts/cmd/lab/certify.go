// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lva.io/operators/scripts/authoring/certify"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/changes"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/checkout/command"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/proving/gate"
	"lva.io/operators/scripts/proving/proof"
)

func certifyCommand() *cobra.Command {
	options := certify.Options{Out: os.Stdout}
	var draw certify.Draw
	var since string
	var repeating bool
	cmd := &cobra.Command{
		Use: "certify [N…]", GroupID: groupMaintainers,
		Short: "Prove the graders: skeleton, solution, right designs and every mutant get the grade they must",
		Example: "  lab certify\n  lab certify 2 --only oldest-goes\n" +
			"  lab certify --only solution --repeat 20 --load 20\n  lab certify --draw 2 --seed today --since main~20",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if draw.Mutants == 0 && (since != "" || draw.Seed != "") {
				return errors.New("--since and --seed apply only to drawn mutants: add --draw, or leave them out")
			}
			if repeating && (options.Repeat > 1 || options.Load > 0 || options.Soak > 1) {
				return errors.New("--forgive repeats what failed, so it cannot be combined with --repeat, --soak or --load")
			}
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			options.Checkout = repo
			drawn := &draw
			if draw.Mutants == 0 {
				drawn = nil
			}
			if since != "" {
				var runner *command.Runner
				if runner, err = command.NewRunner(); err != nil {
					return err
				}
				defer func() { err = errors.Join(err, runner.Close()) }()
				if draw.Since, err = changes.Since(cmd.Context(), runner, repo.Root, since); err != nil {
					return err
				}
			}
			labs, err := repo.Labs.Named(args)
			if err != nil {
				return err
			}
			if len(args) == 0 && len(options.Only) > 0 {
				labs = slices.DeleteFunc(labs, func(lab *manifest.Lab) bool {
					options.Lab = lab
					return !options.Has()
				})
			}
			if len(labs) == 0 {
				return fmt.Errorf("no lab has all of %s: name the lab to see what it has, as in `lab certify 2 --only %s`",
					strings.Join(options.Only, ", "), options.Only[0])
			}
			harness, err := proof.Harness(cmd.Context(), repo)
			if err != nil {
				return err
			}
			all, err := certify.Prepare(cmd.Context(), options, harness, labs...)
			if err != nil {
				return err
			}
			if !repeating {
				return certify.Labs(cmd.Context(), all, drawn)
			}
			return certify.Repeating(cmd.Context(), all, drawn, func(name, explained string) error {
				return gate.AddFlaky(repo.Root, gate.Flaky{Name: name, Output: explained})
			})
		},
	}
	cmd.Flags().StringSliceVar(&options.Only, "only", nil,
		"certify only these: skeleton, solution, or names of right designs and of mutants")
	options.Repeat, options.Parallel = 1, 1
	cmd.Flags().Var((*cli.Count)(&options.Repeat), "repeat", "how often to grade each submission")
	cmd.Flags().Var((*cli.Count)(&options.Parallel), "parallel", "how many to grade in parallel")
	cmd.Flags().BoolVar(&options.All, "all", false,
		"also grade submissions that are proven on this machine and unchanged since then")
	cmd.Flags().IntVar(&draw.Mutants, "draw", 0,
		"how many mutants of each lab to grade besides skeletons and solutions (default: all)")
	cmd.Flags().StringVar(&draw.Seed, "seed", "", "with --draw: what decides which mutants are drawn")
	cmd.Flags().StringVar(&since, "since", "",
		"with --draw: a commit that was certified. Mutants and designs that are new or different since then are graded, too")
	cmd.Flags().IntVar(&draw.Changed, "changed", 0, "with --since: how many mutants to draw of a lab that changed")
	cmd.Flags().IntVar(&draw.Most, "most", 0,
		"with --since: how many new or different submissions to grade at most (default: all)")
	cmd.Flags().BoolVar(&repeating, "forgive", false,
		"retry a failed submission alone, at most twice. If it passes, record it in out/flaky.json and continue")
	options.Soak = 1
	cmd.Flags().Var((*cli.Count)(&options.Soak), "soak",
		"how often to grade the solutions, each time after the first with another check first")
	cmd.Flags().Var((*cli.Count)(&options.Load), "load",
		"how many CPU-bound programs to run at the same time (default: none)")
	return cmd
}

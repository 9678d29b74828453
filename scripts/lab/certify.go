// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lva.io/operators/scripts/certify"
	"lva.io/operators/scripts/changes"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/cli"
	"lva.io/operators/scripts/command"
	"lva.io/operators/scripts/manifest"
	"lva.io/operators/scripts/parts"
)

func certifyCommand() *cobra.Command {
	options := certify.Options{Out: os.Stdout}
	var part int
	var since string
	cmd := &cobra.Command{
		Use: "certify [N…]", GroupID: groupMaintainers, Short: "Prove the graders: skeleton, solution, right designs and every mutant get the grade they must",
		Example: "  lab certify\n  lab certify 2 --only oldest-goes\n  lab certify --only solution --repeat 20 --load 20\n  lab certify --part 3 --since main~20",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if since != "" && part == 0 {
				return errors.New("--since says which mutants need not wait for their part: give --part as well, or leave it out")
			}
			if err := parts.Check(part); err != nil {
				return err
			}
			here, err := checkout.Find()
			if err != nil {
				return err
			}
			options.Checkout = here
			draw, end, err := draw(cmd.Context(), here, part, since)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, end()) }()
			var labs []*manifest.Lab
			for _, ref := range args {
				lab, err := here.Labs.Lab(ref)
				if err != nil {
					return err
				}
				labs = append(labs, lab)
			}
			for i := range here.Labs.Labs {
				options.Lab = &here.Labs.Labs[i]
				if len(args) == 0 && (len(options.Only) == 0 || options.Has()) {
					labs = append(labs, options.Lab)
				}
			}
			if len(labs) == 0 {
				return fmt.Errorf("no lab has all of %s: name the lab to see what it has, as in `lab certify 2 --only %s`",
					strings.Join(options.Only, ", "), options.Only[0])
			}
			withNode := slices.ContainsFunc(labs, func(lab *manifest.Lab) bool { return lab.NeedsNode(lab.Stage) })
			if err := here.Prepare(cmd.Context(), withNode, labs...); err != nil {
				return err
			}
			var all []certify.Options
			for _, lab := range labs {
				tools, err := tools(cmd.Context(), &choice{Checkout: here, Lab: lab})
				if err != nil {
					return err
				}
				if err := fetchModules(cmd.Context(), here, here.SolutionDir(lab), ""); err != nil {
					return err
				}
				options.Lab, options.ControllerGen, options.Checks = lab, tools.ControllerGen, tools.Checks
				options.WithNode = clusterWithNode(here, lab)
				mine := options
				if place := slices.IndexFunc(here.Labs.Labs, func(l manifest.Lab) bool { return l.Name == lab.Name }); part != 0 && parts.OfPlace(place) != part {
					mine.Soak = 1 // in the run of its own part
				}
				all = append(all, mine)
			}
			return certify.Labs(cmd.Context(), all, draw)
		},
	}
	cmd.Flags().StringSliceVar(&options.Only, "only", nil, "certify only these: skeleton, solution, or names of right designs and of mutants")
	options.Repeat, options.Parallel = 1, 1
	cmd.Flags().Var((*cli.Count)(&options.Repeat), "repeat", "grade each so many times")
	cmd.Flags().Var((*cli.Count)(&options.Parallel), "parallel", "grade so many at once")
	cmd.Flags().BoolVar(&options.All, "all", false, "grade also what is proven on this machine, since when nothing has changed that decides it")
	cmd.Flags().IntVar(&part, "part", 0, fmt.Sprintf("grade this part of the designs and mutants, 1 to %d, besides skeletons and solutions (default: all)", parts.Parts))
	cmd.Flags().StringVar(&since, "since", "", "with --part: a commit that was certified; those that are new or changed since then are graded, and all of a lab that changed")
	options.Soak = 1
	cmd.Flags().Var((*cli.Count)(&options.Soak), "soak", "grade the solutions so many times, with --part those of this part")
	cmd.Flags().Var((*cli.Count)(&options.Load), "load", "run so many programs meanwhile that only compute (default: none)")
	return cmd
}

// draw is what a part of the mutants and a commit mean: nil, if all mutants are graded. end ends what it has started.
func draw(ctx context.Context, here *checkout.Checkout, part int, commit string) (_ *certify.Draw, end func() error, err error) {
	end = func() error { return nil }
	if part == 0 {
		return nil, end, nil
	}
	draw := &certify.Draw{Part: part}
	if commit == "" {
		return draw, end, nil
	}
	runner, err := command.NewRunner()
	if err != nil {
		return nil, nil, err
	}
	if draw.Since, err = changes.Since(ctx, runner, here.Root, commit); err != nil {
		return nil, nil, errors.Join(err, runner.Close())
	}
	return draw, runner.Close, nil
}

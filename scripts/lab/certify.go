// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lva.io/operators/scripts/certify"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/cli"
	"lva.io/operators/scripts/manifest"
)

func certifyCommand() *cobra.Command {
	options := certify.Options{Out: os.Stdout}
	var within time.Duration
	var since int64
	var seed uint64
	command := &cobra.Command{
		Use: "certify [N…]", GroupID: groupMaintainers, Short: "Prove the graders: skeleton, solution, right designs and every mutant get the grade they must",
		Example: "  lab certify\n  lab certify 2 --only oldest-goes\n  lab certify --only solution --repeat 20 --busy\n  lab certify --within 25m --seed 7",
		RunE: func(command *cobra.Command, args []string) error {
			if command.Flags().Changed("within") && within <= 0 {
				return errors.New("--within wants a time above 0, such as 25m")
			}
			if command.Flags().Changed("since") && within == 0 {
				return errors.New("--since says when the time of --within began: give --within as well, or leave it out")
			}
			if !command.Flags().Changed("since") {
				since = time.Now().Unix()
			}
			if !command.Flags().Changed("seed") {
				seed = rand.Uint64()
			}
			var end time.Time
			if within > 0 {
				end = time.Unix(since, 0).Add(within)
			}
			here, err := checkout.Find()
			if err != nil {
				return err
			}
			options.Checkout = here
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
			if err := here.Prepare(command.Context(), withNode, labs...); err != nil {
				return err
			}
			var all []certify.Options
			for _, lab := range labs {
				tools, err := tools(command.Context(), &choice{Checkout: here, Lab: lab})
				if err != nil {
					return err
				}
				if err := fetchModules(command.Context(), here, here.SolutionDir(lab), ""); err != nil {
					return err
				}
				options.Lab, options.ControllerGen, options.Checks = lab, tools.ControllerGen, tools.Checks
				options.WithNode = clusterWithNode(here, lab)
				all = append(all, options)
			}
			return certify.Labs(command.Context(), all, end, seed)
		},
	}
	command.Flags().StringSliceVar(&options.Only, "only", nil, "certify only these: skeleton, solution, or names of right designs and of mutants")
	options.Repeat, options.Parallel = 1, 1
	command.Flags().Var((*cli.Count)(&options.Repeat), "repeat", "grade each so many times")
	command.Flags().Var((*cli.Count)(&options.Parallel), "parallel", "grade so many at once")
	command.Flags().BoolVar(&options.All, "all", false, "grade also what is proven on this machine, since when nothing has changed that decides it")
	command.Flags().DurationVar(&within, "within", 0, "how long all may take: mutants for which there is no time are counted, not graded (default: as long as it takes)")
	command.Flags().Int64Var(&since, "since", 0, "when the time of --within began, in seconds since 1970 (default: now)")
	command.Flags().Uint64Var(&seed, "seed", 0, "with --within: the mutants that are graded first (default: others each time)")
	command.Flags().BoolVar(&options.Busy, "busy", false, "keep all cores busy meanwhile")
	return command
}

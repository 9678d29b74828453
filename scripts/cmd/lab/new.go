// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"fmt"
	"path/filepath"

	"al.essio.dev/pkg/shellescape"
	"github.com/spf13/cobra"

	"lva.io/operators/scripts/authoring/scaffold"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/grading/playground"
	"lva.io/operators/scripts/grading/submission"
)

func newCommand() *cobra.Command {
	var options scaffold.Options
	command := &cobra.Command{
		Use: "new DIR", GroupID: groupStudents,
		Short: "Write a new operator's project, in kubebuilder's layout, into an empty folder",
		Long: "new writes a project with one kind, its controller, its tests and all that deploys it, " +
			"in the layout of kubebuilder v4.\n" +
			"It compiles and its tests pass. kubebuilder, if you have it, can add other APIs and webhooks to it.",
		Example: "  lab new webapp --domain lva.io --group apps --version v1alpha1 --kind WebApp",
		Args:    cli.OneArgument("folder", "webapp --domain lva.io --group apps --version v1alpha1 --kind WebApp"),
		RunE: func(command *cobra.Command, args []string) error {
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			if args[0] == "" {
				return fmt.Errorf("the folder's name is empty: write one, as in `%s webapp`", command.CommandPath())
			}
			options.Dir = args[0]
			project, err := scaffold.New(repo.Root, options)
			if err != nil {
				return err
			}
			controllerGen, err := repo.ControllerGen(command.Context())
			if err != nil {
				return err
			}
			files, err := project.Create(command.Context(), controllerGen, func(dir string) error {
				return submission.FetchMissing(command.Context(), "the project", &submission.Builder{
					Submission: &submission.Submission{Dir: dir},
				})
			})
			if err != nil {
				return err
			}
			folder := cli.Relative(project.Dir)
			fmt.Printf("%s has %d files: an operator for the kind %s of %s/%s. Next:\n  cd %s\n  make help\n  make test\n",
				folder, len(files), project.Kind, project.APIGroup, project.Version, folder)
			if inside, err := filepath.Rel(repo.Root, project.Dir); err != nil || !filepath.IsLocal(inside) {
				fmt.Printf("make there finds this lab command on your PATH:\n  export PATH=\"$PATH\":%s\n",
					shellescape.Quote(playground.BinDir(repo)))
			}
			return nil
		},
	}
	command.Flags().StringVar(&options.Domain, "domain", "", "the domain of the API's group, as lva.io")
	command.Flags().StringVar(&options.Group, "group", "", "the part of the API's group before the domain, such as apps")
	command.Flags().StringVar(&options.Version, "version", "", "the version of the API, as v1alpha1")
	command.Flags().StringVar(&options.Kind, "kind", "", "the kind, as WebApp")
	command.Flags().StringVar(&options.Module, "repo", "",
		"the path of the Go module (default: DOMAIN/ and the folder's name)")
	command.Flags().BoolVar(&options.Webhook, "webhook", false,
		"with a defaulting and a validating webhook, which need cert-manager where they are deployed")
	return command
}

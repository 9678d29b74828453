// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"lva.io/operators/clusters/docker"
	"lva.io/operators/clusters/images"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/cmd/cluster/internal/create"
	"lva.io/operators/scripts/cmd/cluster/internal/environment"
	"lva.io/operators/scripts/cmd/cluster/internal/steps"
)

func imagesCommand() *cobra.Command {
	var build bool
	command := &cobra.Command{
		Use:   "images [SET…]",
		Short: "List the images of the catalogue, or of some of its sets, with their sizes; --build builds them",
		RunE: func(command *cobra.Command, args []string) error {
			env, err := environment.Find(docker.DefaultCluster)
			if err != nil {
				return err
			}
			wanted, err := ofSets(args)
			if err != nil {
				return err
			}
			if build {
				if err := env.Steps.Run(command.Context(), []steps.Step{buildStep(env, wanted, nil)}); err != nil {
					return err
				}
			}
			found, err := env.Store.Find(wanted)
			if err != nil {
				return err
			}
			return listImages(os.Stdout, wanted, found)
		},
	}
	command.Flags().BoolVar(&build, "build", false, "build missing images")
	return command
}

func listImages(out io.Writer, wanted []images.Image, found []images.Built) error {
	built := map[string]images.Built{}
	for _, image := range found {
		built[image.Reference] = image
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "IMAGE\tSET\tSIZE\tID")
	for _, image := range wanted {
		size, id := "not built", ""
		if b, ok := built[image.Reference]; ok {
			size, id = environment.Megabytes(b.Size), b.ID
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%.19s\n", image.Reference, image.Set, size, id)
	}
	return table.Flush()
}

// buildStep ensures that the store has images, and prints each built image with its time and size.
func buildStep(env *environment.Environment, wanted []images.Image, built *[]images.Built) steps.Step {
	return steps.Step{Name: "images", Do: func(ctx context.Context, report func(string)) (string, error) {
		all, err := env.Build(ctx, wanted, report)
		if built != nil {
			*built = all
		}
		return english.Plural(len(all), "image", ""), err
	}}
}

// ofSets returns the images of some sets, or the usual ones.
func ofSets(sets []string) ([]images.Image, error) {
	catalogue, err := images.Load()
	if err != nil {
		return nil, err
	}
	if len(sets) == 0 {
		return catalogue.DefaultImages(), nil
	}
	var wanted []images.Image
	for _, set := range sets {
		if !slices.Contains(catalogue.Sets(), set) {
			return nil, fmt.Errorf("the catalogue has no set %q: choose from %s", set, strings.Join(catalogue.Sets(), ", "))
		}
		wanted = append(wanted, catalogue.Set(set)...)
	}
	return wanted, nil
}

func loadCommand() *cobra.Command {
	var name string
	command := &cobra.Command{
		Use:   "load [IMAGE…]",
		Short: "Load images of the catalogue (default: the course's own) into the nodes that lack them",
		RunE: func(command *cobra.Command, args []string) error {
			env, err := environment.Find(name)
			if err != nil {
				return err
			}
			catalogue, err := images.Load()
			if err != nil {
				return err
			}
			wanted := catalogue.Set("course")
			if len(args) > 0 {
				wanted = nil
			}
			for _, reference := range args {
				image, err := catalogue.Image(reference)
				if err != nil {
					return fmt.Errorf("%w: `cluster images` lists those that it has", err)
				}
				wanted = append(wanted, image)
			}
			var built []images.Built
			return env.Steps.Run(command.Context(), []steps.Step{
				buildStep(env, wanted, &built),
				{Name: "load", Limit: create.StepTime, Do: func(ctx context.Context, report func(string)) (string, error) {
					loaded, err := env.Cluster.Load(ctx, env.Store, built, func(done int64) {
						report(environment.Megabytes(done) + " into all nodes together")
					})
					return english.Plural(loaded, "image", "") + " were missing", err
				}},
			})
		},
	}
	nameFlag(command, &name)
	return command
}

func bundleCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "bundle", Short: "Transfer all images to a machine without a compiler or a network", Args: cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	command.AddCommand(
		&cobra.Command{
			Use: "save FILE", Short: "Write all images and charts into a file, building what is missing", Args: oneFile,
			RunE: func(command *cobra.Command, args []string) error { return saveBundle(command.Context(), args[0]) },
		},
		&cobra.Command{
			Use: "load FILE", Short: "Load all images and charts from such a file", Args: oneFile,
			RunE: func(command *cobra.Command, args []string) error { return loadBundle(command.Context(), args[0]) },
		},
	)
	return command
}

func oneFile(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return errors.New("name the bundle's file")
	}
	return nil
}

func saveBundle(ctx context.Context, name string) error {
	env, err := environment.Find(docker.DefaultCluster)
	if err != nil {
		return err
	}
	wanted, err := ofSets(nil)
	if err != nil {
		return err
	}
	return env.Steps.Run(ctx, []steps.Step{
		buildStep(env, wanted, nil),
		{Name: "save", Do: func(ctx context.Context, report func(string)) (string, error) {
			// An interrupted bundle must not be mistaken for a complete one.
			partial := name + ".part"
			file, err := os.Create(partial)
			if err != nil {
				return "", fmt.Errorf("writing the bundle: %w", err)
			}
			defer os.Remove(partial)
			out := &counted{to: file, report: report}
			if err := errors.Join(env.Store.Save(ctx, out), file.Close()); err != nil {
				return "", err
			}
			return fmt.Sprintf("%s, %s", name, environment.Megabytes(out.n)), os.Rename(partial, name)
		}},
	})
}

func loadBundle(ctx context.Context, name string) error {
	env, err := environment.Find(docker.DefaultCluster)
	if err != nil {
		return err
	}
	file, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("reading the bundle: %w", err)
	}
	defer file.Close()
	return env.Steps.Run(ctx, []steps.Step{{Name: "load", Do: func(ctx context.Context, _ func(string)) (string, error) {
		return env.Store.Dir, images.Restore(ctx, env.Store.Dir, bufio.NewReaderSize(file, 1<<20))
	}}})
}

// counted reports how many bytes were written.
type counted struct {
	to     io.Writer
	n      int64
	report func(string)
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	c.report(environment.Megabytes(c.n))
	return n, err
}

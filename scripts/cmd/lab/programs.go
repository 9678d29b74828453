// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/process"
	"lva.io/operators/clusters/progress"
	"lva.io/operators/clusters/removal"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/checkout/programs"
	"lva.io/operators/scripts/checkout/programs/archive"
	"lva.io/operators/scripts/checkout/programs/reference"
	"lva.io/operators/scripts/grading/submission"
)

func programsCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "programs", GroupID: groupMaintainers,
		Short: "Save prebuilt programs in an archive, or verify one", Args: cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	command.AddCommand(saveProgramsCommand(), verifyProgramsCommand())
	return command
}

func saveProgramsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "save FILE", Short: "Save all programs of this checkout, and what a student's first build needs",
		Long: "save builds what is missing or stale of all programs, and writes them into an archive for this system. " +
			"It has the modules and compiled\n" +
			"packages of a student's first build, too. The last line is for programs.lock.",
		Example: "  lab programs save programs-linux-amd64.tar", Args: cli.OneArgument("file", "programs-linux-amd64.tar"),
		RunE: func(command *cobra.Command, args []string) error {
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			return savePrograms(command.Context(), repo, args[0], command.OutOrStdout())
		},
	}
}

func savePrograms(ctx context.Context, repo *checkout.Checkout, name string, out io.Writer) (err error) {
	// The programs to save are built here. Programs from an archive would only copy that archive.
	if err := os.Setenv(reference.Variable, "none"); err != nil {
		return err
	}
	layers, err := programs.Layers(repo.Root)
	if err != nil {
		return err
	}
	installed, err := gobuild.Installed(ctx)
	if err != nil {
		return err
	}
	if name, err = filepath.Abs(name); err != nil {
		return err
	}
	if info, err := os.Stat(filepath.Dir(name)); err != nil || !info.IsDir() {
		return fmt.Errorf("%s is not a folder: name a file in an existing folder", filepath.Dir(name))
	}
	if err := programs.Ensure(ctx, repo.Root, os.Stderr, programs.All(layers)...); err != nil {
		return err
	}
	caches, err := os.MkdirTemp(filepath.Dir(name), removal.Temporary("."+filepath.Base(name)+"."))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removal.All(caches)) }()
	if err := firstBuilds(ctx, repo, caches, installed); err != nil {
		return err
	}
	var contents []archive.Content
	for _, layer := range layers {
		content := archive.Content{Name: layer.Name, Programs: programs.Targets(layer.Programs)}
		if layer.First {
			content.ModuleCache, content.BuildCache = filepath.Join(caches, "modules"), filepath.Join(caches, "builds")
		}
		contents = append(contents, content)
	}
	bar := progress.Start(os.Stderr, "compress")
	saved, sum, err := archive.Save(ctx, repo.Root, name, contents, installed, func(layer string) {
		bar.Set("the layer "+layer, 0, 0)
	})
	if err != nil {
		bar.Fail()
		return err
	}
	bar.Done()
	for _, layer := range saved.Layers {
		fmt.Fprintf(out, "%-8s %8s, %s unpacked, %d programs\n",
			layer.Name, humanize.Bytes(uint64(layer.Size)), humanize.Bytes(uint64(layer.Unpacked)), len(layer.Programs))
	}
	fmt.Fprintf(out, "%s %s\n", saved.System, reference.Reference{Source: filepath.Base(name), SHA256: sum})
	return nil
}

// firstBuilds builds all solutions with the empty caches of a folder. The caches then hold what a student's first build
// needs.
func firstBuilds(
	ctx context.Context, repo *checkout.Checkout, caches string, installed gobuild.Installation,
) (err error) {
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scope.Close()) }()
	// Modules in this machine's cache are not downloaded again.
	from := "file://" + filepath.ToSlash(filepath.Join(installed.ModuleCache, "cache", "download")) + "," + installed.Proxy
	// This process does nothing after these builds.
	if err := errors.Join(
		os.Setenv("GOPROXY", from), os.Setenv("GOMODCACHE", filepath.Join(caches, "modules")),
		os.Setenv("GOCACHE", filepath.Join(caches, "builds")),
	); err != nil {
		return err
	}
	bar := progress.Start(os.Stderr, "compile what students' first builds need")
	for i := range repo.Labs.Labs {
		lab := &repo.Labs.Labs[i]
		bar.Set("labs", i, len(repo.Labs.Labs))
		opened, err := submission.Open(repo.SolutionDir(lab), "")
		if err == nil {
			builder := submission.Builder{Submission: opened, Scope: scope, Urgent: true}
			if err = builder.Fetch(ctx, func(int, int) {}); err == nil {
				err = builder.Build(ctx)
			}
		}
		if err != nil {
			bar.Fail()
			return fmt.Errorf("building the solution of lab %d: %w", lab.Number, err)
		}
	}
	bar.Done()
	return nil
}

func verifyProgramsCommand() *cobra.Command {
	sample := 0
	command := &cobra.Command{
		Use: "verify ARCHIVE", Short: "Compile the programs of an archive, and compare them with it bit for bit",
		Long: "verify compiles the programs of an archive from the sources of this checkout, " +
			"with an empty build cache, and compares their SHA-256 with\n" +
			"those that the archive's manifest names. ARCHIVE is a file or a URL. All programs take a quarter of an hour.",
		Example: "  lab programs verify programs-linux-amd64.tar --sample 3",
		Args:    cli.OneArgument("archive", "programs-linux-amd64.tar"),
		RunE: func(command *cobra.Command, args []string) error {
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			return verifyPrograms(command.Context(), repo, args[0], sample, command.OutOrStdout())
		},
	}
	command.Flags().Var((*cli.Count)(&sample), "sample", "how many randomly drawn programs to compile (default: all)")
	return command
}

func verifyPrograms(ctx context.Context, repo *checkout.Checkout, name string, sample int, out io.Writer) (err error) {
	named, err := reference.Parse(name)
	if err != nil {
		return err
	}
	installed, err := gobuild.Installed(ctx)
	if err != nil {
		return err
	}
	opened, err := archive.Open(ctx, named, archive.DefaultPace)
	if err != nil {
		return err
	}
	layers, err := programs.Layers(repo.Root)
	if err != nil {
		return err
	}
	all := programs.All(layers)
	if sample > 0 && sample < len(all) {
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:sample]
	}
	work, err := os.MkdirTemp(filepath.Join(repo.Root, ".cache"), removal.Temporary("verify-"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removal.All(work)) }()
	if err := os.Setenv("GOCACHE", filepath.Join(work, "builds")); err != nil {
		return err
	}
	var differ []string
	for _, program := range all {
		result, err := opened.Compare(ctx, repo.Root, program.Target, installed, filepath.Join(work, "program"))
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%-40s %s\n", program.What, result)
		if result != archive.Same {
			differ = append(differ, program.What)
		}
	}
	if len(differ) > 0 {
		return fmt.Errorf("the archive %s differs from what these sources build with %s: %s",
			named.Source, installed.Version, strings.Join(differ, ", "))
	}
	return nil
}

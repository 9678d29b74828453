// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command arrive installs prebuilt programs in the checkout in the current folder, from the archive that the checkout
// names. Its arguments are the files of the missing programs. If it can't install them, it prints one sentence and
// exits with code 1, and the caller compiles them.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/process"
	"lva.io/operators/clusters/progress"
	"lva.io/operators/scripts/checkout/programs"
	"lva.io/operators/scripts/checkout/programs/archive"
	"lva.io/operators/scripts/checkout/programs/reference"
)

func main() {
	process.EndWithParent()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		if ctx.Err() == nil {
			fmt.Fprintf(os.Stderr, "Could not install prebuilt programs: %v. Compiling them instead.\n", err)
		}
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, files []string) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	named, ok, err := reference.Locked(root, runtime.GOOS+"/"+runtime.GOARCH)
	if err != nil || !ok {
		return err
	}
	return install(ctx, root, os.Stderr, named, files)
}

// install installs the programs with these files if the archive has them and they match the sources. The other programs
// in their layers are installed, too.
func install(ctx context.Context, root string, out *os.File, named reference.Reference, files []string) error {
	installed, err := gobuild.Installed(ctx)
	if err != nil {
		return err
	}
	opened, err := archive.Open(ctx, named, archive.DefaultPace)
	if err != nil {
		return err
	}
	if opened.Go != installed.Version {
		return fmt.Errorf("the archive %s is for %s, and this is %s", named.Source, opened.Go, installed.Version)
	}
	layers, err := programs.Layers(root)
	if err != nil {
		return err
	}
	all := programs.Targets(programs.All(layers))
	stale := slices.DeleteFunc(slices.Clone(all), func(t gobuild.Target) bool { return !slices.Contains(files, t.Output) })
	wanted := opened.Wanted(root, stale, installed)
	if len(wanted) == 0 && opened.Names(root, stale) {
		return fmt.Errorf("the archive %s was made from other sources", named.Source)
	}
	for _, layer := range wanted {
		if err := installLayer(ctx, root, out, opened, layer, all, installed); err != nil {
			return err
		}
	}
	return nil
}

func installLayer(
	ctx context.Context, root string, out *os.File, opened *archive.Archive, layer archive.Layer,
	all []gobuild.Target, installed gobuild.Installation,
) error {
	const megabyte = 1 << 20
	bar := progress.Start(out, fmt.Sprintf("install prebuilt programs (%s)", layer.Name))
	err := opened.Install(ctx, root, layer, all, installed, func(done, total int64) {
		bar.Set("MB", int(done/megabyte), int(total/megabyte))
	})
	if err != nil {
		bar.Fail()
		return err
	}
	bar.Done()
	return nil
}

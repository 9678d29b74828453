// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package slides

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"lva.io/operators/scripts/authoring/docs"
	"lva.io/operators/scripts/checkout/command"
)

// Format is the output format of a deck: the extension of its file.
type Format string

// The formats of Decks.
const (
	HTML Format = "html"
	PDF  Format = "pdf"
)

// Chromium finds the program with this name, or with a name that it has on some other systems, on PATH. It returns an
// error if the program is missing.
func Chromium() (program string, err error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if program, err = exec.LookPath(name); err == nil {
			return program, nil
		}
	}
	return "", errors.New("no Chromium is on PATH: install it (Debian: apt-get install chromium)")
}

// Source is the folder of the decks, below the root of a checkout.
func Source(root string) string { return filepath.Join(root, "docs", "slides") }

// Decks returns the names of the decks in the order of the lectures. A deck has the name of its lecture.
func Decks(root string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(Source(root), "[0-9]*.md"))
	if err != nil {
		return nil, err
	}
	for i, file := range files {
		files[i] = strings.TrimSuffix(filepath.Base(file), ".md")
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("there are no decks in %s", Source(root))
	}
	slices.Sort(files)
	return files, nil
}

// Build writes all decks into a folder, in the given formats, and reports each step to progress. It needs Node, npm
// and, for PDF, Chromium. It installs Marp with npm if docs/slides/node_modules is missing or older than the lock file.
func Build(ctx context.Context, root, out string, progress io.Writer, formats ...Format) error {
	decks, err := Decks(root)
	if err != nil {
		return err
	}
	browser, err := tools(slices.Contains(formats, PDF))
	if err != nil {
		return err
	}
	runner, err := command.NewRunner()
	if err != nil {
		return err
	}
	err = errors.Join(build(ctx, runner, Source(root), out, browser, decks, progress, formats), runner.Close())
	if err != nil {
		return fmt.Errorf("building the slides: %w", err)
	}
	return nil
}

// tools finds Chromium. If a program is missing, its error names what to install.
func tools(withBrowser bool) (browser string, err error) {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			return "", fmt.Errorf("the slides are built with Node, and no %s is on PATH: "+
				"install it (Debian: apt-get install nodejs npm)", program)
		}
	}
	if !withBrowser {
		return "", nil
	}
	if browser, err = Chromium(); err != nil {
		return "", fmt.Errorf("printing the slides as PDF: %w", err)
	}
	return browser, nil
}

func build(ctx context.Context, runner *command.Runner, source, out, browser string, decks []string,
	progress io.Writer, formats []Format,
) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	if err := install(ctx, runner, source, progress); err != nil {
		return err
	}
	input, err := copyDecks(decks, source, runner.Dir())
	if err != nil {
		return err
	}
	for _, format := range formats {
		fmt.Fprintf(progress, "%s of %d decks\n", strings.ToUpper(string(format)), len(decks))
		// Chromium's own sandbox does not work for root, and the decks are trusted. The runner removes the files that
		// Chromium leaves.
		variables := []string{"CHROME_NO_SANDBOX=1", "TMPDIR=" + runner.Dir(), "HOME=" + runner.Dir(), "CI=true"}
		args := []string{"--config-file", "marp.config.mjs", "--input-dir", input, "--output", out, "--no-stdin"}
		if format == PDF {
			args = append(args, "--pdf", "--pdf-notes", "--pdf-outlines",
				"--browser", "chrome", "--browser-path", browser, "--browser-timeout", "120")
		}
		if _, err := runner.Run(ctx, source, variables,
			filepath.Join(source, "node_modules", ".bin", "marp"), args...); err != nil {
			return err
		}
	}
	for _, deck := range decks {
		for _, format := range formats {
			file := filepath.Join(out, deck+"."+string(format))
			if _, err := os.Stat(file); err != nil {
				return fmt.Errorf("a deck was not written, although Marp reported no error: %w", err)
			}
			fmt.Fprintln(progress, "  "+file)
		}
	}
	return nil
}

// copyDecks copies the decks into a separate folder, because Marp treats every Markdown file of a folder as a deck,
// including the README. The copies have no markers of code (see package docs), because Marp treats every comment that
// is not a setting as a note.
func copyDecks(decks []string, source, dir string) (string, error) {
	input := filepath.Join(dir, "decks")
	if err := os.Mkdir(input, 0o755); err != nil {
		return "", err
	}
	for _, deck := range decks {
		content, err := os.ReadFile(filepath.Join(source, deck+".md"))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(input, deck+".md"), docs.WithoutMarkers(content), 0o644); err != nil {
			return "", err
		}
	}
	return input, nil
}

// installed is a copy of the lock file from which node_modules was made.
const installed = "node_modules/.operator-labs-lock.json"

func install(ctx context.Context, runner *command.Runner, source string, progress io.Writer) error {
	lock, err := os.ReadFile(filepath.Join(source, "package-lock.json"))
	if err != nil {
		return err
	}
	stamp := filepath.Join(source, installed)
	have, err := os.ReadFile(stamp)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if bytes.Equal(have, lock) {
		return nil
	}
	fmt.Fprintln(progress, "npm installs Marp, as package-lock.json pins it")
	if _, err := runner.Run(ctx, source, nil, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"); err != nil {
		return err
	}
	return os.WriteFile(stamp, lock, 0o644)
}

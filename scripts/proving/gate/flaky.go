// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package gate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Flaky is a test or a grade that failed, and passed when it was repeated alone.
type Flaky struct {
	// Name is the name of the test with its package, or of the lab and the submission.
	Name string `json:"name"`
	// Output is the output of the failure.
	Output string `json:"output"`
}

func flakyFile(root string) string { return filepath.Join(root, "out", "flaky.json") }

// AddFlaky adds entries to out/flaky.json of the checkout at root.
func AddFlaky(root string, more ...Flaky) error {
	if len(more) == 0 {
		return nil
	}
	all, err := readFlaky(root)
	if err != nil {
		return err
	}
	content, err := json.MarshalIndent(append(all, more...), "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(flakyFile(root)), 0o755); err != nil {
		return fmt.Errorf("creating the folder for flaky.json: %w", err)
	}
	return os.WriteFile(flakyFile(root), append(content, '\n'), 0o644)
}

func readFlaky(root string) (all []Flaky, err error) {
	content, err := os.ReadFile(flakyFile(root))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("reading which tests were flaky: %w", err)
	}
	return all, nil
}

func forgetFlaky(root string) error {
	if err := os.Remove(flakyFile(root)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the list of flaky tests of the last gate: %w", err)
	}
	return nil
}

// judgeFlaky names the flaky tests of this gate. Too many of them are an error.
func judgeFlaky(root string, out io.Writer) error {
	all, err := readFlaky(root)
	if err != nil {
		return err
	}
	for _, flaky := range all {
		fmt.Fprintf(out, "FLAKY: %s passed only when it was repeated alone. Fix it, or move it to the proof; "+
			"out/flaky.json has the output.\n", flaky.Name)
	}
	if len(all) > tolerated {
		return fmt.Errorf("%d tests and grades are flaky, and the gate tolerates %d", len(all), tolerated)
	}
	return nil
}

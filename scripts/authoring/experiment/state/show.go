// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package state

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"lva.io/operators/scripts/grading/report/terminal"
)

// Show prints the charts, and writes the charts and the figures into a folder.
func (r *Result) Show(out io.Writer, dir string) error {
	screen := terminal.Detect(out, os.Getenv)
	if !screen.Interactive {
		screen.Width = 100
	}
	figures, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	files := map[string][]byte{"result.json": append(figures, '\n'), "tables.md": []byte(r.Tables())}
	for _, c := range r.Charts() {
		text, err := c.Terminal(min(screen.Width, 120), screen.Color)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "\n%s", text)
		if files[c.Name+".svg"], err = c.SVG(); err != nil {
			return err
		}
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil { //nolint:gosec // readable by all users
			return fmt.Errorf("writing what was measured: %w", err)
		}
	}
	_, err = fmt.Fprintf(out, "\n%s\nThe charts as SVG, and the figures: %s\n", r.Tables(), dir)
	return err
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"lva.io/operators/scripts/grading/limited"
	"lva.io/operators/scripts/grading/report"
)

// keptLimit is the maximum size of such a file in bytes. A submission that ran here may have replaced the file.
const keptLimit = 1 << 20

// readKept reads a file of remembered values beside the reports. The values are by name. what completes the sentence
// "reading …".
func readKept[Value any](dir, file, what string) (map[string]Value, error) {
	kept := map[string]Value{}
	content, err := limited.ReadFile(dir, file, keptLimit)
	if errors.Is(err, os.ErrNotExist) {
		return kept, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &kept)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w; remove the file to start over", what, err)
	}
	return kept, nil
}

// writeKept replaces such a file in one step: on a full disk, or if this process is killed, the earlier values remain.
func writeKept[Value any](dir, file, what string, kept map[string]Value) error {
	content, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	if err := report.WriteFile(filepath.Join(dir, file), content); err != nil {
		return fmt.Errorf("saving %s: %w", what, err)
	}
	return nil
}

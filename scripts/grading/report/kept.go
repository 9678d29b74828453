// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"lva.io/operators/scripts/grading/limited"
)

// keptLimit is the maximum size of a file of ReadKept in bytes. A submission that ran here may have replaced the file.
const keptLimit = 1 << 20

// ReadKept reads a file of values that a later run needs, beside the reports. The values are by name, and there are
// none if the file is missing. The map is never nil without an error. what completes the sentence "reading …".
func ReadKept[Value any](dir, file, what string) (map[string]Value, error) {
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
	if kept == nil { // the file contains null
		kept = map[string]Value{}
	}
	return kept, nil
}

// WriteKept writes a file for ReadKept in one step: on a full disk, or if this process is killed, the earlier values
// remain.
func WriteKept[Value any](dir, file, what string, kept map[string]Value) error {
	content, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	if err := WriteFile(filepath.Join(dir, file), content); err != nil {
		return fmt.Errorf("saving %s: %w", what, err)
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import (
	"fmt"

	"lva.io/operators/clusters/removal"
)

// LeftoverError reports that some file in a run folder can't be removed in any way that we tried. It does no harm,
// because each new scope tries again.
type LeftoverError struct {
	// Dir is the run folder.
	Dir string
	Err error
}

func (e *LeftoverError) Error() string {
	return fmt.Sprintf("the run folder %s can't be removed (%v): the next run tries again, or remove it yourself",
		e.Dir, e.Err)
}

func (e *LeftoverError) Unwrap() error { return e.Err }

// removeAll removes a folder with everything that a program has left there. The error is a *LeftoverError.
func removeAll(dir string) error {
	var err error
	for range 3 { // a dying process may still be creating files
		if err = removal.All(dir); err == nil {
			return nil
		}
	}
	return &LeftoverError{Dir: dir, Err: err}
}

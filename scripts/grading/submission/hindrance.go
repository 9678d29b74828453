// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import "lva.io/operators/clusters/gobuild"

// HindranceError is an error of the machine, the network or another program. It says nothing about the submission.
type HindranceError struct {
	// Reason is a sentence that says what is wrong and what to do.
	Reason string
}

func (e *HindranceError) Error() string { return e.Reason }

// hindrance makes what the machine did to our own files, such as a full disk, a *HindranceError.
func hindrance(err error) error {
	if err == nil {
		return nil
	}
	if reason, is := gobuild.MachineFault(err.Error()); is {
		return &HindranceError{Reason: reason}
	}
	return err
}

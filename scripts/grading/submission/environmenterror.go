// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import "lva.io/operators/clusters/gobuild"

// EnvironmentError is an error of the machine, the network or another program. It is not an error of the submission.
type EnvironmentError struct {
	// Reason is a sentence that describes what is wrong and what to do.
	Reason string
}

func (e *EnvironmentError) Error() string { return e.Reason }

// environmentError returns a *EnvironmentError if err is a fault of the machine, such as a full disk, and otherwise err
// itself.
func environmentError(err error) error {
	if err == nil {
		return nil
	}
	if reason, is := gobuild.MachineFault(err.Error()); is {
		return &EnvironmentError{Reason: reason}
	}
	return err
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package freezer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"lva.io/operators/scripts/services/service"
)

// Open returns a freezer that keeps its ledger in a JSON file. The file is written before a booking is answered, and
// read by the next Open. If it does not exist, the freezer is full. Its folder must exist. Only one freezer at a time
// may use a file.
func Open(file string) (*Freezer, error) {
	var kept movements
	content, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("opening the freezer: %w", err)
	default:
		if err := json.Unmarshal(content, &kept); err != nil {
			return nil, fmt.Errorf("opening the freezer: %s is not a ledger: %w; "+
				"remove it to begin with a full freezer", file, err)
		}
	}
	for i, movement := range kept.Movements {
		if err := movement.check(); err != nil {
			return nil, fmt.Errorf("opening the freezer: movement %d of %s: %w; "+
				"remove the file to begin with a full freezer", i+1, file, err)
		}
	}
	l := newLedger(kept.Movements)
	l.keep = func(all []Movement) error {
		if err := service.Save(file, movements{all}); err != nil {
			return fmt.Errorf("writing the freezer's ledger: %w", err)
		}
		return nil
	}
	return newFreezer(l), nil
}

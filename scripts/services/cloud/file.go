// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cloud

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"lva.io/operators/scripts/services/service"
)

// Open is a cloud that keeps its instances and tokens in a JSON file: it is written before a request is answered, and
// read by the next Open. A file that is not there is a cloud without instances; its folder must be there. One cloud at
// a time has a file.
func Open(file string) (*Cloud, error) {
	var kept state
	content, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("opening the cloud: %w", err)
	default:
		if kept, err = decode(content); err != nil {
			return nil, fmt.Errorf("opening the cloud: %s is not what a cloud has written: %w; remove it to begin without instances", file, err)
		}
	}
	a := newAccount(kept)
	a.keep = func(now state) error {
		if err := service.Save(file, now); err != nil {
			return fmt.Errorf("writing the cloud's instances: %w", err)
		}
		return nil
	}
	return newCloud(a), nil
}

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

// Open returns a cloud that keeps its instances and tokens in a JSON file. The file is written before a request is
// answered, and read by the next Open. If it does not exist, the cloud has no instances. Its folder must exist. Only
// one cloud at a time may use a file.
func Open(file string) (*Cloud, error) {
	var kept state
	content, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("opening the cloud: %w", err)
	default:
		if kept, err = decode(content); err != nil {
			return nil, fmt.Errorf("opening the cloud: %s is not what a cloud has written: %w; "+
				"remove it to begin without instances", file, err)
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

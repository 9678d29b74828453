// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package removal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Temporary returns a name pattern for os.MkdirTemp and os.CreateTemp. It begins with a prefix and includes the process
// number, so that Abandoned can check whether its process still runs.
func Temporary(prefix string) string { return fmt.Sprintf("%s%d-*", prefix, os.Getpid()) }

// Abandoned removes from a folder all entries with this prefix and a temporary name whose processes have ended. An
// entry that can't be removed does no harm, because the next call tries again.
func Abandoned(dir, prefix string) {
	entries, _ := os.ReadDir(dir) // without the folder there is nothing to remove
	for _, entry := range entries {
		rest, found := strings.CutPrefix(entry.Name(), prefix)
		process, random, _ := strings.Cut(rest, "-")
		number, err := strconv.Atoi(process)
		_, randomErr := strconv.Atoi(random)
		if found && errors.Join(err, randomErr) == nil && number > 0 && errors.Is(syscall.Kill(number, 0), syscall.ESRCH) {
			_ = All(filepath.Join(dir, entry.Name()))
		}
	}
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package skeleton

import (
	"bytes"
	"maps"
	"path/filepath"
	"slices"

	"lva.io/operators/scripts/grading/limited"
)

// fileLimit is the maximum size, in bytes, of a file that is compared with the lab's initial files.
const fileLimit = 1 << 20

// NotStarted returns the numbers of the steps of a lab that a submission has not started: all of their regions are
// unchanged. A region that the submission does not have, for example because its layout differs, counts as started.
func NotStarted(root, lab, submission string) ([]int, error) {
	files, err := readFolder(filepath.Join(root, "solutions", lab))
	if err != nil {
		return nil, err
	}
	sources, regions, err := parseAll(lab, files)
	if err != nil {
		return nil, err
	}
	notStarted := map[int]bool{}
	for _, r := range regions {
		if r.Step == 0 {
			continue
		}
		content, err := limited.ReadFile(submission, r.File, fileLimit)
		same := err == nil && sources[r.File].untouched(r, bytes.ReplaceAll(content, []byte(labsPath), []byte(solutionsPath)))
		unchanged, known := notStarted[r.Step]
		notStarted[r.Step] = same && (unchanged || !known)
	}
	maps.DeleteFunc(notStarted, func(_ int, unchanged bool) bool { return !unchanged })
	return slices.Sorted(maps.Keys(notStarted)), nil
}

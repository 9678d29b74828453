// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package verify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"lva.io/operators/scripts/authoring/runs"
	"lva.io/operators/scripts/checkout/manifest"
)

var recordings = Check{
	Name:     "recordings",
	Sentence: "the recorded runs have the checks of their labs, and failed those that their mutants name",
	Find: func(_ context.Context, r *Repository) ([]Finding, error) {
		list, err := manifest.Load(r.Root)
		if err != nil {
			return nil, err
		}
		var findings []Finding
		for i := range list.Labs {
			all, err := runs.Required(r.Root, &list.Labs[i])
			if errors.Is(err, fs.ErrNotExist) {
				return nil, nil // a repository without recordings
			}
			if err != nil {
				return []Finding{{Location: runs.Folder, Message: err.Error(), ByHand: true}}, nil
			}
			for _, run := range all {
				for _, problem := range run.Problems(r.Root) {
					findings = append(findings, Finding{
						Location: run.File(),
						Message:  fmt.Sprintf("%s: run `lab record %d --only %s`", problem, run.Lab.Number, run.Name),
						ByHand:   true,
					})
				}
			}
		}
		return findings, nil
	},
}

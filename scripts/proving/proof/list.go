// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package proof

import (
	"context"
	"encoding/json"
	"fmt"
	"text/tabwriter"
	"time"
)

// List prints the selected parts and their records, for a person.
func List(ctx context.Context, options Options) error {
	states, err := States(ctx, options)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(options.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PART\tRESULT\tUSUALLY\tPROVES THAT")
	for _, s := range states {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", s.Part.Name, s.Verdict(), s.Usual().Round(time.Second), s.Part.Proves)
	}
	return table.Flush()
}

// ListJSON prints the selected parts and their records as JSON, for a program.
func ListJSON(ctx context.Context, options Options) error {
	states, err := States(ctx, options)
	if err != nil {
		return err
	}
	type part struct {
		Part    string  `json:"part"`
		Proven  bool    `json:"proven"`
		Seconds float64 `json:"seconds"` // usual duration
		Record  *Record `json:"record,omitempty"`
	}
	parts := []part{}
	for _, s := range states {
		parts = append(parts, part{Part: s.Part.Name, Proven: s.Proven(), Seconds: s.Usual().Seconds(), Record: s.Record})
	}
	return json.NewEncoder(options.Out).Encode(parts)
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package check

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/report"
)

// TestSendTruncatesEvents covers a status or a log line of any length, and a missing measurement.
func TestSendTruncatesEvents(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("vanilla ", 1<<20)
	var sent bytes.Buffer
	s := &Suite{events: json.NewEncoder(&sent)}
	for _, event := range []protocol.Event{
		{
			Check:        "a",
			Status:       "failed",
			Expected:     long,
			Observed:     long,
			Reason:       long,
			Evidence:     slices.Repeat([]string{long}, 100),
			Measurements: []report.Measurement{{Name: "share", Value: math.NaN()}, {Name: "count", Value: 3}},
		},
		{Note: &protocol.Note{What: long}},
	} {
		sent.Reset()
		if err := s.send(event); err != nil {
			t.Fatal(err)
		}
		const most = 2*report.MaxText + (report.MaxEvidence+2)*report.MaxLine + 1000
		if sent.Len() > most {
			t.Errorf("the event has %d bytes, want at most %d", sent.Len(), most)
		}
		var got protocol.Event
		if err := json.Unmarshal(sent.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if event.Note == nil && (len(got.Measurements) != 1 || !strings.HasPrefix(got.Observed, "vanilla")) {
			t.Errorf("the event was truncated too much: %+v", got)
		}
	}
}

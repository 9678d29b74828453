// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"lva.io/operators/scripts/grading/protocol"
)

// followed returns the events that follow reads from the output of write.
func followed(t *testing.T, write func(io.Writer) error) (events []protocol.Event, err error) {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { written <- errors.Join(write(writer), writer.Close()) }()
	err = follow(reader, func(event protocol.Event) error { events = append(events, event); return nil })
	if err := <-written; err != nil {
		t.Error(err)
	}
	return events, err
}

func TestLongEventIsRead(t *testing.T) {
	t.Parallel()
	events, err := followed(t, func(to io.Writer) error {
		encoder := json.NewEncoder(to)
		return errors.Join(
			encoder.Encode(protocol.Event{Check: "long", Evidence: []string{strings.Repeat("x", 5<<20)}}),
			encoder.Encode(protocol.Event{Check: "next"}))
	})
	if err != nil || len(events) != 2 || len(events[0].Evidence[0]) != 5<<20 || events[1].Check != "next" {
		t.Errorf("got %d events: %v", len(events), err)
	}
}

// Checks may be killed while they write.
func TestTruncatedEventEndsStream(t *testing.T) {
	t.Parallel()
	for text, fails := range map[string]bool{
		`{"check":"a"}` + "\n" + `{"check":"b","evid`: false,
		`{"check":"a"}` + "\nnonsense\n":              true,
	} {
		events, err := followed(t, func(to io.Writer) error { _, err := io.WriteString(to, text); return err })
		if len(events) != 1 || (err != nil) != fails {
			t.Errorf("from %q, got %d events: %v", text, len(events), err)
		}
	}
}

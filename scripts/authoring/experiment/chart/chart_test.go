// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// latency is a chart of two lines.
func latency() Chart {
	return Chart{
		Name: "list", Title: "A list in ms", X: "objects", Labels: []string{"100", "1,000", "50,000"},
		Series: []Series{
			{Name: "all", Values: []float64{3, 25, 900}},
			{Name: "one by its label", Values: []float64{2, 20, 700}},
		},
	}
}

func TestTerminalChart(t *testing.T) {
	t.Parallel()
	text, err := latency().Terminal(80, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"A list in ms, by objects", "* all", "o one by its label", "100", "1,000", "50,000", "900", "0 ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the output lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Errorf("the output has unrequested colours:\n%s", text)
	}
	for line := range strings.Lines(text) {
		if len([]rune(line)) > 81 { // with the end of the line
			t.Errorf("wider than the terminal: %q", line)
		}
	}
	colored, err := latency().Terminal(80, true)
	if err != nil || !strings.Contains(colored, "\x1b") {
		t.Errorf("the output has no colours: %v\n%s", err, colored)
	}
}

func TestSVGChart(t *testing.T) {
	t.Parallel()
	content, err := latency().SVG()
	if err != nil {
		t.Fatal(err)
	}
	text, decoder := "", xml.NewDecoder(strings.NewReader(string(content)))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if characters, ok := token.(xml.CharData); ok {
			text += string(characters) + "\n"
		}
	}
	for _, want := range []string{"A list in ms", "all", "one by its label", "1,000", "50,000", "objects"} {
		if !strings.Contains(text, want) {
			t.Errorf("the texts lack %q:\n%s", want, text)
		}
	}
}

func TestEmptyChartIsRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(*Chart)
		want   string
	}{
		{"one point", func(c *Chart) { c.Labels = c.Labels[:1] }, "at least two points"},
		{"no series", func(c *Chart) { c.Series = nil }, "at least two points"},
		{"a value is missing", func(c *Chart) { c.Series[1].Values = c.Series[1].Values[:2] }, "has 2 values for 3 labels"},
	} {
		c := latency()
		test.change(&c)
		if _, err := c.Terminal(80, false); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: Terminal() error = %v", test.name, err)
		}
		if _, err := c.SVG(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: SVG() error = %v", test.name, err)
		}
	}
}

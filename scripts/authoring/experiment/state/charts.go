// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package state

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"lva.io/operators/scripts/authoring/experiment/chart"
)

// Charts returns charts of the measurements.
func (r *Result) Charts() []chart.Chart {
	objects := make([]string, len(r.Points))
	for i, point := range r.Points {
		objects[i] = count(point.Objects)
	}
	byObjects := func(name, title string, series ...chart.Series) chart.Chart {
		return chart.Chart{Name: name, Title: title, X: "objects", Labels: objects, Series: series}
	}
	line := func(name string, value func(Point) float64) chart.Series {
		s := chart.Series{Name: name}
		for _, point := range r.Points {
			s.Values = append(s.Values, value(point))
		}
		return s
	}
	memory := []chart.Series{
		line("etcd's file", func(p Point) float64 { return mebibytes(p.StorageBytes) }),
		line("an informer", func(p Point) float64 { return mebibytes(p.InformerBytes) }),
	}
	for _, program := range r.programs() {
		memory = append(memory, line(program, func(p Point) float64 { return mebibytes(p.MemoryBytes[program]) }))
	}
	return []chart.Chart{
		byObjects(
			"latency", "Time of a request in ms",
			line("list all", func(p Point) float64 { return milliseconds(p.List) }),
			line("list one by its label", func(p Point) float64 { return milliseconds(p.Labelled) }),
			line("get one by its name", func(p Point) float64 { return milliseconds(p.Get) }),
			line("a new informer until it has all", func(p Point) float64 { return milliseconds(p.Sync) }),
		),
		byObjects("memory", "Memory and disk in MiB", memory...),
		r.fanOutChart(),
	}
}

func (r *Result) fanOutChart() chart.Chart {
	c := chart.Chart{Name: "fan-out", Title: "Time until a write is seen in ms", X: "watches"}
	first, last := chart.Series{Name: "by the first watch"}, chart.Series{Name: "by the last one"}
	for _, fanOut := range r.FanOut {
		c.Labels = append(c.Labels, count(fanOut.Watchers))
		first.Values = append(first.Values, milliseconds(fanOut.First))
		last.Values = append(last.Values, milliseconds(fanOut.Last))
	}
	c.Series = []chart.Series{last, first}
	return c
}

// programs returns the programs whose memory was measured.
func (r *Result) programs() []string {
	if len(r.Points) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(r.Points[0].MemoryBytes))
}

// Tables returns the measurements as Markdown tables for a page.
func (r *Result) Tables() string {
	var text strings.Builder
	fmt.Fprintf(&text, "Kubernetes %s on %s.\n\n", r.Kubernetes, r.Machine)
	text.WriteString("| kind | its text is at most | the API server says to more |\n|---|---|---|\n")
	for _, limit := range r.Limits {
		fmt.Fprintf(&text, "| %s | %s KiB | `%s` |\n", limit.Kind, count(limit.Bytes>>10), limit.Refusal)
	}
	text.WriteString("\n| objects | created/s | get one | list all | list one by its label " +
		"| answer to the list | informer has all | informer's memory |")
	for _, program := range r.programs() {
		fmt.Fprintf(&text, " %s |", program)
	}
	text.WriteString(" etcd's file |\n|" + strings.Repeat("--:|", 9+len(r.programs())) + "\n")
	for _, point := range r.Points {
		fmt.Fprintf(&text, "| %s | %.0f | %s | %s | %s | %s | %s | %s |",
			count(point.Objects), point.CreatedPerSecond, duration(point.Get),
			duration(point.List), duration(point.Labelled), size(point.ListBytes),
			duration(point.Sync), size(point.InformerBytes))
		for _, program := range r.programs() {
			fmt.Fprintf(&text, " %s |", size(point.MemoryBytes[program]))
		}
		fmt.Fprintf(&text, " %s |\n", size(point.StorageBytes))
	}
	text.WriteString("\n| watches | the first has seen a write after | the last after |\n|--:|--:|--:|\n")
	for _, fanOut := range r.FanOut {
		fmt.Fprintf(&text, "| %s | %s | %s |\n", count(fanOut.Watchers), duration(fanOut.First), duration(fanOut.Last))
	}
	return text.String()
}

func count(n int) string { return humanize.Comma(int64(n)) }

func size(bytes int64) string { return fmt.Sprintf("%.1f MiB", mebibytes(bytes)) }

func duration(d time.Duration) string { return fmt.Sprintf("%.1f ms", milliseconds(d)) }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func mebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }

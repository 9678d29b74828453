// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package chart draws the figures of an experiment as text for a terminal and as SVG for a page. It measures nothing.
package chart

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/go-analyze/charts"
	"github.com/guptarohit/asciigraph"
)

// Chart is a picture with one line for each series. Each series has a value at each label.
type Chart struct {
	// Name is the name of a file without its extension, such as list-latency.
	Name string
	// Title describes what is shown, with its unit.
	Title string
	// X is what the labels count, such as objects.
	X string
	// Labels are the points, from left to right. The points are evenly spaced, whatever their numbers.
	Labels []string
	Series []Series
}

// Series is one line of a chart.
type Series struct {
	Name   string
	Values []float64
}

// Sizes in characters of a chart in a terminal. The labels of the vertical axis and the margin take the rest of a line.
const (
	terminalHeight = 10
	axisWidth      = 12
	leastWidth     = 30
)

// Sizes of an SVG in pixels.
const (
	svgWidth  = 720
	svgHeight = 360
)

// Terminal draws the chart as lines of text for a terminal of a width in characters, optionally in colour.
func (c Chart) Terminal(width int, color bool) (string, error) {
	if err := c.check(); err != nil {
		return "", err
	}
	values, names := make([][]float64, len(c.Series)), make([]string, len(c.Series))
	for i, series := range c.Series {
		values[i], names[i] = series.Values, series.Name
	}
	options := []asciigraph.Option{
		asciigraph.Height(terminalHeight),
		asciigraph.Width(max(width-axisWidth, leastWidth)),
		asciigraph.LowerBound(0),
		asciigraph.Caption(c.Title + ", by " + c.X),
		asciigraph.YAxisValueFormatter(number),
		asciigraph.XAxisRange(0, float64(len(c.Labels)-1)),
		asciigraph.XAxisTickCount(len(c.Labels)),
		asciigraph.XAxisValueFormatter(func(x float64) string { return c.Labels[int(math.Round(x))] }),
		asciigraph.SeriesChars(characters(len(c.Series))...),
	}
	if color {
		options = append(options, asciigraph.SeriesColors(colors(len(c.Series))...), asciigraph.SeriesLegends(names...))
	}
	text := strings.Builder{}
	fmt.Fprintln(&text, asciigraph.PlotMany(values, options...))
	if !color {
		// Without colours, the module's legend does not distinguish the lines. Characters do.
		for i, name := range names {
			fmt.Fprintf(&text, "%*s%s %s\n", axisWidth, "", marks[i%len(marks)], name)
		}
	}
	return text.String(), nil
}

// marks draw the lines of a chart without colours.
var marks = []string{"*", "o", "+", "x", "#"}

func characters(count int) (all []asciigraph.CharSet) {
	for i := range count {
		all = append(all, asciigraph.CreateCharSet(marks[i%len(marks)]))
	}
	return all
}

func colors(count int) (all []asciigraph.AnsiColor) {
	few := []asciigraph.AnsiColor{
		asciigraph.Blue, asciigraph.Red, asciigraph.Green, asciigraph.Magenta, asciigraph.Goldenrod,
	}
	for i := range count {
		all = append(all, few[i%len(few)])
	}
	return all
}

// SVG draws the chart as a file that browsers show.
func (c Chart) SVG() ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	values, names := make([][]float64, len(c.Series)), make([]string, len(c.Series))
	for i, series := range c.Series {
		values[i], names[i] = series.Values, series.Name
	}
	option := charts.NewLineChartOptionWithData(values)
	option.Title.Text = c.Title
	option.Legend.SeriesNames = names
	option.Legend.Offset = charts.OffsetStr{Top: "28"}
	option.XAxis.Labels = c.Labels
	option.XAxis.Title = c.X
	option.YAxis[0].Min = new(0.0)
	option.ValueFormatter = number
	painter := charts.NewPainter(charts.PainterOptions{
		OutputFormat: charts.ChartOutputSVG, Width: svgWidth, Height: svgHeight,
	})
	if err := painter.LineChart(option); err != nil {
		return nil, fmt.Errorf("drawing %s: %w", c.Name, err)
	}
	return painter.Bytes()
}

// check returns an error for a chart that can't be drawn.
func (c Chart) check() error {
	if len(c.Labels) < 2 || len(c.Series) == 0 {
		return fmt.Errorf("drawing %s: a line needs at least two points", c.Name)
	}
	for _, series := range c.Series {
		if len(series.Values) != len(c.Labels) {
			return fmt.Errorf("drawing %s: %s has %d values for %d labels",
				c.Name, series.Name, len(series.Values), len(c.Labels))
		}
	}
	return nil
}

// number formats a value with as many digits as are useful on an axis.
func number(value float64) string {
	switch {
	case value == 0:
		return "0"
	case math.Abs(value) < 10:
		return strconv.FormatFloat(value, 'f', 1, 64)
	}
	return strconv.FormatFloat(value, 'f', 0, 64)
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package terminal

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/lipgloss"
)

// labelWidth is the width of the label "expected" and the space after it.
const labelWidth = 10

// block describes one problem. On a terminal, it has a bar at its left, which shows where it begins and ends.
type block struct {
	page  *page
	style lipgloss.Style
	out   strings.Builder
}

func (p *page) block(style lipgloss.Style) *block {
	b := &block{page: p, style: style}
	b.out.WriteString("\n")
	return b
}

func (b *block) String() string { return b.out.String() }

// width returns the width of the text beside the bar.
func (b *block) width() int { return b.page.width() - 2 }

// add writes a line of a plain block. Its continuation lines are indented, so that each line that starts at the left
// begins with its keyword.
func (b *block) add(format string, args ...any) {
	b.out.WriteString(strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "\n    ") + "\n")
}

func (b *block) title(mark, text string) {
	for i, line := range wrap(text, b.width()) {
		if i > 0 {
			mark = " "
		}
		b.out.WriteString(margin + b.style.Render(mark) + " " + b.page.strong.Render(line) + "\n")
	}
}

// line writes one line that is already styled and is never wrapped.
func (b *block) line(text string) {
	b.out.WriteString(strings.TrimRight(margin+b.style.Render(b.page.marks.bar)+" "+text, " ") + "\n")
}

func (b *block) blank() { b.line("") }

// text writes text, wrapped.
func (b *block) text(indent string, style lipgloss.Style, text string) {
	for _, line := range wrap(text, b.width()-len(indent)) {
		b.line(indent + paint(style, line))
	}
}

// field writes a label and a text that is wrapped beside it.
func (b *block) field(label string, style lipgloss.Style, text string) {
	for _, line := range wrap(text, b.width()-labelWidth) {
		b.raw(label, paint(style, line))
		label = ""
	}
}

// raw writes a label and a text that is already styled.
func (b *block) raw(label, text string) {
	b.line(paint(b.page.faint, label) + spaces(labelWidth, label) + text)
}

func (b *block) more(n int, o Options) {
	b.text("", b.page.faint, b.page.leftOut(n, o))
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package terminal

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/lipgloss"
)

// labelWidth holds "expected" and its distance from what was.
const labelWidth = 10

// block is one thing that went wrong: on a terminal with a bar at its left, so that it is seen where it begins and
// ends.
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

// width of the text beside the bar.
func (b *block) width() int { return b.page.width() - 2 }

// add is a line of a plain block. Further lines of it are indented, so that each line that starts at the left
// begins with its word.
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

// line is one line that is styled already and never wrapped.
func (b *block) line(text string) {
	b.out.WriteString(strings.TrimRight(margin+b.style.Render(b.page.marks.bar)+" "+text, " ") + "\n")
}

func (b *block) blank() { b.line("") }

// text is wrapped.
func (b *block) text(indent string, style lipgloss.Style, text string) {
	for _, line := range wrap(text, b.width()-len(indent)) {
		b.line(indent + paint(style, line))
	}
}

// field is a label and a text that is wrapped beside it.
func (b *block) field(label string, style lipgloss.Style, text string) {
	for _, line := range wrap(text, b.width()-labelWidth) {
		b.raw(label, paint(style, line))
		label = ""
	}
}

// raw is a label and a text that is styled already.
func (b *block) raw(label, text string) {
	b.line(paint(b.page.faint, label) + spaces(labelWidth, label) + text)
}

func (b *block) more(n int, o Options) {
	b.text("", b.page.faint, b.page.leftOut(n, o))
}

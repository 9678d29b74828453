// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package operatorlog

import (
	"path"
	"regexp"
	"strings"
)

// Source is the module that an operator was built from. It distinguishes the student's frames of a stack from those of
// libraries.
type Source struct {
	// Module is the path of the operator's module. The file names of a program that was built with -trimpath begin with
	// it.
	Module string
	// Dir is the module's folder, for a program that was not built with -trimpath.
	Dir string
}

// relative is a file as one knows it who works in the module's folder; empty if it is another's.
func (s Source) relative(file string) string {
	for _, prefix := range []string{s.Module, s.Dir} {
		inside, found := strings.CutPrefix(file, prefix+"/")
		// A library's file has a version in its path, or lies below vendor.
		if prefix != "" && found && !strings.Contains(inside, "@") && !strings.HasPrefix(inside, "vendor/") {
			return inside
		}
	}
	return ""
}

// stack is the trace of a goroutine while it is read, line by line.
type stack struct {
	source   Source
	position string
	frames   int
	ended    bool
}

// frame is the second line of a frame: where it is.
var frame = regexp.MustCompile(`^\s*(\S+\.(?:go|s):\d+)(?: \+0x[0-9a-f]+)?$`)

// add reads a line of the trace, and says whether it belongs to it. Only the first goroutine counts: it is the one that
// panicked.
func (s *stack) add(line string) bool {
	text := strings.TrimSpace(line)
	switch {
	case s.ended:
		return false
	case text == "" || text == ">": // klog ends a value of several lines so
		s.ended = s.frames > 0
		return !s.ended
	case strings.HasPrefix(text, "goroutine "):
		s.ended = s.frames > 0
		return !s.ended
	case strings.HasPrefix(text, "panic("), text == "runtime.gopanic":
		// What follows is where it came from; what was before is who has recovered it.
		s.position = ""
		return true
	}
	at := frame.FindStringSubmatch(line)
	if at == nil {
		// The first line of a frame names a function; before the first frame, a runtime may say more of the panic.
		return s.frames == 0 || function.MatchString(text)
	}
	s.frames++
	if file := s.source.relative(at[1]); file != "" && s.position == "" && !strings.HasPrefix(path.Base(file), "zz_generated.") {
		s.position = file
	}
	return true
}

// function is the first line of a frame.
var function = regexp.MustCompile(`^(created by )?[\w./@~*()\[\]{}…-]+(\(.*\)|\[\.\.\.\].*| in goroutine \d+)?$`)

// position finds in the text of a stack where the module's code panicked:
// "internal/controller/icecream_controller.go:57".
func (s Source) position(text string) string {
	trace := &stack{source: s}
	for line := range strings.Lines(text) {
		trace.add(strings.TrimRight(line, "\n"))
	}
	return trace.position
}

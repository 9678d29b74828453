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

// relative returns a file's path relative to the module's folder. It is empty if the file is not the module's.
func (s Source) relative(file string) string {
	for _, prefix := range []string{s.Module, s.Dir} {
		inside, found := strings.CutPrefix(file, prefix+"/")
		// A library's file has a version in its path, or is below vendor.
		if prefix != "" && found && !strings.Contains(inside, "@") && !strings.HasPrefix(inside, "vendor/") {
			return inside
		}
	}
	return ""
}

// stack is the trace of a goroutine that is read line by line.
type stack struct {
	source   Source
	position string
	frames   int
	ended    bool
}

// frame matches the second line of a frame, which contains the position.
var frame = regexp.MustCompile(`^\s*(\S+\.(?:go|s):\d+)(?: \+0x[0-9a-f]+)?$`)

// add reads a line, and reports whether it belongs to the trace. Only the first goroutine counts: it is the one that
// panicked.
func (s *stack) add(line string) bool {
	text := strings.TrimSpace(line)
	switch {
	case s.ended:
		return false
	case text == "" || text == ">": // klog ends a value of several lines like this
		s.ended = s.frames > 0
		return !s.ended
	case strings.HasPrefix(text, "goroutine "):
		s.ended = s.frames > 0
		return !s.ended
	case strings.HasPrefix(text, "panic("), text == "runtime.gopanic":
		// The origin of the panic follows. The frames before belong to the code that recovered it.
		s.position = ""
		return true
	}
	at := frame.FindStringSubmatch(line)
	if at == nil {
		// The first line of a frame names a function. Before the first frame, a runtime may print more about the panic.
		return s.frames == 0 || function.MatchString(text)
	}
	s.frames++
	if file := s.source.relative(at[1]); file != "" && s.position == "" &&
		!strings.HasPrefix(path.Base(file), "zz_generated.") {
		s.position = file
	}
	return true
}

// function matches the first line of a frame.
var function = regexp.MustCompile(`^(created by )?[\w./@~*()\[\]{}…-]+(\(.*\)|\[\.\.\.\].*| in goroutine \d+)?$`)

// position finds the position in a stack at which the module's code panicked:
// "internal/controller/icecream_controller.go:57".
func (s Source) position(text string) string {
	trace := &stack{source: s}
	for line := range strings.Lines(text) {
		trace.add(strings.TrimRight(line, "\n"))
	}
	return trace.position
}

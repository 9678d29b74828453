// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package kind

import (
	"fmt"
	"strings"
	"sync"
	"unicode"

	"sigs.k8s.io/kind/pkg/exec"
	"sigs.k8s.io/kind/pkg/log"
)

// logger receives kind's messages, and reports them as progress. It is safe for concurrent use.
type logger struct {
	mutex  sync.Mutex
	report func(string)
}

func (l *logger) listen(report func(string)) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.report = report
}

func (l *logger) log(message string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if text := plain(message); l.report != nil && text != "" {
		l.report(text)
	}
}

// plain returns a message without kind's emojis, marks and dots. It drops the message at the end of a step (" ✓ …"),
// because the beginning of the step was already reported.
func plain(message string) string {
	if strings.HasPrefix(strings.TrimSpace(message), "✓") {
		return ""
	}
	text := strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII || r < ' ' {
			return -1
		}
		return r
	}, message)
	return strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "..."))
}

// Warn, Warnf, Error and Errorf report progress, too: the error that kind returns has the details.
func (l *logger) Warn(message string)               { l.log(message) }
func (l *logger) Warnf(format string, args ...any)  { l.log(fmt.Sprintf(format, args...)) }
func (l *logger) Error(message string)              { l.log(message) }
func (l *logger) Errorf(format string, args ...any) { l.log(fmt.Sprintf(format, args...)) }

// V returns the logger for kind's messages to users, and discards more detailed ones.
func (l *logger) V(level log.Level) log.InfoLogger {
	if level > 0 {
		return log.NoopInfoLogger{}
	}
	return info{l}
}

type info struct{ logger *logger }

func (i info) Info(message string)              { i.logger.log(message) }
func (i info) Infof(format string, args ...any) { i.logger.log(fmt.Sprintf(format, args...)) }
func (i info) Enabled() bool                    { return true }

// commandOutput returns the end of the output of kind's failed command, which the text of kind's errors lacks.
func commandOutput(err error) string {
	const lines = 12
	failed := exec.RunErrorForError(err)
	if failed == nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(failed.Output)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

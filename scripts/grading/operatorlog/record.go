// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package operatorlog

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// record is a line of a log: its message, and its fields as text.
type record struct {
	message string
	fields  map[string]string
	// isError is true if the logger marked the line as an error.
	isError bool
}

// parse reads a line of any of the loggers. A line of another form is a message without fields.
//
//   - JSON objects: zap's production encoder, slog's JSONHandler, zerolog, funcr
//   - text, tabs and a JSON object: zap's console encoder
//   - key=value, quoted or not, perhaps behind a header and the message: klog, stdr, slog's TextHandler, logrus
func parse(line string) record {
	line = strings.TrimRight(line, "\r")
	if fields := object(strings.TrimSpace(line)); fields != nil {
		return named(fields)
	}
	if r, ok := console(line); ok {
		return r
	}
	text := header.ReplaceAllString(line, "")
	r := record{message: text, fields: map[string]string{}, isError: klogError.MatchString(line)}
	if quoted, err := strconv.QuotedPrefix(text); err == nil && !strings.HasPrefix(text[len(quoted):], "=") {
		r.message, _ = strconv.Unquote(quoted) // QuotedPrefix has read it
		text = text[len(quoted):]
	}
	for _, pair := range pairs.FindAllStringSubmatch(text, -1) {
		r.fields[unquote(pair[1])] = unquote(pair[2])
	}
	if message, ok := r.fields["msg"]; ok {
		r.message = message
		// stdr has no levels, and an error has the field error.
		level := r.fields["level"]
		r.isError = r.isError || level == "" && r.fields["error"] != "" || isError(level)
	}
	return r
}

// klogError matches the start of the lines that klog marks as errors.
var klogError = regexp.MustCompile(`^[EF]\d{4} [\d:.]+\s+\d+ `)

// isError reports whether a level is that of an error.
func isError(level string) bool {
	return slices.Contains([]string{"error", "dpanic", "panic", "fatal"}, strings.ToLower(level))
}

// header matches the prefix that klog and package log write before a line.
var header = regexp.MustCompile(`^(?:[IWEF]\d{4} [\d:.]+\s+\d+ \S+:\d+\] |\d{4}/\d\d/\d\d [\d:.]+ (?:\S+:\d+: )?)`)

// pairs matches key=value. It skips JSON objects as values, because nothing is looked up in them.
var pairs = regexp.MustCompile(`("(?:[^"\\]|\\.)*"|[\w.-]+)=("(?:[^"\\]|\\.)*"|[^\s"{][^\s]*)`)

func unquote(text string) string {
	if plain, err := strconv.Unquote(text); err == nil {
		return plain
	}
	return text
}

// object reads a JSON object. It returns nil if the text is none. If a name occurs twice, the first value counts,
// because zap adds its own stack trace after the one that was logged.
func object(text string) map[string]string {
	decoder := json.NewDecoder(strings.NewReader(text))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return nil
	}
	fields := map[string]string{}
	for decoder.More() {
		token, err := decoder.Token()
		key, isKey := token.(string)
		var value any
		if err != nil || !isKey || decoder.Decode(&value) != nil {
			return nil
		}
		if _, known := fields[key]; known || value == nil {
			continue
		}
		fields[key] = fmt.Sprint(value)
	}
	return fields
}

func named(fields map[string]string) record {
	r := record{fields: fields, isError: isError(fields["level"])}
	for _, key := range []string{"msg", "message"} {
		if r.message == "" {
			r.message = fields[key]
		}
	}
	return r
}

// console reads a line of zap's console encoder: time, level, perhaps logger and caller, message, fields.
func console(line string) (record, bool) {
	before, fields, found := strings.Cut(line, "\t{")
	columns := strings.Split(before, "\t")
	if len(columns) < 3 || columns[0] == "" {
		return record{}, false
	}
	r := record{message: columns[len(columns)-1], isError: isError(columns[1])}
	if found {
		r.fields = object("{" + fields)
	}
	return r, true
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package order

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lva.io/operators/scripts/checks/icecream"
)

// Spec is the spec of an icecream. A nil list is missing from the spec. A list without items is present and empty.
type Spec struct {
	Flavour, Topping []string
	// Absent means that there is no spec at all.
	Absent bool
}

// Order is an icecream as a client writes it.
type Order struct {
	Name string
	// Generated means that the API server generates the name from a prefix.
	Generated           bool
	Labels, Annotations map[string]string
	Finalizers          []string
	Spec                Spec
}

// Object returns the spec as it is sent, or nil if there is none.
func (s Spec) Object() map[string]any {
	if s.Absent {
		return nil
	}
	object := map[string]any{}
	for field, list := range map[string][]string{"flavour": s.Flavour, "topping": s.Topping} {
		if list == nil {
			continue
		}
		values := make([]any, len(list))
		for i, item := range list {
			values[i] = item
		}
		object[field] = values
	}
	return object
}

// Object returns the order as it is sent.
func (o Order) Object() *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(icecream.Kind)
	if o.Generated {
		object.SetGenerateName(o.Name)
	} else {
		object.SetName(o.Name)
	}
	if len(o.Labels) > 0 {
		object.SetLabels(o.Labels)
	}
	if len(o.Annotations) > 0 {
		object.SetAnnotations(o.Annotations)
	}
	if len(o.Finalizers) > 0 {
		object.SetFinalizers(o.Finalizers)
	}
	if !o.Spec.Absent {
		object.Object["spec"] = o.Spec.Object()
	}
	return object
}

// Equal reports whether two specs have the same content in the same order.
func (s Spec) Equal(other Spec) bool {
	same := func(a, b []string) bool { return (a == nil) == (b == nil) && slices.Equal(a, b) }
	return s.Absent == other.Absent && same(s.Flavour, other.Flavour) && same(s.Topping, other.Topping)
}

// String returns the spec as YAML, in one line of any length.
func (s Spec) String() string {
	if s.Absent {
		return "no spec"
	}
	var fields []string
	if s.Flavour != nil {
		fields = append(fields, "flavour: "+flow(s.Flavour))
	}
	if s.Topping != nil {
		fields = append(fields, "topping: "+flow(s.Topping))
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

// Words describes the spec in words: "matcha and mud, without topping". It abbreviates long lists and long names.
func (s Spec) Words() string {
	if s.Absent {
		return "without spec"
	}
	flavour, topping := words(s.Flavour), words(s.Topping)
	switch {
	case s.Flavour == nil:
		flavour = "without flavour"
	case len(s.Flavour) == 0:
		flavour = "with an empty list of flavours"
	default:
		flavour = "of " + flavour
	}
	switch {
	case s.Topping == nil:
		return flavour + " without topping"
	case len(s.Topping) == 0:
		return flavour + " with an empty list of toppings"
	}
	return flavour + " with " + topping
}

// words returns a list as in a sentence.
func words(list []string) string {
	const most, longest = 6, 40
	if len(list) > most {
		return fmt.Sprintf("%d names", len(list))
	}
	quoted := make([]string, len(list))
	for i, word := range list {
		if length := len([]rune(word)); length > longest {
			quoted[i] = fmt.Sprintf("a name of %d characters", length)
		} else if quoted[i] = word; strings.ContainsAny(word, " ,\"") || !plain(word) {
			quoted[i] = quote(word)
		}
	}
	return english.WordSeries(quoted, "and")
}

// flow returns a list as YAML. JSON is YAML, too. It uses quotes only where they are necessary.
func flow(list []string) string {
	items := make([]string, len(list))
	for i, item := range list {
		if items[i] = item; !plain(item) {
			items[i] = quote(item)
		}
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// plain reports whether a text stands for itself in YAML, even for a reader who does not know YAML well, and is short
// enough for a line.
func plain(text string) bool {
	for i, r := range text {
		if letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'; !letter && (i == 0 || r != '-' && (r < '0' || r > '9')) {
			return false
		}
	}
	return text != "" && len(text) <= 60 &&
		!slices.Contains([]string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}, strings.ToLower(text))
}

func quote(text string) string {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		panic(err) // every text can be written as JSON
	}
	return strings.TrimSuffix(buffer.String(), "\n")
}

// Script returns the order as lines that can be typed into a shell: kubectl applies it, with the given arguments.
func (o Order) Script(arguments string) []string {
	verb := "apply"
	if o.Generated {
		verb = "create" // kubectl can't apply an object without a name
	}
	lines := []string{
		strings.TrimSpace("kubectl "+verb+" "+arguments) + " -f - <<'EOF'",
		"apiVersion: " + icecream.Resource.GroupVersion().String(),
		"kind: " + icecream.Kind.Kind,
	}
	name := "name: "
	if o.Generated {
		name = "generateName: "
	}
	lines = append(lines, "metadata:", "  "+name+quote(o.Name))
	for _, field := range []struct {
		name   string
		values map[string]string
	}{{"labels", o.Labels}, {"annotations", o.Annotations}} {
		if len(field.values) > 0 {
			written, err := json.Marshal(field.values)
			if err != nil {
				panic(err) // texts can be written as JSON
			}
			lines = append(lines, "  "+field.name+": "+string(written))
		}
	}
	if len(o.Finalizers) > 0 {
		lines = append(lines, "  finalizers: "+flow(o.Finalizers))
	}
	if !o.Spec.Absent {
		lines = append(lines, wrap("spec: "+o.Spec.String())...)
	}
	return append(lines, "EOF")
}

// wrap breaks a line of YAML where YAML allows it: after a comma between items, and with a backslash within quotes.
func wrap(line string) (lines []string) {
	const width = 120
	var current strings.Builder
	quoted, escaped := false, 0
	end := func(with string) {
		lines = append(lines, current.String()+with)
		current.Reset()
		current.WriteString("  ")
	}
	for _, r := range line {
		if quoted && escaped == 0 && current.Len() >= width && r != '"' && r != ' ' {
			end(`\`)
		}
		current.WriteRune(r)
		switch {
		case escaped == 1 && r == 'u':
			escaped = 4 // hexadecimal digits
		case escaped > 0:
			escaped--
		case quoted && r == '\\':
			escaped = 1
		case r == '"':
			quoted = !quoted
		case r == ',' && !quoted && current.Len() >= width:
			end("")
		}
	}
	return append(lines, current.String())
}

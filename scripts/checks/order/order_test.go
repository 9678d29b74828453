// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package order_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"lva.io/operators/scripts/checks/order"
)

func TestBreaks(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		spec order.Spec
		want []order.Rule
	}{
		{order.Spec{Flavour: []string{"vanilla"}}, nil},
		{order.Spec{Flavour: []string{"vanilla"}, Topping: []string{}}, nil},
		{order.Spec{Flavour: []string{"vanilla", "Vanilla", "vanilla "}, Topping: []string{"vanilla", "cream", "nuts"}}, nil},
		{order.Spec{Absent: true}, []order.Rule{order.FlavourRequired}},
		{order.Spec{Topping: []string{"cream"}}, []order.Rule{order.FlavourRequired}},
		{order.Spec{Flavour: []string{}}, []order.Rule{order.FlavourRequired}},
		{order.Spec{Flavour: []string{"mud", "matcha", "mud"}}, []order.Rule{order.FlavoursUnique}},
		{order.Spec{Flavour: []string{"mud"}, Topping: []string{"a", "b", "c", "d"}}, []order.Rule{order.ToppingsMax}},
		{order.Spec{Flavour: []string{"mud"}, Topping: []string{"a", "b", "a"}}, []order.Rule{order.ToppingsUnique}},
		{
			order.Spec{Flavour: []string{"mud", "mud"}, Topping: []string{"a", "b", "c", "a"}},
			[]order.Rule{order.FlavoursUnique, order.ToppingsMax, order.ToppingsUnique},
		},
	} {
		if got := test.spec.Breaks(); !slices.Equal(got, test.want) {
			t.Errorf("%s breaks %q, want %q", test.spec, got, test.want)
		}
		if repaired := test.spec.Repaired(); len(repaired.Breaks()) > 0 || len(test.want) == 0 && !repaired.Equal(test.spec) {
			t.Errorf("Repaired() of %s = %s", test.spec, repaired)
		}
	}
}

// drawn returns all specs that a seed draws, by the rule that they break. Empty: none.
func drawn(seed uint64) map[order.Rule][]order.Spec {
	random := rand.New(rand.NewPCG(seed, 1))
	specs := map[order.Rule][]order.Spec{}
	for number := range order.ValidSpecs {
		specs[""] = append(specs[""], order.Valid(random, number))
	}
	for _, rule := range []order.Rule{
		order.FlavourRequired, order.FlavoursUnique, order.ToppingsMax, order.ToppingsUnique,
	} {
		for number := range order.Breakings {
			specs[rule] = append(specs[rule], order.Breaking(random, number, rule))
		}
	}
	return specs
}

func TestDrawnSpecsBreakTheirRule(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		var most, longest int
		for rule, specs := range drawn(seed) {
			for _, s := range specs {
				broken := s.Breaks()
				if rule == "" && len(broken) > 0 || rule != "" && !slices.Equal(broken, []order.Rule{rule}) {
					t.Errorf("seed %d: a spec drawn for %q breaks %q: %s", seed, rule, broken, s)
				}
				if rule == "" {
					most = max(most, len(s.Flavour))
					for _, name := range slices.Concat(s.Flavour, s.Topping) {
						longest = max(longest, len([]rune(name)))
					}
				}
			}
		}
		if most != order.ManyFlavours || longest != order.LongName {
			t.Errorf("seed %d: at most %d flavours, longest name %d characters", seed, most, longest)
		}
	}
}

// TestAllRepetitionsAreDrawn checks that every seed draws the required cases.
func TestAllRepetitionsAreDrawn(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		for rule, list := range map[order.Rule]func(order.Spec) []string{
			order.FlavoursUnique: func(s order.Spec) []string { return s.Flavour },
			order.ToppingsUnique: func(s order.Spec) []string { return s.Topping },
		} {
			var far, near bool
			for _, s := range drawn(seed)[rule] {
				names := list(s)
				neighbours := false
				for i := range names[1:] {
					neighbours = neighbours || names[i] == names[i+1]
				}
				near, far = near || neighbours, far || !neighbours
			}
			if !near || !far {
				t.Errorf("seed %d, %s: equal neighbours = %t, equal others = %t", seed, rule, near, far)
			}
		}
	}
}

// TestSmallerTerminates checks that shrinking ends for every failing property, at the smallest spec that still fails.
func TestSmallerTerminates(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fails func(order.Spec) bool
		want  string
	}{
		"whatever it is": {func(order.Spec) bool { return true }, `\{\}|no spec`},
		"an enum": {
			func(s order.Spec) bool { return len(s.Flavour) > 0 && s.Flavour[0] != "vanilla" },
			`\{flavour: \[.\]\}`,
		},
		"a limit of flavours": {func(s order.Spec) bool { return len(s.Flavour) > 5 }, `\{flavour: \[(., ){5}.\]\}`},
		"a limit of 512":      {func(s order.Spec) bool { return len(s.Flavour) > 512 }, `\{flavour: \[(\w+, ){512}\w+\]\}`},
		"an empty list": {
			func(s order.Spec) bool { return s.Topping != nil && len(s.Topping) == 0 },
			`\{topping: \[\]\}`,
		},
		"a topping twice": {
			func(s order.Spec) bool { return slices.Contains(s.Breaks(), order.ToppingsUnique) },
			`\{topping: \[a, a\]\}`,
		},
		"no neighbours": {func(s order.Spec) bool {
			return len(s.Topping) > 2 && s.Topping[0] == s.Topping[2] && s.Topping[1] != s.Topping[0]
		}, `\{topping: \[a, b, a\]\}`},
		"a flavour and topping": {func(s order.Spec) bool {
			return len(s.Topping) > 0 && slices.Contains(s.Flavour, s.Topping[0])
		}, `\{flavour: \[(.)\], topping: \[(.)\]\}`},
		"a long name": {func(s order.Spec) bool {
			return len(s.Topping) > 0 && len([]rune(s.Topping[0])) > 20
		}, `\{topping: \[a{21}\]\}`},
		"no space": {func(s order.Spec) bool {
			return strings.ContainsRune(strings.Join(s.Flavour, ""), ' ')
		}, `\{flavour: \[" "\]\}`},
	} {
		for _, specs := range drawn(1) {
			for _, s := range specs {
				if !test.fails(s) {
					continue
				}
				tries := 0
				for again := true; again; {
					again = false
					for _, smaller := range s.Smaller() {
						tries++
						if test.fails(smaller) {
							s, again = smaller, true
							break
						}
					}
					if tries > 2000 {
						t.Fatalf("%s: after %d tries the spec is still %s", name, tries, s)
					}
				}
				if got := s.String(); !regexp.MustCompile("^(" + test.want + ")$").MatchString(got) {
					t.Errorf("%s: shrunk to %s, want %s", name, got, test.want)
				}
			}
		}
	}
}

// TestScripts checks that the script that the messages show to a student sends the tested order.
func TestScripts(t *testing.T) {
	t.Parallel()
	for rule, specs := range drawn(3) {
		for i, s := range specs {
			o := order.Order{Name: "1e3", Spec: s, Generated: i%2 == 0}
			if i%3 == 0 {
				o.Labels, o.Annotations, o.Finalizers = map[string]string{"table": "4"},
					map[string]string{"for": `"you"`}, []string{"example.com/keep"}
			}
			lines := o.Script("--dry-run=server")
			first := "kubectl apply --dry-run=server -f - <<'EOF'"
			if o.Generated {
				first = strings.Replace(first, "apply", "create", 1)
			}
			if lines[0] != first || lines[len(lines)-1] != "EOF" {
				t.Fatalf("Script() = %q", lines)
			}
			for _, line := range lines {
				if len(line) > 200 {
					t.Errorf("a line has %d bytes: %s", len(line), line)
				}
			}
			read := map[string]any{}
			if err := yaml.Unmarshal([]byte(strings.Join(lines[1:len(lines)-1], "\n")), &read); err != nil {
				t.Fatalf("%q: %v\n%s", rule, err, strings.Join(lines, "\n"))
			}
			if want := o.Object().Object; !reflect.DeepEqual(read, want) {
				t.Errorf("the script sends %v, want %v", read, want)
			}
		}
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]order.Spec{
		"without spec":                            {Absent: true},
		"without flavour with cream":              {Topping: []string{"cream"}},
		"of vanilla and mud without topping":      {Flavour: []string{"vanilla", "mud"}},
		`of "a b" with an empty list of toppings`: {Flavour: []string{"a b"}, Topping: []string{}},
		"of 7 names with a name of 50 characters": {
			Flavour: strings.Split("abcdefg", ""), Topping: []string{strings.Repeat("é", 50)},
		},
	} {
		if got := s.Words(); got != want {
			t.Errorf("Words() of %s = %q, want %q", fmt.Sprint(s), got, want)
		}
	}
}

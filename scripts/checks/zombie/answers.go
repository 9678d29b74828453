// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package zombie

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// Answers are a student's findings about a scene.
type Answers struct {
	// Icecream is the name of the icecream that is stuck forever.
	Icecream string `json:"icecream"`
	// Field is the path of the field that shows that it is being deleted.
	Field string `json:"field"`
	// Finalizer is the finalizer that no controller removes.
	Finalizer string `json:"finalizer"`
	// Lease, as NAMESPACE/NAME, shows that the controller is gone.
	Lease string `json:"lease"`
	// Lost is the box that is not cleaned up after the finalizer is removed.
	Lost string `json:"lost"`
}

// Read reads a student's file.
func Read(content []byte) (Answers, error) {
	var answers Answers
	if err := yaml.UnmarshalStrict(content, &answers); err != nil {
		return answers, fmt.Errorf("it is not YAML with the fields icecream, field, finalizer, "+
			"lease and lost, each of them a text: %w", err)
	}
	return answers, nil
}

// Mistakes explains for each incorrect answer why it can't be correct, but never reveals the correct answer.
func (s Scene) Mistakes(a Answers) []string {
	var mistakes []string
	judge := func(field, answer, right string, known map[string]string) {
		switch why, ok := known[answer]; {
		case answer == right:
		case answer == "":
			mistakes = append(mistakes, field+" has no answer")
		case ok:
			mistakes = append(mistakes, fmt.Sprintf("%s is not %s: %s", field, answer, why))
		default:
			mistakes = append(mistakes, fmt.Sprintf("%s is not %s", field, answer))
		}
	}
	judge("icecream", a.Icecream, s.Zombie, map[string]string{
		s.Slow:   "it is being deleted, but the controller of its finalizer is alive",
		s.Living: "it is not being deleted",
	})
	field := strings.TrimLeft(strings.TrimPrefix(a.Field, "icecream"), ".")
	judge("field", field, "metadata.deletionTimestamp", map[string]string{
		"metadata.finalizers":                 "living ones have finalizers, too",
		"metadata.deletionGracePeriodSeconds": "it says how long, and not since when",
	})
	judge("finalizer", a.Finalizer, s.Gone.Finalizer, map[string]string{
		s.Busy.Finalizer:        "its controller is alive",
		"demo.lva.io/finalizer": "that is your own operator's",
	})
	judge("lease", a.Lease, s.Gone.Namespace+"/"+s.Gone.Lease, map[string]string{
		s.Busy.Namespace + "/" + s.Busy.Lease: "its holder has renewed it, and it has not run out",
		s.Gone.Lease:                          "a Lease has a namespace, too: NAMESPACE/NAME",
	})
	judge("lost", a.Lost, s.ZombieBox, map[string]string{
		s.LivingBox: "that is the box of an icecream which is not being deleted",
	})
	return mistakes
}

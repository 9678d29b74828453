// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workload

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Wanted is an expected condition.
type Wanted struct {
	// Of is the type of the condition.
	Of     string
	Status string
	// Reason is the reason of the condition. Empty: any.
	Reason string
	// Mentions are texts that must all be in the message, in upper or lower case.
	Mentions []string
}

func (w Wanted) String() string {
	text := w.Of + " is " + w.Status
	if w.Reason != "" {
		text += " with the reason " + w.Reason
	}
	if len(w.Mentions) == 0 {
		return text
	}
	var quoted []string
	for _, part := range w.Mentions {
		quoted = append(quoted, strconv.Quote(part))
	}
	return text + " with a message that has " + strings.Join(quoted, " and ")
}

// Unlike describes how the conditions of an owner differ from the expected ones, for its present generation. Empty:
// they do not. The generation is that of our last write, which the watch may not have reported yet.
func (o *Owners) Unlike(name types.NamespacedName, generation int64, all []Wanted) string {
	object, exists := o.Get(name)
	if !exists {
		return name.Name + " is gone"
	}
	generation = max(generation, object.GetGeneration())
	for _, w := range all {
		is, exists := ConditionOf(object, w.Of)
		switch {
		case !exists:
			return fmt.Sprintf("%s has no condition %s", name.Name, w.Of)
		case is.ObservedGeneration != generation:
			return fmt.Sprintf("%s of %s has observedGeneration %d, and metadata.generation is %d",
				w.Of, name.Name, is.ObservedGeneration, generation)
		case is.Status != w.Status || (w.Reason != "" && is.Reason != w.Reason) || !w.mentionsAll(is.Message):
			return fmt.Sprintf("%s of %s is %s (%s: %s)",
				w.Of, name.Name, is.Status, is.Reason, strings.Join(strings.Fields(is.Message), " "))
		}
	}
	return ""
}

// HasMessage returns which of an owner's conditions still has the message that another client has written. Empty: none.
func HasMessage(owner *unstructured.Unstructured, message string, conditions ...string) string {
	for _, conditionType := range conditions {
		if is, _ := ConditionOf(owner, conditionType); is.Message == message {
			return fmt.Sprintf("the message of %s of %s is still that of the other client: %s",
				conditionType, owner.GetName(), message)
		}
	}
	return ""
}

// ConditionsPatch returns a merge patch of an owner's status that edits each of its conditions. If edit is nil, the
// patch removes all of them.
func ConditionsPatch(owner *unstructured.Unstructured, edit func(condition map[string]any)) ([]byte, error) {
	conditions := []any{}
	if edit != nil {
		conditions, _, _ = unstructured.NestedSlice(owner.Object, "status", "conditions")
	}
	for _, one := range conditions {
		if condition, ok := one.(map[string]any); ok {
			edit(condition)
		}
	}
	return json.Marshal(map[string]any{"status": map[string]any{"conditions": conditions}})
}

func (w Wanted) mentionsAll(message string) bool {
	for _, part := range w.Mentions {
		if !strings.Contains(strings.ToLower(message), strings.ToLower(part)) {
			return false
		}
	}
	return true
}

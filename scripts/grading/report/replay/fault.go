// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package replay

// FaultText describes a fault, given its name in package faults. The text is empty for an unknown name.
func FaultText(fault string) string { return faultTexts[fault] }

var faultTexts = map[string]string{
	"conflict":          "It was answered with 409 and not done, as if another client had been faster.",
	"too-many-requests": "It was answered with 429 and not done: too many requests, try again in a second.",
	"server-error":      "It was answered with 500 and not done.",
	"lost-answer":       "It was done, but the connection was cut before the answer arrived.",
	"slow":              "It was done, but the answer came late.",
	"stale":             "From here on the operator learned of changes late: its watch events were held back.",
	"cut":               "After it, all watches of the operator were cut.",
	"kill-before":       "The operator was killed before it was done.",
	"kill-after":        "It was done, then the operator was killed before the answer arrived.",
	"unavailable":       "It was answered with 503 and not done, as if the service were down.",
	"forbidden":         "It was answered with 403 and not done.",
	"no-answer":         "It was never answered, until the operator gave up.",
}

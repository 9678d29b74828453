// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package docs

import (
	"strings"
	"testing"
)

// A marker within a code block is part of the text, and the package leaves other comments alone.
func TestWithoutMarkersKeepsOtherText(t *testing.T) {
	t.Parallel()
	const page = `<!-- _class: small -->
%<!-- code: a.go#x -->
~~~go
x := 1
~~~
%<!-- /code -->
<!--
3 min. A note.
-->
~~~~text
~~~
<!-- code: a.go#shown -->
~~~~
%<!-- table: labs -->
| a | b |
%  <!-- /table -->
%<!-- diagram: wings -->
%<!-- /diagram -->
`
	var all, want strings.Builder
	for line := range strings.Lines(page) {
		marker, is := strings.CutPrefix(line, "%")
		all.WriteString(marker)
		if !is {
			want.WriteString(line)
		}
	}
	if got := string(WithoutMarkers([]byte(all.String()))); got != want.String() {
		t.Errorf("got:\n%s\nwant:\n%s", got, want.String())
	}
}

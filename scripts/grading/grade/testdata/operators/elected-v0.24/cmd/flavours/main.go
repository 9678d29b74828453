// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command flavours lists the flavours of the day.
package main

import "fmt"

func main() {
	for _, flavour := range []string{"vanilla", "chocolate", "strawberry"} {
		fmt.Println(flavour)
	}
}

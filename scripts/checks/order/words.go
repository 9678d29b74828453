// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package order

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// unusual holds names that are allowed and unexpected. Each of them is tried for every seed.
var unusual = []string{
	"v", "7", "é", "🍦", "抹茶", "vanille café", "crème brûlée", "مثلجات", "नारियल", "cafe\u0301", "ß", "İ",
	"Vanilla", "VANILLA", "vanilla ", " vanilla", "vanill", "vanilla-2",
	"vanilla_2", "vanilla.2", "rum & raisin", "50 %", "d'abricot",
	`say "cheese"`, `back\slash`, "one/two", "one,two", "one:two", "one;two", "one+two",
	"(one)", "[one]", "{one}", "<one>", "#1", "*", "~", "!", "?",
	"@", "$HOME", "`", "|", "=", "^", "-", "--", ".", "..", "_",
	"42", "-1", "1e3", "0x10", "true", "null", "nil", "no", "2026-01-01", "%s", "\u00a0x",
	"a name with rather many words in it, as a menu has them",
}

// alphabet holds the characters from which other names are drawn.
var alphabet = []rune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -_.,:/'&éèüßñçøåłđžαβγдежאבגابت中文味道한국어あいうアイ🍓🍫🍨")

// text draws a name. It neither begins nor ends with a space.
func text(random *rand.Rand) string {
	runes := make([]rune, 1+random.IntN(30))
	for i := range runes {
		runes[i] = alphabet[random.IntN(len(alphabet))]
	}
	if name := strings.TrimSpace(string(runes)); name != "" {
		return name
	}
	return "x"
}

// names draws count different names. In a long list they are short, because the size of a request is limited, too.
func names(random *rand.Rand, count int) []string {
	list := make([]string, 0, count)
	for len(list) < count {
		if count > 2*len(unusual) {
			list = append(list, fmt.Sprintf("f%d", len(list)+1))
		} else if name := name(random); !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// name draws a name of the menu, an unusual one, or one of any characters.
func name(random *rand.Rand) string {
	switch random.IntN(4) {
	case 0:
		return unusual[random.IntN(len(unusual))]
	case 1:
		return Menu[random.IntN(len(Menu))]
	}
	return text(random)
}

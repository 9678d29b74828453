// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package greenhouse has the Go code that the lectures show: the parts of an operator for a toy kind, Greenhouse. Each
// file belongs to one lecture and shows one idea as briefly as correct code can: climate.go (lecture 2), heating.go
// (3), webhook.go (4), certificate.go (5), order.go (6), camera.go (8), board.go (10), index.go (the page "From
// informers to frameworks"). The types are in package v1 below (1). Package bugs has incorrect code, in which readers
// look for mistakes (10).
//
// No lab uses this kind, so the code gives no solution away. Only its tests run it.
package greenhouse

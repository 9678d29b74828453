// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package controller brings icecreams to the state that they should be in. It does not validate them: the API server
// has done that before an icecream gets here.
package controller

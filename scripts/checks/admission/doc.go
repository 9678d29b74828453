// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package admission is how checks see admission: it sends requests and tells who answered what, the API server itself,
// a webhook or a policy. It takes what is registered away and puts it back, and knows when that has its effect. It
// judges nothing.
package admission

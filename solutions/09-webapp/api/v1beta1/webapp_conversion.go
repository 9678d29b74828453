// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1beta1

// Hub marks this version as the one through which all others are converted: each of them knows how to become this one, and how to be made
// of it.
func (*WebApp) Hub() {}

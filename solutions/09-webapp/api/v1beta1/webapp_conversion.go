// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1beta1

// Hub marks this version as the one through which all others are converted: each of them has a conversion to this
// version and one from it.
func (*WebApp) Hub() {}

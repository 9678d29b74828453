// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package admission tests admission control for checks: it sends requests and reports who answered them, the API server
// itself, a webhook or a policy. It removes registered webhooks and policies, restores them, and waits until the change
// takes effect. It gives no verdict.
package admission
